//! The site in a real browser: from files without a server, and from `serve`.

use crate::debian::Haproxy;
use braid_browser::{Axe, Browser, keys};
use braid_manual::input::{Reading, read};
use braid_manual::serve::Server;
use braid_manual::site::{Input, Options, Site, build};
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

const SAMPLE: &str = include_str!("fixtures/relay.txt");

struct Written {
    folder: TempDir,
    site: Site,
}

impl Written {
    fn of(inputs: &[Input]) -> Written {
        let folder = tempfile::tempdir().unwrap();
        let options = Options { title: "Manuals".into(), base_url: None };
        let site = build(inputs, &options, |_, _| {}).unwrap();
        site.write(&folder.path().join("site")).unwrap();
        Written { folder, site }
    }

    /// Two versions of the made-up manual; the older one lacks a keyword and has another section.
    fn sample() -> Written {
        let older = SAMPLE
            .replace("version 1.4", "version 1.3")
            .replace(
                "51layer-file <file path>\n  Where the layers are.",
                "other <file path>\n  Else.",
            )
            .replace("3. Values\n---------", "4. Values\n---------");
        let sources = tempfile::tempdir().unwrap();
        let files: Vec<PathBuf> = [("new", SAMPLE), ("old", older.as_str())]
            .map(|(name, text)| {
                let path = sources.path().join(name).join("relay.txt");
                fs::create_dir(path.parent().unwrap()).unwrap();
                fs::write(&path, text).unwrap();
                path
            })
            .to_vec();
        Written::of(&read(&files, &Reading::default()).unwrap())
    }

    fn haproxy() -> Option<(Written, Haproxy)> {
        let debian = Haproxy::of_this_release()?;
        let files = ["configuration", "management", "intro"].map(|name| debian.manual(name));
        Some((Written::of(&read(&files, &Reading::default()).unwrap()), debian))
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("site")
    }

    /// By `file://`: no server, no other host.
    fn url(&self, page: &str) -> String {
        format!("file://{}/{page}", self.path().display())
    }

    fn front(&self) -> &str {
        &self.site.summary.documents[0].page
    }
}

/// Pages load without an error, and nothing from elsewhere.
fn assert_quiet(browser: &Browser) {
    let console = browser.console();
    assert!(console.is_empty(), "{console:?}");
    let loaded = browser
        .run("return performance.getEntriesByType('resource').map(entry => entry.name)", &[]);
    let own = browser.run("return location.protocol + '//' + location.host", &[]);
    for name in loaded.as_array().unwrap() {
        assert!(name.as_str().unwrap().starts_with(own.as_str().unwrap()), "{name}");
    }
}

fn search(browser: &Browser, words: &str) {
    browser.keys(".search", words);
    let shown = format!(
        "return document.querySelector('.search').value === {} \
         && !document.querySelector('.hits').hidden \
         && document.querySelectorAll('.hits a').length",
        json!(words)
    );
    browser.wait_until(&shown);
}

#[test]
fn search_follow_and_back_work_from_files() {
    let Some(browser) = Browser::start() else { return };
    let written = Written::sample();
    browser.open(&written.url("1.4/relay.html"));
    // By its key.
    browser.keys("body", "/");
    assert_eq!(browser.run("return document.activeElement.className", &[]), "search");
    search(&browser, "1lay");
    let first = "return document.querySelector('.hits a b').textContent";
    assert_eq!(browser.run(first, &[]), "51layer-file", "completed by what it has");
    browser.keys(".search", keys::ESCAPE);
    browser.run("document.querySelector('.search').value = ''", &[]);
    search(&browser, "eleven");
    let marked =
        "return [...document.querySelectorAll('.hits p mark')].map(m => m.textContent).join()";
    assert_eq!(browser.run(marked, &[]), "eleven", "an example's word, with the hit marked");
    browser.keys(".search", keys::DOWN);
    browser.keys(".search", keys::ENTER);
    browser.wait_until("return location.hash === '#2.2-listen'");
    let marked = "return document.querySelector('article mark')?.textContent";
    assert_eq!(browser.wait_until(marked), "eleven", "marked where the hit led to");
    browser.back();
    browser.wait_until("return !location.hash && location.pathname.endsWith('relay.html')");
    browser.run("document.querySelector('.search').value = ''", &[]);
    // A slip of the finger.
    search(&browser, "conections");
    assert!(browser.text(".hits").contains("connections"));
    browser.run("document.querySelector('.search').value = ''", &[]);
    browser.keys(".search", "zzzzqqq");
    browser.wait_until("return document.querySelector('.found').textContent === 'Nothing found'");
    assert_quiet(&browser);
}

