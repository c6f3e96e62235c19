//! Running text: quoted words, "section 4.2", addresses.

use crate::model::{Inline, Link};

/// So many words before a number can say that it is a section's.
const LONGEST_LISTING: usize = 8;
/// Quoted words longer than this name nothing, in bytes.
const LONGEST_QUOTED: usize = 80;

/// Cuts `text` into its pieces; joined again they are `text`.
pub fn inlines(text: &str) -> Vec<Inline> {
    let mut found = Vec::new();
    let (mut plain, mut at) = (0, 0);
    while at < text.len() {
        let rest = &text[at..];
        let piece = quoted(rest).or_else(|| address(rest)).or_else(|| section(&text[..at], rest));
        let Some((inline, length)) = piece else {
            at += rest.chars().next().map_or(1, char::len_utf8);
            continue;
        };
        add_text(&text[plain..at], &mut found);
        found.push(inline);
        at += length;
        plain = at;
    }
    add_text(&text[plain..], &mut found);
    found
}

fn add_text(text: &str, found: &mut Vec<Inline>) {
    if !text.is_empty() {
        found.push(Inline::Text(text.to_owned()));
    }
}

fn quoted(rest: &str) -> Option<(Inline, usize)> {
    let inside = rest.strip_prefix('"')?;
    let end = inside.bytes().take(LONGEST_QUOTED).position(|b| b == b'"')?;
    let inside = &inside[..end];
    let named = !inside.trim().is_empty();
    named.then(|| (Inline::Quoted(inside.to_owned()), end + 2))
}

fn address(rest: &str) -> Option<(Inline, usize)> {
    let scheme = ["https://", "http://"].into_iter().find(|scheme| rest.starts_with(scheme))?;
    let end = rest.find(|c: char| c.is_whitespace() || "<>\"'`".contains(c)).unwrap_or(rest.len());
    let url = rest[..end].trim_end_matches(['.', ',', ')', ':', ';', ']']);
    let text = vec![Inline::Text(url.to_owned())];
    (url.len() > scheme.len()).then(|| (Inline::Link(Link { to: url.to_owned(), text }), url.len()))
}

/// A number after "section", "sections 4.1 and", "chapter".
fn section(before: &str, rest: &str) -> Option<(Inline, usize)> {
    let starts = rest.starts_with(|c: char| c.is_ascii_digit());
    if !starts || !before.ends_with(char::is_whitespace) {
        return None;
    }
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    let number = rest[..end].trim_end_matches('.');
    let mut words = before.split_whitespace().rev().take(LONGEST_LISTING);
    let mut word = words.next()?;
    // "sections 7.1 and 7.2", "sections 4.1, 4.2".
    let listed = |word: &str| word.bytes().all(|b| b.is_ascii_digit() || b == b'.' || b == b',');
    while matches!(word, "and" | "or" | "&" | "to") || listed(word) {
        word = words.next()?;
    }
    let word = word.trim_start_matches(|c: char| !c.is_alphanumeric()).to_ascii_lowercase();
    let names = matches!(
        word.as_str(),
        "section" | "sections" | "chapter" | "chapters" | "paragraph" | "paragraphs"
    );
    names.then(|| (Inline::Section(number.to_owned()), number.len()))
}
