//! mandoc's HTML, which is small and well-formed, becomes sections and blocks.

use crate::model::{Block, Definition, Inline, Item, Link, List, Row, Section, Table};
use crate::words::inline_text;
use html5gum::{Token, Tokenizer};

/// Title, what comes before the first heading, and the sections.
pub fn parse(html: &str) -> (Option<String>, Vec<Block>, Vec<Section>) {
    let mut reader = Reader { open: vec![Open::new("")], ..Reader::default() };
    for token in Tokenizer::new(html).flatten() {
        match token {
            Token::StartTag(tag) => {
                let name = text_of(&tag.name);
                let attribute = |wanted: &str| {
                    let found =
                        tag.attributes.iter().find(|(key, _)| key.as_slice() == wanted.as_bytes());
                    found.map(|(_, value)| text_of(value))
                };
                let (class, href) = (attribute("class"), attribute("href"));
                reader.start(&name, class.unwrap_or_default(), href);
            }
            Token::EndTag(tag) => reader.end(&text_of(&tag.name)),
            Token::String(text) => reader.text(&text_of(&text)),
            _ => {}
        }
    }
    while reader.open.len() > 1 {
        reader.close();
    }
    if let Some(open) = reader.open.pop() {
        let blocks = open.into_blocks();
        reader.place(blocks);
    }
    (reader.title, reader.opening, reader.sections)
}

fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[derive(Default)]
struct Reader {
    title: Option<String>,
    opening: Vec<Block>,
    sections: Vec<Section>,
    open: Vec<Open>,
    /// A line of verbatim text has just been broken.
    broken: bool,
}

/// An element that has begun, and what it has so far.
#[derive(Default)]
struct Open {
    name: String,
    class: String,
    href: Option<String>,
    blocks: Vec<Block>,
    inlines: Vec<Inline>,
    definitions: Vec<Definition>,
    items: Vec<Item>,
    rows: Vec<Vec<Vec<Inline>>>,
    cells: Vec<Vec<Inline>>,
}

impl Open {
    fn new(name: &str) -> Open {
        Open { name: name.to_owned(), ..Open::default() }
    }

    fn flush(&mut self) {
        let inlines = std::mem::take(&mut self.inlines);
        if !inline_text(&inlines).trim().is_empty() {
            self.blocks.push(Block::Paragraph(inlines));
        }
    }

    fn into_blocks(mut self) -> Vec<Block> {
        self.flush();
        self.blocks
    }
}

const VOID: [&str; 5] = ["br", "hr", "img", "meta", "link"];
/// Running text goes on around them.
const INLINE: [&str; 12] =
    ["a", "b", "i", "code", "span", "var", "em", "strong", "small", "sub", "sup", "cite"];
/// Deeper is no man page.
const DEEPEST: usize = 200;

impl Reader {
    fn start(&mut self, name: &str, class: String, href: Option<String>) {
        if VOID.contains(&name) {
            if name == "br" && self.open.iter().any(|open| open.name == "pre") {
                // The line break that follows it is the one that counts.
                self.broken = true;
            } else if name == "br" {
                self.inline(Inline::Break);
            }
            return;
        }
        if self.open.len() > DEEPEST {
            return;
        }
        if !INLINE.contains(&name)
            && let Some(open) = self.open.last_mut()
            && open.name != "pre"
        {
            open.flush();
        }
        self.open.push(Open { class, href, ..Open::new(name) });
    }

    fn end(&mut self, name: &str) {
        if self.open.iter().skip(1).any(|open| open.name == name) {
            while self.open.last().is_some_and(|open| open.name != name) {
                self.close();
            }
            self.close();
        }
    }

    fn text(&mut self, text: &str) {
        let text = match std::mem::take(&mut self.broken) {
            true => text.strip_prefix('\n').unwrap_or(text),
            false => text,
        };
        if !text.is_empty() {
            self.inline(Inline::Text(text.to_owned()));
        }
    }

    fn inline(&mut self, inline: Inline) {
        if let Some(open) = self.open.last_mut() {
            open.inlines.push(inline);
        }
    }

