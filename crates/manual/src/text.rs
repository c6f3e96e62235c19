//! Plain text with numbered, underlined headings, as HAProxy's manuals are, becomes the model.
//! What no rule knows is kept as it is: no text is refused, no word is lost.

mod blocks;
mod head;
mod inline;
mod label;
mod line;
mod outline;
mod table;

use crate::model::{Block, Document, Format, Inline, Keyword, Section};
use head::HeadGroup;
use inline::inlines;
use line::{Line, lines};
use outline::{Heading, heading_at};
use std::collections::HashSet;

/// Whether `text` has a numbered heading that is underlined.
pub(crate) fn is_numbered(text: &str) -> bool {
    let lines = lines(text);
    (0..lines.len()).any(|at| heading_at(&lines, at).is_some_and(|found| found.number.is_some()))
}

/// Reads a manual that addresses call `name`.
#[must_use]
pub fn parse(name: &str, text: &str) -> Document {
    let lines = lines(text);
    let starts: Vec<(usize, Heading)> = (0..lines.len())
        .filter_map(|at| heading_at(&lines, at).map(|heading| (at, heading)))
        .collect();
    let first = starts.first().map_or(lines.len(), |(at, _)| *at);
    let banner = Banner::read(&lines[..first]);
    let mut ids = Ids::default();
    let mut opening = banner.blocks;
    opening.extend(blocks::blocks(&lines[banner.lines..first]));
    let mut sections = Vec::with_capacity(starts.len());
    for (index, (at, heading)) in starts.iter().enumerate() {
        let end = starts.get(index + 1).map_or(lines.len(), |(next, _)| *next);
        let id = match &heading.number {
            Some(number) => number.clone(),
            None => crate::slug::slug(&heading.title),
        };
        sections.push(Section {
            id: ids.unique(id),
            number: heading.number.clone(),
            title: heading.inlines(),
            level: heading.level,
            blocks: body(&lines[at + 2..end], heading.number.as_deref(), &mut ids),
        });
    }
    Document {
        name: name.to_owned(),
        title: banner.title.unwrap_or_else(|| name.to_owned()),
        version: banner.version,
        format: Format::Text,
        opening,
        sections,
    }
}

/// What a section says: its keywords, and the text between them.
fn body(lines: &[Line<'_>], number: Option<&str>, ids: &mut Ids) -> Vec<Block> {
    let mut found = Vec::new();
    let (mut at, mut plain) = (0, 0);
    while at < lines.len() {
        let begins = at == 0 || lines[at - 1].is_blank();
        let below_heading = lines[..at].iter().all(Line::is_blank);
        let group = begins.then(|| HeadGroup::read(&lines[at..], below_heading));
        let Some(group) = group.flatten() else {
            at += 1;
            continue;
        };
        found.extend(blocks::blocks(&lines[plain..at]));
        at += group.lines;
        let end = at + keyword_length(&lines[at..]);
        let mut heads = group.heads;
        for head in &mut heads {
            let name = crate::slug::slug(&head.name);
            head.id = ids.unique(number.map_or(name.clone(), |number| format!("{number}-{name}")));
        }
        found.push(Block::Keyword(Keyword { heads, blocks: blocks::blocks(&lines[at..end]) }));
        (at, plain) = (end, end);
    }
    found.extend(blocks::blocks(&lines[plain..]));
    found
}

/// How many lines belong to a keyword: up to text that begins at the margin again, but for a
/// label such as "Example:" that slipped there.
fn keyword_length(lines: &[Line<'_>]) -> usize {
    for at in 0..lines.len() {
        let after_blank = at == 0 || lines[at - 1].is_blank();
        let margin = !lines[at].is_blank() && lines[at].indent == 0;
        let stays = at > 0 && label::Found::read(&lines[at]).is_some_and(|found| found.is_alone());
        if margin && after_blank && !stays {
            return at;
        }
    }
    lines.len()
}

/// Gives each name out once: the second "bind" of a section is "bind-2".
#[derive(Default)]
struct Ids(HashSet<String>);

impl Ids {
    fn unique(&mut self, wanted: String) -> String {
        let wanted = if wanted.is_empty() { "text".to_owned() } else { wanted };
        let mut id = wanted.clone();
        let mut count = 1;
        while !self.0.insert(id.clone()) {
            count += 1;
            id = format!("{wanted}-{count}");
        }
        id
    }
}

/// The title in the middle of the first lines, between rulers, with version and date.
struct Banner {
    title: Option<String>,
    version: Option<String>,
    blocks: Vec<Block>,
    lines: usize,
}

/// A line that is set in at least so far is meant to stand in the middle.
const CENTRED: usize = 8;

impl Banner {
    fn read(lines: &[Line<'_>]) -> Banner {
        let start = lines.iter().position(|line| !line.is_blank()).unwrap_or(lines.len());
        let centred = lines[start..].iter().take_while(|l| !l.is_blank() && l.indent >= CENTRED);
        let end = start + centred.count();
        let said: Vec<&str> = lines[start..end]
            .iter()
            .map(|line| line.text)
            .filter(|text| !outline::is_ruler(text))
            .collect();
        let is_version = |text: &&str| text.to_lowercase().starts_with("version");
        let names = said.iter().take_while(|text| !is_version(text)).count();
        let version = said.iter().find(|text| is_version(text)).and_then(|text| version_in(text));
        let mut blocks = Vec::new();
        let title = said[..names].join(" ");
        if !title.is_empty() {
            blocks.push(Block::Title(title.clone()));
        }
        let mut rest = Vec::new();
        for text in &said[names..] {
            rest.extend([Inline::Text((*text).to_owned()), Inline::Break]);
        }
        if rest.pop().is_some() {
            blocks.push(Block::Paragraph(rest));
        }
        Banner { title: (!title.is_empty()).then_some(title), version, blocks, lines: end }
    }
}

/// "2.6" of "version 2.6".
fn version_in(text: &str) -> Option<String> {
    let word = text.split_whitespace().nth(1)?;
    word.starts_with(|c: char| c.is_ascii_digit()).then(|| word.to_owned())
}

impl Heading {
    fn inlines(&self) -> Vec<Inline> {
        inlines(&self.title)
    }
}
