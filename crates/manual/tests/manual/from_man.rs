//! Man pages, by way of mandoc.

use crate::said::{page, site_of};
use braid_manual::check::check_site;
use braid_manual::man::{ManError, parse};
use braid_manual::model::Block;

const PAGE: &str = ".TH RELAY 8 2026-11-23 relay \"System Manager\"\n.SH NAME\nrelay \\- passes on\n\
.SH SYNOPSIS\n.B relay\n[\\fB\\-l\\fR \\fIaddress\\fR]\n.SH OPTIONS\n.TP\n.BI \\-l \" address\"\nWhere to listen.\n\
.TP\n.B \\-q\nSays nothing.\n.nf\nrelay -l :80\n    -q\n.fi\n.SS Signals\nTERM ends it. See <script>.\n";

#[test]
fn a_man_page_has_its_sections_options_and_examples() {
    let document = match parse("relay.8", PAGE) {
        Err(ManError::NoMandoc) => return eprintln!("SKIPPED: there is no mandoc"),
        document => document.unwrap(),
    };
    assert_eq!(document.title, "RELAY(8)");
    let headings: Vec<_> = document.sections.iter().map(|section| section.heading()).collect();
    assert_eq!(headings, ["NAME", "SYNOPSIS", "OPTIONS", "Signals"]);
    let options = &document.sections[2].blocks;
    let definitions = options.iter().find_map(|block| match block {
        Block::Definitions(definitions) => Some(definitions),
        _ => None,
    });
    assert_eq!(definitions.unwrap().len(), 2);
    let site = site_of(document);
    let html = page(&site, "manual/relay.8.html");
    assert!(html.contains("relay -l :80\n    -q"), "{html}");
    assert!(html.contains("&lt;script&gt;") && !html.contains("<script>."));
    for word in ["passes on", "Where to listen.", "Says nothing.", "TERM ends it."] {
        assert!(html.contains(word), "{word} is not in {html}");
    }
    assert!(check_site(&site).is_clean());
}
