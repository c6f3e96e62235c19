use braid_manual::check::check_site;
use braid_manual::site::{Input, Options, build};
use braid_manual::{man, markdown, text};
use std::path::PathBuf;

/// A manual: the first byte selects plain text, Markdown, or a man page as mandoc's HTML. Whatever
/// it contains, its site is sound.
///
/// # Panics
/// If that doesn't hold: this is what the fuzzer looks for.
pub fn manual(data: &[u8]) {
    let Some((kind, rest)) = data.split_first() else { return };
    let source = String::from_utf8_lossy(rest);
    let document = match kind % 3 {
        0 => text::parse("fuzz", &source),
        2 => man::document("fuzz", &source),
        _ => markdown::parse("fuzz", &source),
    };
    let inputs = [Input { document, file: PathBuf::from("fuzz") }];
    let options = Options { title: "Fuzz".into(), base_url: None };
    let site = build(&inputs, &options, |_, _| {});
    let report = check_site(&site.expect("one document has its name for itself"));
    assert!(report.is_clean(), "{report:?}");
}
