//! Whatever a text is, no word of it is lost and its site is sound.

use crate::said::{assert_same_words, said_by_site, site_of};
use braid_manual::check::check_site;
use braid_manual::{markdown, text};
use proptest::collection::vec;
use proptest::prelude::*;

/// Pieces of which manuals are made, in any order.
fn piece() -> impl Strategy<Value = String> {
    let fixed = [
        "",
        "",
        "",
        "1. First",
        "1.1. Inside",
        "2 Second",
        "-----",
        "----+----+---",
        "=====",
        "Summary",
        "bind [<address>]:<port> [, ...]",
        "no option httpchk",
        "base32+src : binary",
        "daemon",
        "http-request set-var(<name>[,<cond>...]) <expr>",
        "Arguments :",
        "Example:",
        "Note : this.",
        "See also : \"bind\", section 1.1, and \"option httpchk\".",
        "- an item",
        "* another",
        "1) one",
        "a) first",
        "<address>   is where it listens",
        "Prose goes on here, as it does. So.",
        "May be used in sections :   defaults | frontend",
        "yes   |    no",
        "keyword   one   two",
        "-- keyword --- one - two",
        "acl   X   -",
        "log   (*)  X  -",
        "\"",
        "\"quoted words\" in section 2",
        "sections 1.1 and 2",
        "https://example.org/a?b=c.",
        "& < > \" ' é \u{2028} \u{fffd}",
        "\\",
        "...",
        "\ttabbed\tline",
        "a    b    c    d",
        "| a | b |",
        "---",
        "# Heading",
        "```",
        "| a | b |\n|---|---|",
        "version 2.6",
    ];
    let fixed = fixed.map(str::to_owned).to_vec();
    prop_oneof![8 => prop::sample::select(fixed), 1 => "[ -~]{0,60}", 1 => "\\PC{0,30}"]
}

fn line() -> impl Strategy<Value = String> {
    let indent = prop_oneof![3 => Just(0usize), 5 => 0..16usize, 1 => 0..90usize];
    (indent, piece()).prop_map(|(indent, piece)| format!("{}{piece}", " ".repeat(indent)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_word_of_a_plain_text_is_lost_and_no_link_is_dead(lines in vec(line(), 0..60)) {
        let source = lines.join("\n");
        let document = text::parse("any", &source);
        let json = serde_json::to_string(&document).unwrap();
        prop_assert_eq!(&serde_json::from_str::<braid_manual::model::Document>(&json).unwrap(), &document);
        let site = site_of(document);
        assert_same_words(&source, &said_by_site(&site, &stem(&site)));
        let report = check_site(&site);
        prop_assert!(report.is_clean(), "{report:?}");
    }

    #[test]
    fn any_markdown_becomes_a_sound_site(lines in vec(line(), 0..40)) {
        let site = site_of(markdown::parse("any", &lines.join("\n")));
        let report = check_site(&site);
        prop_assert!(report.is_clean(), "{report:?}");
    }
}

/// The text can have said its version.
fn stem(site: &braid_manual::site::Site) -> String {
    site.summary.documents[0].page.trim_end_matches(".html").to_owned()
}
