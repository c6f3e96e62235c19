//! Markdown: Braid's own documents are written in it.

use crate::said::{page, site_of, site_of_files};
use braid_manual::check::check_site;
use braid_manual::markdown::parse;
use std::path::{Path, PathBuf};

#[test]
fn headings_tables_code_and_links_are_there() {
    let text = "# Title\n\nSome *fine* `code` and [more](#below).\n\n| a | b |\n|---|---|\n| 1 | `2` |\n\n\
                ## Below\n\n1. one\n2. two\n\n   deeper\n\n```toml\nkey = \"<value>\"\n```\n\n> said\n\n## Below\n";
    let document = parse("x", text);
    assert_eq!(document.title, "Title");
    let ids: Vec<_> = document.sections.iter().map(|section| section.id.as_str()).collect();
    assert_eq!(ids, ["title", "below", "below-1"]);
    let site = site_of(document);
    let html = page(&site, "manual/x.html");
    for part in [
        "<em>fine</em>",
        "<code>code</code>",
        "<a href=\"#below\">more</a>",
        "<td><code>2</code></td>",
        "<span class=\"marker\">2.</span>",
        "key = &quot;&lt;value&gt;&quot;",
        "<h1 id=\"title\">",
        "<h2 id=\"below-1\">",
    ] {
        assert!(html.contains(part), "{part} is not in {html}");
    }
    assert!(check_site(&site).is_clean());
}

#[test]
fn raw_html_is_shown_not_obeyed() {
    let site = site_of(parse("x", "<script>alert(1)</script>\n\ntext <img src=x onerror=y>\n"));
    let html = page(&site, "manual/x.html");
    assert!(!html.contains("<script>alert") && !html.contains("<img"), "{html}");
    assert!(html.contains("&lt;script&gt;"));
}

#[test]
fn braids_own_documents_become_a_site_without_a_dead_link() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let files: Vec<PathBuf> = ["docs", "README.md"].iter().map(|file| root.join(file)).collect();
    let site = site_of_files(&files.iter().map(PathBuf::as_path).collect::<Vec<_>>());
    let report = check_site(&site);
    assert!(report.is_clean(), "{report:?}");
    assert!(report.pages > 20 && report.links > 1000, "{report:?}");
    // A link between files, a picture.
    assert!(page(&site, "manual/docs/README.html").contains("href=\"architecture.html\""));
    assert!(site.files.keys().any(|path| path.ends_with("six-3g.png")));
}
