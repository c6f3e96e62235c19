//! How long a search of a site takes in Chromium, and what the first view of its largest page
//! needs: `cargo run --release -p braid-manual --example search -- DIR`

use braid_browser::Browser;
use braid_manual::serve::Server;
use serde_json::{Value, json};
use std::error::Error;
use std::path::{Path, PathBuf};

const QUERIES: [&str; 13] = [
    "httpchk",
    "maxconn",
    "a",
    "server",
    "timeout client",
    "stick-table",
    "req.hdr",
    "load balancing algorithm",
    "ssl certificate",
    "conections",
    "forwardfor header",
    "the of and",
    "zzzzqqq",
];
/// Of each query, the first one apart.
const TIMES: usize = 7;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = PathBuf::from(std::env::args_os().nth(1).ok_or("usage: search DIR")?);
    let page = largest_page(&folder)?;
    let runtime = tokio::runtime::Runtime::new()?;
    let server = runtime.block_on(Server::bind(&folder, "127.0.0.1:0".parse()?))?;
    let address = server.address()?;
    runtime.spawn(server.run(std::future::pending()));
    let browser = Browser::start().ok_or("there is no browser")?;
    let name = page.strip_prefix(&folder)?.display().to_string();

    browser.open(&format!("http://{address}/{name}"));
    let sent = "return performance.getEntriesByType('navigation')\
                .concat(performance.getEntriesByType('resource'))\
                .reduce((sum, entry) => sum + entry.transferSize, 0)";
    println!("first view of {name}: {} bytes", browser.run(sent, &[]));

    for (way, base) in [("http", format!("http://{address}/")), ("file", in_files(&folder)?)] {
        browser.open(&format!("{base}{name}"));
        let load = "const begun = performance.now(); \
                    return manual.ready().then(() => performance.now() - begun)";
        let loaded = browser.wait_for_promise(load, &[]);
        println!("{way}: index loaded in {:.0} ms", loaded.as_f64().unwrap_or(f64::NAN));
        let mut times: Vec<(f64, &str)> = Vec::new();
        for query in QUERIES {
            let took = browser.wait_for_promise(SEARCH, &[json!(query), json!(TIMES)]);
            let mut took: Vec<f64> =
                took.as_array().into_iter().flatten().filter_map(Value::as_f64).collect();
            let cold = took.remove(0);
            took.sort_by(f64::total_cmp);
            println!("{way}: {query:26} cold {cold:5.1} ms, then {:5.1} ms", took[took.len() / 2]);
            times.push((cold, query));
        }
        let longest = times.iter().max_by(|a, b| a.0.total_cmp(&b.0));
        println!("{way}: longest {longest:?}");
    }
    Ok(())
}

/// As a reader sees it: from a letter typed until the hits are shown and laid out.
const SEARCH: &str = "
    const [query, times] = arguments;
    const box = document.querySelector('.search');
    const list = document.querySelector('.hits');
    const once = async () => {
        list.replaceChildren();
        box.value = query;
        const begun = performance.now();
        box.dispatchEvent(new Event('input'));
        while (!list.children.length) await null;
        list.getBoundingClientRect();
        return performance.now() - begun;
    };
    return (async () => {
        const took = [];
        for (let at = 0; at <= times; at += 1) took.push(await once());
        return took;
    })()";

fn in_files(folder: &Path) -> Result<String, Box<dyn Error>> {
    Ok(format!("file://{}/", folder.canonicalize()?.display()))
}

fn largest_page(folder: &Path) -> Result<PathBuf, Box<dyn Error>> {
    let mut folders = vec![folder.to_owned()];
    let mut pages = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder)? {
            let (path, about) = {
                let entry = entry?;
                (entry.path(), entry.metadata()?)
            };
            if about.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "html") {
                pages.push((about.len(), path));
            }
        }
    }
    Ok(pages.into_iter().max().ok_or("there is no page")?.1)
}
