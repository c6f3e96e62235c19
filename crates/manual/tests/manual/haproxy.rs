//! HAProxy's manuals, held against what haproxy-dconv makes of them.

use crate::debian::Haproxy;
use crate::said::{assert_same_words, page, said_by_site, site_of_files};
use braid_manual::check::check_site;
use braid_manual::input::{Reading, read};
use braid_manual::model::{Block, Document, Head};
use braid_manual::site::Site;
use flate2::read::MultiGzDecoder;
use html5gum::{Token, Tokenizer};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

const MANUALS: [&str; 3] = ["configuration", "management", "intro"];

fn text(path: &Path) -> String {
    let mut text = String::new();
    MultiGzDecoder::new(File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    text
}

fn document(path: PathBuf) -> Document {
    read(&[path], &Reading::default()).unwrap().remove(0).document
}

fn heads(document: &Document) -> Vec<&Head> {
    let keywords = document.sections.iter().flat_map(|section| section.keywords());
    keywords.flat_map(|keyword| &keyword.heads).collect()
}

/// Folds spaces and lines.
fn folded(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn site(debian: &Haproxy) -> Site {
    let files = MANUALS.map(|name| debian.manual(name));
    site_of_files(&files.each_ref().map(PathBuf::as_path))
}

/// Of this release; made once for all tests.
fn site_of_this_release() -> Option<&'static (Haproxy, Site)> {
    static SITE: OnceLock<Option<(Haproxy, Site)>> = OnceLock::new();
    let made = SITE.get_or_init(|| {
        let debian = Haproxy::of_this_release()?;
        let site = site(&debian);
        Some((debian, site))
    });
    made.as_ref()
}

#[test]
fn every_word_is_there_in_order() {
    let releases = [Haproxy::of_this_release(), Haproxy::of("trixie"), Haproxy::of("bullseye")];
    for debian in releases.into_iter().flatten() {
        let site = site(&debian);
        for summary in &site.summary.documents {
            let source = text(&debian.manual(&summary.name));
            let stem = summary.page.trim_end_matches(".html");
            assert_same_words(&source, &said_by_site(&site, stem));
        }
    }
}

#[test]
fn no_link_is_dead_and_no_id_is_there_twice() {
    let Some((_, site)) = site_of_this_release() else { return };
    let report = check_site(site);
    assert!(report.is_clean(), "{:?} {:?}", report.dead, report.duplicates);
    assert!(report.links > 10_000, "only {} links", report.links);
}

#[test]
fn all_sections_are_those_of_the_texts_own_contents_and_can_be_reached() {
    let Some((debian, site)) = site_of_this_release() else { return };
    let document = document(debian.manual("configuration"));
    let told: BTreeSet<String> = document
        .sections
        .iter()
        .flat_map(|section| &section.blocks)
        .filter_map(|block| match block {
            Block::Contents(entries) => Some(entries),
            _ => None,
        })
        .flatten()
        .map(|entry| entry.number.trim_end_matches('.').to_owned())
        .collect();
    let found: BTreeSet<String> =
        document.sections.iter().filter_map(|section| section.number.clone()).collect();
    let missing: Vec<_> = told.difference(&found).collect();
    assert!(missing.is_empty(), "{missing:?}");
    let linked: usize = found
        .iter()
        .filter(|number| {
            let front = format!("{}.html", stem(site));
            page(site, &front).contains(&format!("#{number}\">"))
        })
        .count();
    assert_eq!(linked, found.len());
    if document.version.as_deref() == Some("2.6") {
        assert_eq!(found.len(), 96);
    }
}

fn stem(site: &Site) -> String {
    site.summary.documents[0].page.trim_end_matches(".html").to_owned()
}

/// What dconv shows as keywords.
fn dconv_keywords(html: &str) -> Vec<String> {
    let mut keywords = Vec::new();
    let mut depth = 0;
    for Ok(token) in Tokenizer::new(html) {
        match token {
            Token::StartTag(tag) if tag.name.as_slice() == b"div" => {
                let is_keyword = tag.attributes.iter().any(|(key, value)| {
                    key.as_slice() == b"class" && value.as_slice() == b"keyword"
                });
                if is_keyword {
                    keywords.push(String::new());
                    depth = 1;
                } else if depth > 0 {
                    depth += 1;
                }
            }
            Token::EndTag(tag) if tag.name.as_slice() == b"div" => {
                depth = usize::saturating_sub(depth, 1);
            }
            Token::String(string) if depth > 0 => {
                let text = std::str::from_utf8(&string).unwrap();
                keywords.last_mut().unwrap().push_str(text);
            }
            _ => {}
        }
    }
    keywords
}

#[test]
fn all_keywords_that_dconv_finds_are_there_and_none_that_is_none() {
    let Some(debian) = Haproxy::of_this_release() else { return };
    let document = document(debian.manual("configuration"));
    let mut ours: BTreeMap<String, usize> = BTreeMap::new();
    for head in heads(&document) {
        let first = head.syntax.lines().next().unwrap();
        *ours.entry(folded(first)).or_default() += 1;
    }
    let theirs = dconv_keywords(&debian.dconv("configuration"));
    assert!(theirs.len() > 1000, "only {} were found in dconv's page", theirs.len());
    let mut missing = Vec::new();
    for keyword in &theirs {
        match ours.get_mut(&folded(keyword.trim().lines().next().unwrap())) {
            Some(count) if *count > 0 => *count -= 1,
            _ => missing.push(keyword),
        }
    }
    assert!(missing.is_empty(), "{missing:?}");
    // What only we have: dconv takes no keyword that begins with a digit, is of two brackets, or
    // that nothing tells apart from running text.
    let more: Vec<_> = ours.iter().filter(|(_, count)| **count > 0).map(|(head, _)| head).collect();
    for head in &more {
        let begins = ["51", "map_<", "ipv4(", "ipv6("].iter().any(|start| head.starts_with(start));
        assert!(begins || document.version.as_deref() != Some("2.6"), "{head} is a keyword");
    }
    if document.version.as_deref() == Some("2.6") {
        assert_eq!((theirs.len(), more.len()), (1411, 10));
    }
}

#[test]
fn names_have_what_belongs_to_them() {
    let releases = [Haproxy::of_this_release(), Haproxy::of("trixie"), Haproxy::of("bullseye")];
    for debian in releases.into_iter().flatten() {
        for name in MANUALS {
            let document = document(debian.manual(name));
            for head in heads(&document) {
                let good =
                    |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || " -_.+*".contains(c);
                assert!(!head.name.is_empty() && head.name.chars().all(good), "{head:?}");
                assert!(head.name.split(' ').count() <= 5, "{head:?}");
                assert!(!head.name.contains("irq"), "{head:?}");
            }
        }
        let document = document(debian.manual("configuration"));
        let names: BTreeSet<&str> =
            heads(&document).iter().map(|head| head.name.as_str()).collect();
        for name in [
            "base32+src",
            "url32+src",
            "option httpchk",
            "http-request set-header",
            "bind",
            "balance",
            "stats socket",
            "req.hdr",
            "default_backend",
            "51degrees-data-file",
        ] {
            let moved = name.starts_with("http-request ") && !names.contains(name);
            assert!(names.contains(name) || moved, "{name}");
        }
    }
}

#[test]
fn the_matrix_is_a_table_and_all_its_rows_lead_to_keywords() {
    let Some((debian, site)) = site_of_this_release() else { return };
    let path = format!("{}/4.1.html", stem(site));
    let (_, table) = page(site, &path).split_once("<div class=\"table\"").unwrap();
    let (table, _) = table.split_once("</table>").unwrap();
    let rows = table.matches("<th scope=\"row\">").count();
    assert_eq!(table.matches("<th scope=\"row\"><a href=").count(), rows);
    // Each has a cell for defaults, frontend, listen and backend.
    let cells = table.matches("<td class=").count();
    assert_eq!(cells, rows * 4);
    // As many as the text has lines between its rulers.
    let source = text(&debian.manual("configuration"));
    let (_, matrix) = source.split_once("---+----------+----------+---------+---------\n").unwrap();
    let (matrix, _) = matrix.split_once("-----+----------+").unwrap();
    let lines = matrix.lines().filter(|line| !line.starts_with("--"));
    assert_eq!(rows, lines.count());
    assert!(rows > 100, "only {rows} rows");
}

/// Chromium counts what it is sent; here it is what a page names.
#[test]
fn a_first_view_is_less_than_200_kb() {
    let Some((_, site)) = site_of_this_release() else { return };
    let assets = ["assets/manual.css", "assets/manual.js"].map(|path| site.files[path].len());
    let assets: usize = assets.iter().sum();
    let lists = site.files.keys().filter(|path| path.ends_with("-keywords.html"));
    for path in site.reading_order.iter().chain(lists) {
        let size = site.files[path].len() + assets;
        assert!(size <= 200_000, "{path} is {size} bytes with style and script");
    }
}
