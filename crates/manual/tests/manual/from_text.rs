//! Plain text: what each of its forms becomes.

use crate::said::{assert_same_words, page, said_by_site, site_of};
use braid_manual::check::check_site;
use braid_manual::model::{Block, Document, Format, Label};
use braid_manual::text::parse;

const SAMPLE: &str = include_str!("fixtures/relay.txt");

fn sample() -> Document {
    parse("relay", SAMPLE)
}

#[test]
fn title_version_and_sections_are_those_of_the_text() {
    let document = sample();
    assert_eq!(document.title, "Relay Configuration Guide");
    assert_eq!(document.version.as_deref(), Some("1.4"));
    assert_eq!(document.format, Format::Text);
    let numbers: Vec<_> = document.sections.iter().filter_map(|s| s.number.as_deref()).collect();
    assert_eq!(numbers, ["1", "1.1", "2", "2.1", "2.2", "3"]);
}

#[test]
fn keywords_have_names_arguments_and_what_they_give() {
    let document = sample();
    let heads: Vec<_> = document
        .sections
        .iter()
        .flat_map(|section| section.keywords())
        .flat_map(|keyword| &keyword.heads)
        .collect();
    let named =
        |id: &str| *heads.iter().find(|head| head.id == id).unwrap_or_else(|| panic!("{id}"));
    let listen = named("2.2-listen");
    assert_eq!(listen.name, "listen");
    assert_eq!(listen.arguments, ["address", "port_range", "n"]);
    assert!(listen.syntax.contains("[ backlog <n> ]"), "the second line belongs to it");
    assert_eq!(named("2.2-option-relay").name, "option relay");
    assert!(named("2.2-option-relay-2").negated);
    assert_eq!(named("3-addr32+port").output.as_deref(), Some("integer + string"));
    assert_eq!(named("2.2-51layer-file").name, "51layer-file");
    // Of two sections.
    assert_eq!(named("3-listen").name, "listen");
    let names: Vec<_> = heads.iter().map(|head| head.name.as_str()).collect();
    assert_eq!(names.len(), 7, "{names:?}: a path at the margin and a sentence are no keywords");
}

#[test]
fn arguments_examples_and_contexts_are_what_they_say() {
    let document = sample();
    let keyword = document.sections[5].keywords().next().unwrap();
    let labels: Vec<Label> = keyword
        .blocks
        .iter()
        .filter_map(|block| match block {
            Block::Labelled(labelled) => Some(labelled.kind),
            _ => None,
        })
        .collect();
    assert_eq!(labels, [Label::Arguments, Label::Example, Label::Note, Label::SeeAlso]);
    let contexts = keyword.blocks.iter().find_map(|block| match block {
        Block::Contexts(contexts) => Some(contexts),
        _ => None,
    });
    let contexts = contexts.unwrap();
    assert_eq!(contexts.sections, ["defaults", "entry", "exit"]);
    assert_eq!(contexts.allowed, ["no", "yes(!)", "yes"]);
    let arguments = keyword.blocks.iter().find_map(|block| match block {
        Block::Labelled(labelled) if labelled.kind == Label::Arguments => Some(&labelled.blocks),
        _ => None,
    });
    let [Block::Definitions(definitions)] = arguments.unwrap().as_slice() else {
        panic!("{arguments:?}")
    };
    assert_eq!(definitions.len(), 2);
}

#[test]
fn the_matrix_is_a_table_whose_keywords_lead_to_them() {
    let site = site_of(sample());
    let html = page(&site, "1.4/relay.html");
    let (_, table) = html.split_once("<th scope=\"col\">setting</th>").unwrap();
    let (table, _) = table.split_once("</table>").unwrap();
    assert_eq!(table.matches("<th scope=\"row\">").count(), 3);
    assert_eq!(table.matches("<th scope=\"row\"><a href=\"#2.2-").count(), 3);
    // In the middle and at the end.
    assert_eq!(table.matches("<tr class=\"head-again\">").count(), 2);
    assert!(table.contains("<small>(*)</small>"));
    assert!(table.contains("<td class=\"partly\">X (!)</td>"));
}

#[test]
fn what_is_named_is_linked_where_it_is_meant() {
    let site = site_of(sample());
    let html = page(&site, "1.4/relay.html");
    // "listen" of section 3 is said to be there; without that it is the one of the same section.
    assert!(html.contains("&quot;<a href=\"#3-listen\">listen</a>&quot; in section"));
    assert!(html.contains("&quot;<a href=\"#2.2-listen\">listen</a>&quot;."));
    assert!(html.contains("sections <a href=\"#2.1\">2.1</a> and <a href=\"#3\">3</a>"));
    // No section 9 is there, nor a keyword of that name.
    assert!(html.contains("section 9.9"));
    assert!(html.contains("&quot;nothing&quot;"));
}

#[test]
fn no_word_is_lost_and_no_link_is_dead() {
    let site = site_of(sample());
    assert_same_words(SAMPLE, &said_by_site(&site, "1.4/relay"));
    let report = check_site(&site);
    assert!(report.is_clean() && report.links > 20, "{report:?}");
}

#[test]
fn what_looks_like_html_is_text() {
    let text = "1. <script>\n-----------\n\n<b>alert(1)</b> & \"<img src=x>\"\n\nkey <a onclick=x>\n  <i>\n";
    let site = site_of(parse("x", text));
    let html = page(&site, "manual/x.html");
    for tag in ["<script>", "<b>alert", "<img", "<i>", "<a onclick"] {
        assert!(!html.contains(tag), "{tag}");
    }
    assert_same_words(text, &said_by_site(&site, "manual/x"));
}
