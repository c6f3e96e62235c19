//! Tables drawn with characters: matrices below a ruler such as `-----+-----`, and "May be used
//! in sections".

use super::inline::inlines;
use super::line::Line;
use crate::model::{Contexts, Inline, Row, Table};
use std::ops::Range;

/// "May be used in sections :   defaults | frontend" and the line below it.
pub fn contexts(lines: &[Line<'_>]) -> Option<(Contexts, usize)> {
    let (line, below) = (lines.first()?, lines.get(1)?);
    let lower = line.text.to_ascii_lowercase();
    let starts = ["may be used in", "usable in"].iter().any(|start| lower.starts_with(start));
    let (label, sections) = line.text.split_once(':').filter(|_| starts)?;
    let cells = |text: &str| -> Vec<String> {
        text.split('|').map(|cell| cell.trim().to_owned()).collect()
    };
    let (sections, allowed) = (cells(sections), cells(below.text));
    let fits = sections.len() > 1 && sections.len() == allowed.len();
    let words = |cell: &String| cell.split_whitespace().count() == 1;
    (fits && allowed.iter().all(words))
        .then(|| (Contexts { label: format!("{label}:"), sections, allowed }, 2))
}

/// A table whose ruler is on the first or second of `lines`; up to a blank line, or up to the
/// ruler that closes it and the head that is repeated below.
pub fn table(lines: &[Line<'_>]) -> Option<(Table, usize)> {
    let length = lines.iter().position(Line::is_blank).unwrap_or(lines.len());
    let lines = &lines[..length];
    let ruler = (0..2).find(|at| lines.get(*at).is_some_and(|line| is_ruler(line.text)))?;
    let columns = Columns::read(&lines[ruler]);
    let head = match ruler {
        0 => Vec::new(),
        _ => {
            let mut text = String::new();
            lines[0].cut(0, &mut text);
            columns.cells(&text)?
        }
    };
    let mut rows = Vec::new();
    for line in &lines[ruler + 1..] {
        if is_ruler(line.text) {
            continue;
        }
        let again = repeated_head(line.text, &head);
        rows.push(match again {
            true => Row { repeats_head: true, cells: drawn_head(&columns, line)?, mark: None },
            false => row(&columns, line)?,
        });
    }
    (rows.len() > 1).then_some((Table { head, rows }, length))
}

/// `------+-----+----`.
fn is_ruler(text: &str) -> bool {
    let joints = text.bytes().filter(|b| *b == b'+').count();
    joints > 0 && text.len() > 2 * joints + 3 && text.bytes().all(|b| b == b'-' || b == b'+')
}

/// Whether it is the head once more, perhaps drawn into a ruler: `-- keyword ---- defaults -`.
fn repeated_head(text: &str, head: &[Vec<Inline>]) -> bool {
    let head: Vec<String> = head.iter().map(|cell| crate::words::inline_text(cell)).collect();
    let head = head.join(" ");
    let words = |text: &str| -> Vec<String> {
        let words = text.split(|c: char| !c.is_alphanumeric());
        words.filter(|word| !word.is_empty()).map(str::to_owned).collect()
    };
    let said = words(&head);
    !said.is_empty() && words(text) == said
}

fn drawn_head(columns: &Columns, line: &Line<'_>) -> Option<Vec<Vec<Inline>>> {
    let mut text = String::new();
    line.cut(0, &mut text);
    if text.starts_with("--") {
        text = text.replace('-', " ");
    }
    columns.cells(&text)
}

/// What stands alone in parentheses beside the name belongs to the row: `(*)`, `(deprecated)`.
fn row(columns: &Columns, line: &Line<'_>) -> Option<Row> {
    let mut text = String::new();
    line.cut(0, &mut text);
    let mark = mark(&text).filter(|mark| columns.is_beside_first(&text, mark));
    let said = mark.clone().map(|mark| text[mark].to_owned());
    if let Some(mark) = mark {
        let blank = " ".repeat(text[mark.clone()].chars().count());
        text.replace_range(mark, &blank);
    }
    Some(Row { repeats_head: false, cells: columns.cells(&text)?, mark: said })
}

/// Where something in parentheses stands, with gaps around it, in bytes.
fn mark(text: &str) -> Option<Range<usize>> {
    let start = text.find("  (")? + 2;
    let length = text[start..].find(")  ")? + 1;
    Some(start..start + length)
}

/// Where cells begin and end: at the joints of the ruler.
struct Columns(Vec<usize>);

impl Columns {
    fn read(ruler: &Line<'_>) -> Columns {
        let joints = ruler.text.bytes().enumerate().filter(|(_, b)| *b == b'+');
        Columns(joints.map(|(at, _)| ruler.indent + at).collect())
    }

    /// Whether nothing is between the first cell and what is at `place`, in bytes.
    fn is_beside_first(&self, text: &str, place: &Range<usize>) -> bool {
        let Some(joint) = self.0.first().copied().filter(|_| text.is_ascii()) else { return false };
        let joint = joint.min(text.len());
        // None where the one lies behind the other.
        let blank = |part: Option<&str>| part.is_none_or(|part| part.trim().is_empty());
        blank(text.get(place.end..joint)) && blank(text.get(joint..place.start))
    }

    /// None if a word crosses a joint.
    fn cells(&self, text: &str) -> Option<Vec<Vec<Inline>>> {
        let characters: Vec<char> = text.chars().collect();
        let mut cells = Vec::with_capacity(self.0.len() + 1);
        let mut start = 0;
        for joint in self.0.iter().copied().chain([usize::MAX]) {
            let end = joint.min(characters.len());
            let crossed = joint.checked_sub(1).is_some_and(|before| {
                let drawn = |c: &char| c.is_whitespace() || *c == '|';
                let is_word = |at: usize| characters.get(at).is_some_and(|c| !drawn(c));
                is_word(before) && is_word(joint)
            });
            if crossed {
                return None;
            }
            let cell: String = characters[start.min(end)..end].iter().collect();
            let cell = cell.trim().trim_matches('|').trim();
            cells.push(inlines(cell));
            start = end;
        }
        Some(cells)
    }
}
