//! What a text and a site say, word for word.

use braid_manual::input::{Reading, read};
use braid_manual::model::Document;
use braid_manual::site::{Input, Options, Site, build};
use html5gum::{Token, Tokenizer};
use std::path::Path;

/// The site of one document.
pub fn site_of(document: Document) -> Site {
    site_of_all(vec![document])
}

/// The site of some documents.
pub fn site_of_all(documents: Vec<Document>) -> Site {
    let inputs: Vec<Input> = documents
        .into_iter()
        .map(|document| Input { file: Path::new(&document.name).to_owned(), document })
        .collect();
    build(&inputs, &options(), |_, _| {}).unwrap()
}

/// The site of files.
pub fn site_of_files(files: &[&Path]) -> Site {
    let files: Vec<_> = files.iter().map(|file| (*file).to_owned()).collect();
    let inputs = read(&files, &Reading::default()).unwrap();
    build(&inputs, &options(), |_, _| {}).unwrap()
}

fn options() -> Options {
    Options { title: "Manuals".into(), base_url: None }
}

/// The page at that address.
pub fn page<'a>(site: &'a Site, path: &str) -> &'a str {
    std::str::from_utf8(&site.files[path]).unwrap()
}

/// What the pages of a document say in reading order, without what the text hasn't said itself.
pub fn said_by_site(site: &Site, stem: &str) -> String {
    let front = format!("{stem}.html");
    let inside = format!("{stem}/");
    let pages = site.reading_order.iter();
    pages
        .filter(|path| **path == front || path.starts_with(&inside))
        .map(|path| article(page(site, path)))
        .collect()
}

const INLINE: [&str; 11] =
    ["a", "b", "var", "code", "span", "small", "em", "strong", "mark", "i", "wbr"];
const VOID: [&str; 4] = ["br", "img", "input", "wbr"];

fn article(html: &str) -> String {
    let mut text = String::new();
    let mut inside = false;
    let mut generated = 0;
    for Ok(token) in Tokenizer::new(html) {
        match token {
            Token::StartTag(tag) => {
                let name = std::str::from_utf8(&tag.name).unwrap();
                inside |= name == "article";
                let marks = tag.attributes.keys().any(|key| key.as_slice() == b"data-generated");
                if (marks || generated > 0) && !VOID.contains(&name) {
                    generated += 1;
                }
                if !INLINE.contains(&name) {
                    text.push(' ');
                }
                if name == "img" && inside && generated == 0 {
                    let alt = tag.attributes.iter().find(|(key, _)| key.as_slice() == b"alt");
                    text.push_str(std::str::from_utf8(alt.unwrap().1).unwrap());
                }
            }
            Token::EndTag(tag) => {
                let name = std::str::from_utf8(&tag.name).unwrap();
                inside &= name != "article";
                generated = usize::saturating_sub(generated, 1);
                if !INLINE.contains(&name) {
                    text.push(' ');
                }
            }
            Token::String(string) if inside && generated == 0 => {
                text.push_str(std::str::from_utf8(&string).unwrap());
            }
            _ => {}
        }
    }
    text
}

/// The words of a text; what only draws lines between them is none.
pub fn words(text: &str) -> Vec<String> {
    let draws = |word: &&str| !word.chars().all(|c| "-=~^_*+".contains(c));
    // A table's head that is drawn into a ruler.
    let ruled = |line: &str| {
        let line = line.trim();
        line.starts_with("--") && line.ends_with('-')
    };
    let lines = text.lines().map(|line| match ruled(line) {
        true => line.replace('-', " "),
        false => line.to_owned(),
    });
    let text = lines.collect::<Vec<_>>().join("\n").replace('|', " ");
    // A section's number has a full stop or none.
    let number = |word: &str| word.chars().all(|c| c.is_ascii_digit() || c == '.');
    let said = |word: &str| match number(word) {
        true => word.trim_end_matches('.').to_owned(),
        false => word.to_owned(),
    };
    text.split_whitespace().filter(draws).map(said).collect()
}

/// Panics where the first word is lost, or added, or elsewhere.
#[track_caller]
pub fn assert_same_words(source: &str, site: &str) {
    let (expected, found) = (words(source), words(site));
    let same = expected.iter().zip(&found).take_while(|(a, b)| a == b).count();
    let near = |all: &[String]| {
        let start = same.saturating_sub(6);
        all[start..all.len().min(same + 8)].join(" ")
    };
    let whole = same == expected.len() && same == found.len();
    assert!(whole, "word {same}:\nsource: {}\nsite:   {}", near(&expected), near(&found));
}
