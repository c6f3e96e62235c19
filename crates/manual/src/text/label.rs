//! Words that say what follows: "Arguments :", "See also :".

use super::line::Line;
use crate::model::Label;

/// A label at the beginning of a line.
pub struct Found<'a> {
    pub kind: Label,
    /// With its colon.
    pub label: &'a str,
    /// Where the rest of the line begins, in bytes.
    pub rest: usize,
    alone: bool,
}

const LABELS: &[(&str, Label)] = &[
    ("arguments", Label::Arguments),
    ("argument", Label::Arguments),
    ("examples", Label::Example),
    ("example", Label::Example),
    ("important notes", Label::Warning),
    ("important note", Label::Warning),
    ("important", Label::Warning),
    ("notes", Label::Note),
    ("note", Label::Note),
    ("warnings", Label::Warning),
    ("warning", Label::Warning),
    ("see also", Label::SeeAlso),
    ("default value", Label::Default),
    ("default", Label::Default),
];

impl<'a> Found<'a> {
    pub fn read(line: &Line<'a>) -> Option<Found<'a>> {
        let text = line.text;
        let matches = |word: &str| {
            let start = text.get(..word.len()).filter(|start| start.eq_ignore_ascii_case(word))?;
            let after = text[start.len()..].trim_start();
            after.starts_with(':').then(|| text.len() - after.len() + 1)
        };
        let (kind, end) = LABELS.iter().find_map(|(word, kind)| Some((*kind, matches(word)?)))?;
        Some(Found { kind, label: &text[..end], rest: end, alone: end == text.len() })
    }

    /// Nothing else is on its line.
    pub fn is_alone(&self) -> bool {
        self.alone
    }
}
