//! The plain words of the model, in order: what is searched and shown as an excerpt.

use crate::model::{Block, Inline, Section};

/// All that `blocks` say, but for keywords in them, with spaces between.
#[must_use]
pub fn block_text(blocks: &[Block]) -> String {
    let mut text = String::new();
    for block in blocks {
        add_block(block, &mut text);
    }
    text
}

/// What `inlines` say.
#[must_use]
pub fn inline_text(inlines: &[Inline]) -> String {
    let mut text = String::new();
    add_inlines(inlines, &mut text);
    text
}

impl Section {
    /// The heading as plain text.
    #[must_use]
    pub fn heading(&self) -> String {
        inline_text(&self.title)
    }
}

fn add_block(block: &Block, text: &mut String) {
    match block {
        Block::Title(title) => add_words(title, text),
        Block::Paragraph(inlines) => add_inlines(inlines, text),
        Block::Verbatim(verbatim) => text.push_str(verbatim),
        Block::Labelled(labelled) => {
            add_words(&labelled.label, text);
            labelled.blocks.iter().for_each(|block| add_block(block, text));
        }
        Block::List(list) => {
            for item in &list.items {
                item.blocks.iter().for_each(|block| add_block(block, text));
            }
        }
        Block::Definitions(definitions) => {
            for definition in definitions {
                add_inlines(&definition.term, text);
                text.push(' ');
                definition.blocks.iter().for_each(|block| add_block(block, text));
            }
        }
        Block::Table(table) => {
            let rows = table.rows.iter().filter(|row| !row.repeats_head).map(|row| &row.cells);
            for cell in std::iter::once(&table.head).chain(rows).flatten() {
                add_inlines(cell, text);
                text.push(' ');
            }
        }
        Block::Contexts(contexts) => add_words(&contexts.label, text),
        Block::Contents(_) | Block::Keyword(_) => {}
        Block::Indented(blocks) => blocks.iter().for_each(|block| add_block(block, text)),
        Block::Image(image) => add_words(&image.alt, text),
    }
    text.push(' ');
}

fn add_words(words: &str, text: &mut String) {
    text.push_str(words);
    text.push(' ');
}

fn add_inlines(inlines: &[Inline], text: &mut String) {
    for inline in inlines {
        match inline {
            Inline::Text(words) | Inline::Section(words) | Inline::Code(words) => {
                text.push_str(words);
            }
            Inline::Quoted(words) => {
                text.push('"');
                text.push_str(words);
                text.push('"');
            }
            Inline::Emphasis(inner) | Inline::Strong(inner) => add_inlines(inner, text),
            Inline::Link(link) => add_inlines(&link.text, text),
            Inline::Break => text.push(' '),
        }
    }
}
