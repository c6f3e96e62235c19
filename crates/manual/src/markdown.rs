//! Markdown becomes the model.

use crate::model::{
    Block, Definition, Document, Format, Image, Inline, Item, Link, List, Row, Section, Table,
};
use crate::slug::slug;
use crate::words::inline_text;
use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag, TagEnd};
use std::collections::HashMap;

/// Reads a manual that addresses call `name`.
#[must_use]
pub fn parse(name: &str, text: &str) -> Document {
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH;
    let mut builder = Builder::default();
    for event in Parser::new_ext(text, options) {
        builder.event(event);
    }
    let (opening, sections) = builder.finish();
    let title = sections.iter().find(|section| section.level == 1).map(Section::heading);
    Document {
        name: name.to_owned(),
        title: title.filter(|title| !title.is_empty()).unwrap_or_else(|| name.to_owned()),
        version: None,
        format: Format::Markdown,
        opening,
        sections,
    }
}

/// What is open while events come.
#[derive(Default)]
struct Builder {
    opening: Vec<Block>,
    sections: Vec<Section>,
    open: Vec<Open>,
    ids: HashMap<String, usize>,
}

/// Something that has begun.
struct Open {
    kind: Kind,
    blocks: Vec<Block>,
    inlines: Vec<Inline>,
}

enum Kind {
    Paragraph,
    Heading(usize),
    Verbatim,
    List(List, Option<u64>),
    Item,
    Table(Table),
    TableHead(Vec<Vec<Inline>>),
    TableRow(Vec<Vec<Inline>>),
    Cell,
    Quote,
    Emphasis,
    Strong,
    Link(String),
    Image(String),
    Definitions(Vec<Definition>),
    Other,
}

