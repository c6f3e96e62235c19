//! Headings: "4.2. Title" with a ruler below.

use super::line::Line;

/// A heading that a ruler underlines.
pub struct Heading {
    pub number: Option<String>,
    pub title: String,
    pub level: usize,
}

/// A ruler of fewer characters underlines nothing.
const SHORTEST_RULER: usize = 3;
/// The ruler below a heading without a number may be so much longer or shorter than it.
const RULER_SLACK: usize = 2;

/// The heading at line `at`, if one begins there; its ruler is the line after.
pub fn heading_at(lines: &[Line<'_>], at: usize) -> Option<Heading> {
    let (line, ruler) = (lines.get(at)?, lines.get(at + 1)?);
    let at_margin = !line.is_blank() && line.indent == 0 && ruler.indent == 0;
    if !at_margin || !is_ruler(ruler.text) || is_ruler(line.text) {
        return None;
    }
    if let Some((number, title)) = numbered(line.text) {
        let level = number.split('.').count();
        return Some(Heading { number: Some(number), title: title.to_owned(), level });
    }
    let (title, ruler) = (line.text.chars().count(), ruler.text.chars().count());
    let stands_alone = at == 0 || lines[at - 1].is_blank();
    (stands_alone && title.abs_diff(ruler) <= RULER_SLACK).then(|| Heading {
        number: None,
        title: line.text.to_owned(),
        level: 1,
    })
}

/// "4.2" and the title of "4.2. Title".
pub fn numbered(text: &str) -> Option<(String, &str)> {
    let (number, title) = text.split_once(char::is_whitespace)?;
    let number = number.strip_suffix('.').unwrap_or(number);
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    let title = title.trim();
    (number.split('.').all(digits) && !title.is_empty()).then(|| (number.to_owned(), title))
}

/// One character again and again.
pub fn is_ruler(text: &str) -> bool {
    let mut characters = text.chars();
    characters.next().is_some_and(|first| {
        "-=~^_*".contains(first) && characters.all(|c| c == first) && text.len() >= SHORTEST_RULER
    })
}