#[test]
fn another_version_opens_at_the_same_keyword() {
    let Some(browser) = Browser::start() else { return };
    let written = Written::sample();
    // Its section has another number there.
    browser.open(&written.url("1.4/relay.html#3-addr32+port"));
    browser.click(".versions summary");
    browser.click("[data-to-version='1.3']");
    browser.wait_until("return location.pathname.includes('/1.3/') && location.hash");
    assert_eq!(browser.run("return decodeURIComponent(location.hash)", &[]), "#4-addr32+port");
    // What the older one hasn't is marked.
    browser.open(&written.url("1.4/relay.html"));
    let since =
        "return [...document.querySelectorAll('.since')].map(e => e.textContent + '/' + e.title)";
    assert_eq!(browser.run(since, &[]), json!(["since 1.4/not in 1.3"]));
    assert_quiet(&browser);
}

#[test]
fn keys_turn_pages_paper_has_the_text_alone_and_the_dark_is_dark() {
    let Some(browser) = Browser::start() else { return };
    // Too long for one page.
    let chapter = |number: usize| {
        let text = "It goes on and on, and says little. ".repeat(2000);
        format!("{number}. Chapter {number}\n-----------\n\n{text}\n\n")
    };
    let sources = tempfile::tempdir().unwrap();
    let file = sources.path().join("long.txt");
    fs::write(&file, (1..4).map(chapter).collect::<String>()).unwrap();
    let written = Written::of(&read(&[file], &Reading::default()).unwrap());
    browser.open(&written.url("manual/long/1.html"));
    browser.keys("body", "n");
    browser.wait_until("return location.pathname.endsWith('/long/2.html')");
    browser.keys("body", "p");
    browser.wait_until("return location.pathname.endsWith('/long/1.html')");
    let seen = "return ['header', '.side', '.breadcrumbs', '.turning', 'article']\
                .filter(css => document.querySelector(css).getClientRects().length)";
    assert_eq!(browser.run(seen, &[]).as_array().unwrap().len(), 5);
    browser.devtools("Emulation.setEmulatedMedia", &json!({ "media": "print" }));
    assert_eq!(browser.run(seen, &[]), json!(["article"]));
    let lightness = |colours: &str| {
        let feature = json!({ "name": "prefers-color-scheme", "value": colours });
        let media = json!({ "media": "screen", "features": [feature] });
        browser.devtools("Emulation.setEmulatedMedia", &media);
        let sum = "const painted = getComputedStyle(document.body).backgroundColor; \
                   return painted.match(/\\d+/g).slice(0, 3).reduce((sum, c) => sum + +c, 0)";
        browser.run(sum, &[]).as_i64().unwrap()
    };
    assert!(lightness("light") > 600 && lightness("dark") < 150);
}

#[test]
fn served_it_works_as_well_and_only_the_sites_files_are_given() {
    let Some(browser) = Browser::start() else { return };
    let written = Written::sample();
    fs::write(written.folder.path().join("secret"), "beside the site").unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let address = "127.0.0.1:0".parse().unwrap();
    let server = runtime.block_on(Server::bind(&written.path(), address)).unwrap();
    let base = format!("http://{}/", server.address().unwrap());
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let serving = runtime.spawn(server.run(async {
        let _ = stopped.await;
    }));
    browser.open(&base);
    browser.click("main a");
    browser.wait_until("return location.pathname === '/1.4/relay.html'");
    search(&browser, "layers");
    let status = "return fetch(arguments[0]).then(answer => answer.status)";
    for path in ["../secret", "%2e%2e/secret", "..%2fsecret", "assets/../../secret"] {
        assert_eq!(
            browser.wait_for_promise(status, &[json!(format!("{base}{path}"))]),
            404,
            "{path}"
        );
    }
    let _ = stop.send(());
    runtime.block_on(serving).unwrap();
}

