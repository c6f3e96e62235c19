//! Text below a heading or a keyword: paragraphs, lists, definitions, examples. Which is which
//! is told by how far lines are set in, and by what they look like.

use super::inline::inlines;
use super::label::Found;
use super::line::{Line, margin};
use super::outline::numbered;
use super::table::{contexts, table};
use crate::model::{Block, ContentsEntry, Definition, Item, Label, Labelled, List};

/// Text set in more often than this is kept as it is.
const DEEPEST: usize = 24;
/// Spaces between a term and its meaning, and between columns.
const GAP: &str = "  ";
/// Between the columns of a drawing; two can end a sentence.
const WIDE_GAP: &str = "   ";
/// A term has no more characters.
const LONGEST_TERM: usize = 40;
/// Fewer numbered lines are no table of contents.
const SHORTEST_CONTENTS: usize = 3;

/// What `lines` say.
pub fn blocks(lines: &[Line<'_>]) -> Vec<Block> {
    Reader { depth: 0, told: false }.blocks(lines)
}

/// Reads lines of one depth.
#[derive(Clone, Copy)]
struct Reader {
    depth: usize,
    /// The text has been announced as running text or as definitions, so that it needs not look
    /// like it.
    told: bool,
}

impl Reader {
    fn inner(self, told: bool) -> Reader {
        Reader { depth: self.depth + 1, told }
    }

    fn blocks(self, lines: &[Line<'_>]) -> Vec<Block> {
        if self.depth > DEEPEST {
            return verbatim(lines).into_iter().collect();
        }
        let base = margin(lines);
        let mut found: Vec<Block> = Vec::new();
        let mut at = 0;
        while at < lines.len() {
            if lines[at].is_blank() {
                at += 1;
                continue;
            }
            let rest = &lines[at..];
            let structured = contexts(rest)
                .map(|(contexts, length)| (Block::Contexts(contexts), length))
                .or_else(|| table(rest).map(|(table, length)| (Block::Table(table), length)))
                .or_else(|| self.contents(rest))
                .or_else(|| self.list(rest))
                .or_else(|| self.labelled(rest))
                .or_else(|| self.definitions(rest));
            let (block, length) = match structured {
                Some(found) => found,
                None if rest[0].indent > base => self.nested(rest, base),
                None => self.chunk(rest, base),
            };
            // Blank lines inside a piece of verbatim text are part of it.
            match (found.last_mut(), &block) {
                (Some(Block::Verbatim(before)), Block::Verbatim(after)) if at > 0 => {
                    let blank = lines[..at].iter().rev().take_while(|line| line.is_blank()).count();
                    before.extend(std::iter::repeat_n('\n', blank + 1));
                    before.push_str(after);
                }
                _ => found.push(block),
            }
            at += length;
        }
        found
    }

    /// Lines up to a blank one or one that something else begins: a paragraph, or verbatim.
    fn chunk(self, lines: &[Line<'_>], base: usize) -> (Block, usize) {
        let mut length = 1;
        while lines.get(length).is_some_and(|line| !line.is_blank() && line.indent == base) {
            let rest = &lines[length..];
            if marker(&rest[0]).is_some()
                || contexts(rest).is_some()
                || Found::read(&rest[0]).is_some_and(|found| found.is_alone())
            {
                break;
            }
            length += 1;
        }
        // What is set in below running text can belong to a drawing.
        let mut all = length;
        while lines.get(all).is_some_and(|line| !line.is_blank()) {
            all += 1;
        }
        if lines[..all].iter().any(|line| is_drawn(line.text)) && !is_prose(&lines[..length]) {
            return (verbatim_of(&lines[..all], base), all);
        }
        let prose = self.depth == 0 || self.told || is_prose(&lines[..length]);
        if !prose {
            return (verbatim_of(&lines[..all], base), all);
        }
        (Block::Paragraph(inlines(&join(&lines[..length]))), length)
    }

    /// Lines that are set in below others.
    fn nested(self, lines: &[Line<'_>], base: usize) -> (Block, usize) {
        let length = set_in(lines, base);
        let inside = &lines[..length];
        let inner = self.inner(false).blocks(inside);
        let block = match <[Block; 1]>::try_from(inner) {
            Ok([verbatim @ Block::Verbatim(_)]) => verbatim,
            Ok([block]) => Block::Indented(vec![block]),
            Err(inner) => Block::Indented(inner),
        };
        (block, length)
    }

    fn contents(self, lines: &[Line<'_>]) -> Option<(Block, usize)> {
        if self.depth > 0 {
            return None;
        }
        let mut entries = Vec::new();
        let (mut length, mut at) = (0, 0);
        while let Some(line) = lines.get(at) {
            at += 1;
            if line.is_blank() {
                continue;
            }
            let Some((_, title)) = numbered(line.text) else { break };
            let number = line.text[..line.text.len() - title.len()].trim().to_owned();
            entries.push(ContentsEntry { number, title: title.to_owned() });
            length = at;
        }
        let dotted = entries.iter().filter(|entry| entry.number.contains('.')).count();
        let enough = entries.len() >= SHORTEST_CONTENTS && dotted == entries.len();
        // A numbered list is a table of contents only if it goes deeper.
        let deeper = entries.iter().any(|entry| entry.number.trim_end_matches('.').contains('.'));
        (enough && deeper).then_some((Block::Contents(entries), length))
    }

    fn list(self, lines: &[Line<'_>]) -> Option<(Block, usize)> {
        let first = marker(&lines[0])?;
        let place = lines[0].indent;
        let mut items = Vec::new();
        let mut at = 0;
        while let Some(line) = lines.get(at) {
            let begins = line.indent == place && !line.is_blank();
            let Some(found) = begins.then(|| marker(line)).flatten() else { break };
            if found.ordered != first.ordered {
                break;
            }
            let length = 1 + set_in(&lines[at + 1..], place);
            let mut inside = vec![line.after(found.text.len())];
            inside.extend(&lines[at + 1..at + length]);
            let hangs = inside.get(1).map_or(inside[0].indent, |next| next.indent);
            // Where continuations are set in less than the text after the marker, they still
            // are its continuation.
            if inside[1..].first().is_some_and(|next| !next.is_blank() && marker(next).is_none()) {
                inside[0].indent = inside[0].indent.min(hangs);
            }
            let marker = found.text.to_owned();
            items.push(Item { marker, blocks: self.inner(true).blocks(&inside) });
            at += length;
            let next = lines[at..].iter().position(|line| !line.is_blank());
            if let Some(skip) = next
                && marker_at(&lines[at + skip], place)
            {
                at += skip;
            }
        }
        let list = List { ordered: first.ordered, items };
        Some((Block::List(list), at))
    }

    fn labelled(self, lines: &[Line<'_>]) -> Option<(Block, usize)> {
        let found = Found::read(&lines[0])?;
        let place = lines[0].indent;
        let mut inside = Vec::new();
        let mut length = 1;
        if !found.is_alone() {
            inside.push(lines[0].after(found.rest));
            // The same paragraph, wherever it goes on.
            while let Some(line) = lines
                .get(length)
                .filter(|line| !line.is_blank() && line.indent >= place && marker(line).is_none())
            {
                inside.push(Line { indent: inside[0].indent, ..*line });
                length += 1;
            }
        }
        let blocks = match found.kind {
            _ if !found.is_alone() => self.inner(true).blocks(&inside),
            Label::Example => {
                let all = set_in(&lines[length..], place);
                let below = &lines[length..length + all];
                length += all;
                verbatim(below).into_iter().collect()
            }
            _ => {
                let all = set_in(&lines[length..], place);
                let below = &lines[length..length + all];
                length += all;
                self.inner(true).blocks(below)
            }
        };
        let labelled = Labelled { kind: found.kind, label: found.label.to_owned(), blocks };
        Some((Block::Labelled(labelled), length))
    }

    /// "term   meaning", with the meaning's next lines below its first, or with others like it.
    fn definitions(self, lines: &[Line<'_>]) -> Option<(Block, usize)> {
        let place = lines[0].indent;
        let split = term(&lines[0]).or_else(|| hung_term(lines))?;
        let column = lines[0].after(split).indent;
        let below = lines.get(1).filter(|line| !line.is_blank());
        let hangs = below.is_some_and(|line| line.indent == column);
        let another = |line: &Line<'_>| {
            let same = line.indent == place;
            same && term(line).is_some_and(|split| line.after(split).indent == column)
        };
        let next = lines[1..].iter().find(|line| !line.is_blank() && line.indent <= place);
        if !hangs && !next.is_some_and(another) {
            return None;
        }
        let mut definitions = Vec::new();
        let mut at = 0;
        loop {
            let line = &lines[at];
            let Some(split) = term(line).or_else(|| hung_term(&lines[at..])) else { break };
            let length = 1 + set_in(&lines[at + 1..], place);
            let mut inside = vec![line.after(split)];
            inside.extend(&lines[at + 1..at + length]);
            let term = inlines(line.text[..split].trim_end());
            definitions.push(Definition { term, blocks: self.inner(true).blocks(&inside) });
            at += length;
            let skip = lines[at..].iter().position(|line| !line.is_blank());
            match skip {
                Some(skip) if lines[at + skip].indent == place => at += skip,
                _ => break,
            }
            let line = &lines[at];
            if marker(line).is_some() || term_of_other(line) {
                break;
            }
        }
        Some((Block::Definitions(definitions), at))
    }
}

/// How many lines are set in deeper than `place`, with the blank ones between them.
fn set_in(lines: &[Line<'_>], place: usize) -> usize {
    let mut length = 0;
    for (at, line) in lines.iter().enumerate() {
        if line.is_blank() {
            continue;
        }
        if line.indent <= place {
            break;
        }
        length = at + 1;
    }
    length
}

/// What an item of a list begins with.
struct Marker<'a> {
    text: &'a str,
    ordered: bool,
}

fn marker<'a>(line: &Line<'a>) -> Option<Marker<'a>> {
    let (text, rest) = line.text.split_once(char::is_whitespace)?;
    if rest.trim().is_empty() {
        return None;
    }
    let bullet = matches!(text, "-" | "*" | "o" | "•");
    let counted = text.strip_suffix([')', '.']).is_some_and(|count| {
        let digits = count.len() <= 2 && count.bytes().all(|b| b.is_ascii_digit());
        let letter = text.ends_with(')') && count.len() == 1 && count.is_ascii();
        !count.is_empty() && (digits || letter)
    });
    (bullet || counted).then_some(Marker { text, ordered: counted })
}

fn marker_at(line: &Line<'_>, place: usize) -> bool {
    line.indent == place && marker(line).is_some()
}

/// Where the term ends in a line that has one, in bytes.
fn term(line: &Line<'_>) -> Option<usize> {
    let split = line.text.find(GAP)?;
    let term = &line.text[..split];
    let fits = term.chars().count() <= LONGEST_TERM && !term.ends_with(['.', '!', '?', ';']);
    let rest = line.text[split..].trim_start();
    (fits && !is_drawn(rest) && !line.text.starts_with('|')).then_some(split)
}

/// Where "<term>" ends that only one space follows, if the next line goes on below the meaning.
fn hung_term(lines: &[Line<'_>]) -> Option<usize> {
    let (line, below) = (lines.first()?, lines.get(1)?);
    let split = line.text.find('>').filter(|_| line.text.starts_with('<'))? + 1;
    let gap = line.text[split..].starts_with(' ');
    let hangs = !below.is_blank() && line.after(split).indent == below.indent;
    (gap && split <= LONGEST_TERM && hangs).then_some(split)
}

/// Lines that a label begins define no term.
fn term_of_other(line: &Line<'_>) -> bool {
    Found::read(line).is_some()
}

/// Several columns, or lines and arrows.
fn is_drawn(text: &str) -> bool {
    text.contains(WIDE_GAP) || text.contains("--+") || text.starts_with('|')
}

/// Whether it reads like sentences and not like configuration.
fn is_prose(lines: &[Line<'_>]) -> bool {
    let words: Vec<&str> = lines.iter().flat_map(|line| line.text.split_whitespace()).collect();
    let plain = |word: &&&str| {
        let word = word.trim_matches(|c: char| "\"'(),.:;!?".contains(c));
        !word.is_empty() && word.chars().all(|c| c.is_alphabetic() || "-'/".contains(c))
    };
    let share = words.iter().filter(plain).count() * 4 >= words.len() * 3;
    let ends = words.last().is_some_and(|word| word.ends_with(['.', ':', '!', '?']));
    let begins = words
        .first()
        .is_some_and(|word| word.starts_with(|c: char| c.is_uppercase() || "\"'<(".contains(c)));
    !lines.iter().any(|line| line.text.contains(WIDE_GAP))
        && words.len() >= 3
        && share
        && (ends || (begins && words.len() >= 8))
}

fn join(lines: &[Line<'_>]) -> String {
    lines.iter().map(|line| line.text).collect::<Vec<_>>().join("\n")
}

fn verbatim(lines: &[Line<'_>]) -> Option<Block> {
    let first = lines.iter().position(|line| !line.is_blank())?;
    let last = lines.iter().rposition(|line| !line.is_blank())?;
    let lines = &lines[first..=last];
    Some(verbatim_of(lines, margin(lines)))
}

fn verbatim_of(lines: &[Line<'_>], margin: usize) -> Block {
    let mut text = String::new();
    for (at, line) in lines.iter().enumerate() {
        if at > 0 {
            text.push('\n');
        }
        line.cut(margin, &mut text);
    }
    Block::Verbatim(text)
}
