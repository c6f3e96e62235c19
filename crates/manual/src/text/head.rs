//! The lines that define keywords: at the margin, after a blank line, the keyword first, then
//! what it takes.

use super::line::Line;
use super::outline::heading_at;
use crate::model::Head;

/// Lines that are defined together.
pub struct HeadGroup {
    pub heads: Vec<Head>,
    /// How many lines they take.
    pub lines: usize,
}

/// A line goes on with the next if that is set in at least so far, which text below a
/// keyword isn't.
const CONTINUATION: usize = 4;
/// A keyword has no more words than this; a sentence has.
const MOST_WORDS: usize = 5;

impl HeadGroup {
    /// The group at the first of `lines`, if one begins there. Right below a heading it needs no
    /// text of its own.
    pub fn read(lines: &[Line<'_>], below_heading: bool) -> Option<HeadGroup> {
        let mut heads = Vec::new();
        let mut at = 0;
        while let Some(line) = lines.get(at).filter(|line| !line.is_blank() && line.indent == 0) {
            if !is_head(line.text) || heading_at(lines, at).is_some() {
                return None;
            }
            let mut syntax = line.text.to_owned();
            at += 1;
            while let Some(more) = lines.get(at).filter(|more| goes_on(&syntax, more)) {
                syntax.push('\n');
                more.cut(0, &mut syntax);
                at += 1;
            }
            heads.push(read_head(syntax));
        }
        let next = lines[at..].iter().position(|line| !line.is_blank()).map(|skip| at + skip);
        let defines = next.is_none_or(|next| {
            let line = &lines[next];
            line.indent > 0 || is_head(line.text) || heading_at(lines, next).is_some()
        });
        (!heads.is_empty() && (defines || below_heading)).then_some(HeadGroup { heads, lines: at })
    }
}

/// Whether a line at the margin can define a keyword, or is a sentence.
fn is_head(text: &str) -> bool {
    let before = &text[..text.find(OPENING).unwrap_or(text.len())];
    let bracketed = before.len() < text.len();
    let mut words: Vec<&str> = before.split_whitespace().take_while(|word| *word != ":").collect();
    // What a bracket is tied to is no word: "bind /<path>".
    if words.len() > 1 && bracketed && !before.ends_with(char::is_whitespace) {
        words.pop();
    }
    let Some(first) = words.first() else { return false };
    let plain = |word: &&str| word.bytes().all(is_keyword_byte);
    let named = first.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
        && first.bytes().any(|b| b.is_ascii_lowercase())
        && first.len() > 1;
    let sentence = !text.ends_with("...") && text.ends_with([',', ';', '.', '?', '!']);
    let announces = text.ends_with(':') && !bracketed;
    named && !sentence && !announces && words.len() <= MOST_WORDS && words.iter().all(plain)
}

const OPENING: [char; 5] = ['<', '[', '{', '(', '|'];

fn is_keyword_byte(b: u8) -> bool {
    b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'_' | b'.' | b'+' | b'*')
}

/// Whether `next` continues the line that `so_far` has.
fn goes_on(so_far: &str, next: &Line<'_>) -> bool {
    let count = |brackets: [char; 3]| so_far.matches(brackets).count();
    let open = count(['<', '[', '{']) > count(['>', ']', '}']);
    let takes = next.text.starts_with(OPENING) || next.text.contains(" <");
    !next.is_blank() && next.indent >= CONTINUATION && (open || takes)
}

fn read_head(syntax: String) -> Head {
    let mut words = syntax.split_whitespace().peekable();
    let negated = words.next_if_eq(&"no").is_some() && words.peek().is_some();
    let mut name = if negated || !syntax.starts_with("no ") { String::new() } else { "no".into() };
    for word in words {
        let cut = word.find(OPENING).unwrap_or(word.len());
        let part = &word[..cut];
        if part.is_empty() || !part.bytes().all(is_keyword_byte) {
            break;
        }
        // "…" in ASCII is no keyword.
        if part.bytes().all(|b| b == b'.') {
            break;
        }
        if !name.is_empty() {
            name.push(' ');
        }
        name.push_str(part);
        if cut < word.len() {
            break;
        }
    }
    let output = syntax.split_once(" : ").map(|(_, output)| output.trim().to_owned());
    let arguments = arguments(&syntax);
    Head { id: String::new(), name, syntax, arguments, negated, output }
}

/// What stands between angle brackets.
fn arguments(syntax: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for part in syntax.split('<').skip(1) {
        if let Some((name, _)) = part.split_once('>')
            && !found.iter().any(|known| known == name)
        {
            found.push(name.to_owned());
        }
    }
    found
}