/// Old addresses of haproxy-dconv, all that its page has and all that lead to it from elsewhere.
#[test]
fn addresses_of_dconv_lead_to_the_same_keyword() {
    let Some((written, debian)) = Written::haproxy() else { return };
    let Some(browser) = Browser::start() else { return };
    browser.open(&written.url(&format!("{}#4.2-bind", written.front())));
    browser.wait_until("return document.title.startsWith('bind ')");
    browser.open(&written.url(&format!("{}#option%20httpchk", written.front())));
    browser.wait_until("return document.title.startsWith('option httpchk ')");
    browser.open(&written.url(written.front()));
    let page = debian.dconv("configuration");
    let mut anchors: Vec<&str> = page
        .split("href=\"#")
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
        .filter(|anchor| !anchor.is_empty())
        .collect();
    anchors.sort_unstable();
    anchors.dedup();
    assert!(anchors.len() > 800, "only {} addresses", anchors.len());
    let lost = browser.wait_for_promise(
        "return Promise.all(arguments[0].map(anchor => {
             const element = document.createElement('textarea');
             element.innerHTML = anchor;
             const name = decodeURIComponent(element.value);
             return manual.oldPlace(name).then(place => place ? null : name);
         })).then(all => all.filter(name => name))",
        &[json!(anchors)],
    );
    assert_eq!(lost, json!([]));
}

#[test]
fn a_search_finds_what_is_meant_first() {
    let Some((written, _)) = Written::haproxy() else { return };
    let Some(browser) = Browser::start() else { return };
    browser.open(&written.url(written.front()));
    for (words, wanted) in [
        ("httpchk", "option httpchk"),
        ("roundrobin", "balance"),
        ("maxconn", "maxconn"),
        ("forwardfor", "option forwardfor"),
        ("req.hdr", "req.hdr"),
    ] {
        browser.run("document.querySelector('.search').value = ''", &[]);
        search(&browser, words);
        let names = "return [...document.querySelectorAll('.hits a b')].slice(0, 6).map(b => b.textContent)";
        let names = browser.run(names, &[]);
        assert!(names.as_array().unwrap().contains(&json!(wanted)), "{words}: {names}");
    }
    assert_quiet(&browser);
}

/// axe-core, fetched by npm, finds nothing, in the light and in the dark, wide and narrow.
#[test]
fn axe_finds_nothing() {
    let Some(axe) = Axe::fetch(Path::new(env!("CARGO_TARGET_TMPDIR"))) else { return };
    let Some(browser) = Browser::start() else { return };
    let sample = Written::sample();
    let mut pages = vec![
        sample.url("index.html"),
        sample.url("1.4/relay.html"),
        sample.url("1.4/relay-keywords.html"),
    ];
    let haproxy = Written::haproxy();
    if let Some((written, _)) = &haproxy {
        let stem = written.front().trim_end_matches(".html");
        pages.extend(
            ["", "/4.1", "/4.2", "/4.2-bind", "/2"]
                .map(|at| written.url(&format!("{stem}{at}.html"))),
        );
    }
    for (colours, width) in [("light", 1280), ("dark", 400)] {
        let media = json!({ "features": [{ "name": "prefers-color-scheme", "value": colours }] });
        browser.devtools("Emulation.setEmulatedMedia", &media);
        browser.resize(width, 900);
        for page in &pages {
            browser.open(page);
            assert_axe_finds_nothing(&browser, &axe, page);
        }
        browser.open(&sample.url("1.4/relay.html"));
        search(&browser, "listen");
        browser.keys(".search", keys::DOWN);
        assert_axe_finds_nothing(&browser, &axe, "hits");
    }
}

fn assert_axe_finds_nothing(browser: &Browser, axe: &Axe, page: &str) {
    assert_eq!(browser.violations(axe), [""; 0], "{page}");
    assert_eq!(browser.overflow(), 0, "{page} scrolls sideways");
}

/// The copy in assets/ is the one that its makers publish.
#[test]
fn minisearch_is_as_published() {
    let work = tempfile::tempdir().unwrap();
    let packed = Command::new("npm").args(["pack", "minisearch@7.2.0"]).current_dir(&work).output();
    let archive = work.path().join("minisearch-7.2.0.tgz");
    if packed.is_err() || !archive.exists() {
        return eprintln!("SKIPPED: npm can't fetch minisearch");
    }
    let file = |name: &str| {
        let output = Command::new("tar").arg("xzOf").arg(&archive).arg(name).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let ours = |name: &str| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/minisearch").join(name);
        fs::read_to_string(path).unwrap()
    };
    assert!(ours("minisearch.js") == file("package/dist/umd/index.js"));
    assert!(ours("LICENSE.txt") == file("package/LICENSE.txt"));
}
