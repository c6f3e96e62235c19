use crate::model::{Block, Document};

/// The files of all pictures of a document, as its text has them.
pub fn sources(document: &Document) -> Vec<&str> {
    fn add<'a>(blocks: &'a [Block], found: &mut Vec<&'a str>) {
        for block in blocks {
            match block {
                Block::Image(image) => found.push(&image.source),
                Block::Indented(blocks) => add(blocks, found),
                Block::Labelled(labelled) => add(&labelled.blocks, found),
                Block::List(list) => list.items.iter().for_each(|item| add(&item.blocks, found)),
                Block::Definitions(all) => all.iter().for_each(|one| add(&one.blocks, found)),
                Block::Keyword(keyword) => add(&keyword.blocks, found),
                _ => {}
            }
        }
    }
    let mut found = Vec::new();
    add(&document.opening, &mut found);
    document.sections.iter().for_each(|section| add(&section.blocks, &mut found));
    found
}