    fn close(&mut self) {
        let Some(mut open) = self.open.pop() else { return };
        match open.name.as_str() {
            "h1" | "h2" if open.class.starts_with('S') => self.section(open),
            "b" | "strong" => self.inline(Inline::Strong(open.inlines)),
            "i" | "em" | "var" | "cite" => self.inline(Inline::Emphasis(open.inlines)),
            "code" => self.inline(Inline::Code(inline_text(&open.inlines))),
            "a" => {
                let own = open.class.contains("permalink");
                match open.href.filter(|_| !own) {
                    Some(to) => self.inline(Inline::Link(Link { to, text: open.inlines })),
                    None => self.splice(open.inlines),
                }
            }
            "pre" => {
                let text = inline_text(&open.inlines);
                self.block(Block::Verbatim(text.trim_matches('\n').to_owned()));
            }
            "dt" => {
                if let Some(list) = self.open.last_mut() {
                    list.definitions.push(Definition { term: open.inlines, blocks: Vec::new() });
                }
            }
            "dd" => self.definition(open.into_blocks()),
            "dl" => self.block(Block::Definitions(open.definitions)),
            "li" => {
                let blocks = open.into_blocks();
                if let Some(list) = self.open.last_mut() {
                    let marker = match list.name.as_str() {
                        "ol" => format!("{}.", list.items.len() + 1),
                        _ => "-".to_owned(),
                    };
                    list.items.push(Item { marker, blocks });
                }
            }
            "ul" | "ol" => {
                let list = List { ordered: open.name == "ol", items: open.items };
                self.block(Block::List(list));
            }
            "td" | "th" => {
                if let [Block::Paragraph(only)] = open.blocks.as_mut_slice()
                    && open.inlines.is_empty()
                {
                    open.inlines = std::mem::take(only);
                }
                if let Some(row) = self.open.last_mut() {
                    row.cells.push(open.inlines);
                }
            }
            "tr" => {
                if let Some(table) = self.open.last_mut() {
                    table.rows.push(open.cells);
                }
            }
            "tbody" | "thead" => {
                if let Some(table) = self.open.last_mut() {
                    table.rows.extend(open.rows);
                }
            }
            "table" => self.table(open),
            name if INLINE.contains(&name) => self.splice(open.inlines),
            // Sections, paragraphs and divisions only group.
            _ => {
                let indented = open.class.contains("Bd-indent");
                let blocks = open.into_blocks();
                if indented && !blocks.is_empty() {
                    self.block(Block::Indented(blocks));
                } else {
                    blocks.into_iter().for_each(|block| self.block(block));
                }
            }
        }
        if self.open.len() == 1 {
            self.settle();
        }
    }

    fn section(&mut self, open: Open) {
        let level = if open.class.starts_with("Ss") { 2 } else { 1 };
        let mut title = open.inlines;
        // The link to itself is made anew.
        if let [Inline::Link(link)] = title.as_mut_slice() {
            title = std::mem::take(&mut link.text);
        }
        self.settle();
        let id = String::new();
        self.sections.push(Section { number: None, id, title, level, blocks: Vec::new() });
    }

    /// That of the last term.
    fn definition(&mut self, blocks: Vec<Block>) {
        match self.open.last_mut().and_then(|list| list.definitions.last_mut()) {
            Some(last) => last.blocks.extend(blocks),
            None => blocks.into_iter().for_each(|block| self.block(block)),
        }
    }

    /// The first and last lines of a man page are tables; the first has its title.
    fn table(&mut self, open: Open) {
        if open.class == "head" {
            let first = open.rows.first().and_then(|row| row.first());
            self.title = first.map(|cell| inline_text(cell).trim().to_owned());
            return;
        }
        let mut rows = open.rows.into_iter();
        if open.class == "foot" || open.class == "Nm" {
            let cells = rows.flatten();
            let mut inlines = Vec::new();
            for cell in cells {
                inlines.extend(cell);
                inlines.push(Inline::Text(" ".into()));
            }
            self.block(Block::Paragraph(inlines));
            return;
        }
        let row = |cells| Row { repeats_head: false, cells, mark: None };
        let head = rows.next().unwrap_or_default();
        self.block(Block::Table(Table { head, rows: rows.map(row).collect() }));
    }

    fn splice(&mut self, inlines: Vec<Inline>) {
        if let Some(open) = self.open.last_mut() {
            open.inlines.extend(inlines);
        }
    }

    fn block(&mut self, block: Block) {
        if let Some(open) = self.open.last_mut() {
            open.flush();
            open.blocks.push(block);
        }
    }

    /// What all open elements have so far belongs to the last section.
    fn settle(&mut self) {
        let mut blocks = Vec::new();
        for open in &mut self.open {
            if open.definitions.is_empty() && open.items.is_empty() {
                open.flush();
                blocks.append(&mut open.blocks);
            }
        }
        self.place(blocks);
    }

    fn place(&mut self, blocks: Vec<Block>) {
        match self.sections.last_mut() {
            Some(section) => section.blocks.extend(blocks),
            None => self.opening.extend(blocks),
        }
    }
}