impl Builder {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(end) => self.end(end),
            Event::Text(text) => self.inline(Inline::Text(text.into_string())),
            Event::Code(text) | Event::InlineMath(text) | Event::DisplayMath(text) => {
                self.inline(Inline::Code(text.into_string()));
            }
            // Shown as it is, not interpreted.
            Event::Html(text) | Event::InlineHtml(text) => {
                self.inline(Inline::Text(text.into_string()));
            }
            Event::FootnoteReference(text) => self.inline(Inline::Text(text.into_string())),
            Event::SoftBreak => self.inline(Inline::Text("\n".into())),
            Event::HardBreak => self.inline(Inline::Break),
            Event::Rule | Event::TaskListMarker(_) => {}
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        let kind = match tag {
            Tag::Paragraph => Kind::Paragraph,
            Tag::Heading { level, .. } => Kind::Heading(depth(level)),
            Tag::CodeBlock(_) => Kind::Verbatim,
            Tag::List(start) => {
                Kind::List(List { ordered: start.is_some(), items: Vec::new() }, start)
            }
            Tag::Item => Kind::Item,
            Tag::Table(_) => Kind::Table(Table { head: Vec::new(), rows: Vec::new() }),
            Tag::TableHead => Kind::TableHead(Vec::new()),
            Tag::TableRow => Kind::TableRow(Vec::new()),
            Tag::TableCell => Kind::Cell,
            Tag::BlockQuote(_) => Kind::Quote,
            Tag::Emphasis => Kind::Emphasis,
            Tag::Strong => Kind::Strong,
            Tag::Link { dest_url, .. } => Kind::Link(dest_url.into_string()),
            Tag::Image { dest_url, .. } => Kind::Image(dest_url.into_string()),
            Tag::DefinitionList => Kind::Definitions(Vec::new()),
            _ => Kind::Other,
        };
        self.open.push(Open { kind, blocks: Vec::new(), inlines: Vec::new() });
    }

    fn end(&mut self, _: TagEnd) {
        let Some(open) = self.open.pop() else { return };
        let Open { kind, mut blocks, inlines } = open;
        match kind {
            Kind::Paragraph => self.paragraph(inlines),
            Kind::Heading(level) => self.heading(level, inlines),
            Kind::Verbatim => {
                let text = inline_text(&inlines);
                self.block(Block::Verbatim(text.trim_end_matches('\n').to_owned()));
            }
            Kind::List(list, _) => self.block(Block::List(list)),
            Kind::Item => {
                // A tight item has no paragraph of its own.
                if !inlines.is_empty() {
                    blocks.insert(0, Block::Paragraph(inlines));
                }
                if let Some(Open { kind: Kind::List(list, number), .. }) = self.open.last_mut() {
                    let marker = number.map_or("-".to_owned(), |number| format!("{number}."));
                    *number = number.map(|number| number.saturating_add(1));
                    list.items.push(Item { marker, blocks });
                }
            }
            Kind::Table(table) => self.block(Block::Table(table)),
            Kind::TableHead(cells) => {
                if let Some(Open { kind: Kind::Table(table), .. }) = self.open.last_mut() {
                    table.head = cells;
                }
            }
            Kind::TableRow(cells) => {
                if let Some(Open { kind: Kind::Table(table), .. }) = self.open.last_mut() {
                    table.rows.push(Row { repeats_head: false, cells, mark: None });
                }
            }
            Kind::Cell => {
                let row = self.open.last_mut().map(|open| &mut open.kind);
                if let Some(Kind::TableHead(cells) | Kind::TableRow(cells)) = row {
                    cells.push(inlines);
                }
            }
            Kind::Quote => {
                if !inlines.is_empty() {
                    blocks.push(Block::Paragraph(inlines));
                }
                self.block(Block::Indented(blocks));
            }
            Kind::Emphasis => self.inline(Inline::Emphasis(inlines)),
            Kind::Strong => self.inline(Inline::Strong(inlines)),
            Kind::Link(to) => self.inline(Inline::Link(Link { to, text: inlines })),
            Kind::Image(source) => {
                self.block(Block::Image(Image { source, alt: inline_text(&inlines) }));
            }
            Kind::Definitions(definitions) => self.block(Block::Definitions(definitions)),
            Kind::Other => {
                self.paragraph(inlines);
                blocks.into_iter().for_each(|block| self.block(block));
            }
        }
    }

    fn paragraph(&mut self, inlines: Vec<Inline>) {
        if !inlines.is_empty() {
            self.block(Block::Paragraph(inlines));
        }
    }

    fn heading(&mut self, level: usize, title: Vec<Inline>) {
        // As GitHub does, so that links between documents work on both.
        let heading = inline_text(&title);
        let plain: String = heading
            .to_lowercase()
            .chars()
            .filter(|c| c.is_alphanumeric() || " -_".contains(*c))
            .map(|c| if c == ' ' { '-' } else { c })
            .collect();
        let plain = if plain.is_empty() { slug(&format!("section {level}")) } else { plain };
        // Another heading may have the number in its own words.
        let mut id = plain.clone();
        while self.ids.contains_key(&id) {
            let count = self.ids.entry(plain.clone()).or_default();
            *count += 1;
            id = format!("{plain}-{count}");
        }
        self.ids.insert(id.clone(), 0);
        self.sections.push(Section { number: None, id, title, level, blocks: Vec::new() });
    }

    /// Into what is open around it; else into the last section.
    fn block(&mut self, block: Block) {
        if let Some(open) = self.open.last_mut() {
            // Text before it in a tight item.
            if matches!(open.kind, Kind::Item | Kind::Quote) && !open.inlines.is_empty() {
                let inlines = std::mem::take(&mut open.inlines);
                open.blocks.push(Block::Paragraph(inlines));
            }
            open.blocks.push(block);
            // A picture stands in a paragraph.
            match open.kind {
                Kind::Paragraph => {
                    let pictures = std::mem::take(&mut open.blocks);
                    pictures.into_iter().for_each(|block| self.after_paragraph(block));
                }
                Kind::Heading(_) | Kind::Cell => {
                    for block in std::mem::take(&mut open.blocks) {
                        open.inlines.push(Inline::Text(crate::words::block_text(&[block])));
                    }
                }
                _ => {}
            }
            return;
        }
        match self.sections.last_mut() {
            Some(section) => section.blocks.push(block),
            None => self.opening.push(block),
        }
    }

    /// Ends the paragraph that is open, adds `block`, and begins the paragraph anew.
    fn after_paragraph(&mut self, block: Block) {
        if let Some(open) = self.open.pop() {
            self.paragraph(open.inlines);
            self.block(block);
            self.open.push(Open { kind: Kind::Paragraph, blocks: Vec::new(), inlines: Vec::new() });
        }
    }

    fn inline(&mut self, inline: Inline) {
        match self.open.last_mut() {
            Some(open) => open.inlines.push(inline),
            None => self.block(Block::Paragraph(vec![inline])),
        }
    }

    fn finish(mut self) -> (Vec<Block>, Vec<Section>) {
        while !self.open.is_empty() {
            self.end(TagEnd::Paragraph);
        }
        (self.opening, self.sections)
    }
}

fn depth(level: HeadingLevel) -> usize {
    level as usize
}
