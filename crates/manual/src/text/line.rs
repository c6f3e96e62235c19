//! Lines and how far they are set in.

/// A line without the spaces around it.
#[derive(Clone, Copy, Debug)]
pub struct Line<'a> {
    /// Columns before the text; a tab goes to the next multiple of eight.
    pub indent: usize,
    /// The text; empty on a blank line.
    pub text: &'a str,
}

/// Columns from one tab stop to the next.
const TAB: usize = 8;

/// The lines of `text`.
pub fn lines(text: &str) -> Vec<Line<'_>> {
    text.lines().map(Line::read).collect()
}

impl<'a> Line<'a> {
    fn read(raw: &'a str) -> Line<'a> {
        let mut indent = 0;
        for c in raw.chars() {
            match c {
                '\t' => indent = (indent / TAB + 1) * TAB,
                c if c.is_whitespace() => indent += 1,
                _ => break,
            }
        }
        Line { indent, text: raw.trim() }
    }

    pub fn is_blank(&self) -> bool {
        self.text.is_empty()
    }

    /// What comes after the first `bytes` of the text, where it stands.
    pub fn after(&self, bytes: usize) -> Line<'a> {
        let rest = &self.text[bytes..];
        let gap = rest.len() - rest.trim_start().len();
        let columns = self.text[..bytes + gap].chars().count();
        Line { indent: self.indent + columns, text: rest.trim_start() }
    }

    /// The text with the spaces before it that remain when `margin` columns are cut away.
    pub fn cut(&self, margin: usize, into: &mut String) {
        if !self.is_blank() {
            into.extend(std::iter::repeat_n(' ', self.indent.saturating_sub(margin)));
            into.push_str(self.text);
        }
    }
}

/// The least indentation of those that aren't blank.
pub fn margin(lines: &[Line<'_>]) -> usize {
    lines.iter().filter(|line| !line.is_blank()).map(|line| line.indent).min().unwrap_or(0)
}
