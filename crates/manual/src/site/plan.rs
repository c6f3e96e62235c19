//! Which text is on which page: as much together as a page holds, so that it is one read and one
//! print; what is larger has a page for each section, or for each keyword.

use super::Input;
use crate::model::{Block, Document};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;

/// A page holds text of so many bytes. With its HTML, the contents, style and script, that makes
/// the first view less than 200 KB.
const PAGE: usize = 80_000;

/// The documents of one version of the program.
pub struct VersionPlan<'a> {
    /// None where documents have no version.
    pub version: Option<&'a str>,
    /// Its folder in the site.
    pub folder: String,
    pub documents: Vec<DocumentPlan<'a>>,
}

/// A document and its pages.
pub struct DocumentPlan<'a> {
    pub document: &'a Document,
    pub file: &'a PathBuf,
    /// Its address without the ending: `2.6/configuration`.
    pub stem: String,
    /// In reading order; the first is the front page.
    pub pages: Vec<Page>,
    /// Files that are copied, and where to.
    pub pictures: BTreeMap<PathBuf, String>,
}

/// A page.
pub struct Page {
    /// Its address below the site's folder.
    pub path: String,
    /// What it shows, in order.
    pub parts: Vec<Part>,
    /// The front page has what comes before the first section.
    pub front: bool,
}

/// Blocks of a section.
pub struct Part {
    pub section: usize,
    pub blocks: Range<usize>,
    /// The section begins here.
    pub heading: bool,
}

/// Plans all pages; the newest version comes first.
pub fn plan(inputs: &[Input]) -> Vec<VersionPlan<'_>> {
    let mut versions: Vec<VersionPlan<'_>> = Vec::new();
    for input in inputs {
        let version = input.document.version.as_deref();
        let folder = version.map_or_else(|| "manual".to_owned(), crate::slug::slug);
        let at = versions.iter().position(|known| known.folder == folder);
        let at = at.unwrap_or_else(|| {
            versions.push(VersionPlan { version, folder, documents: Vec::new() });
            versions.len() - 1
        });
        let stem = format!("{}/{}", versions[at].folder, input.document.name);
        versions[at].documents.push(DocumentPlan::of(input, stem));
    }
    versions.sort_by(|a, b| super::version::compare(b.version, a.version));
    versions
}

impl<'a> DocumentPlan<'a> {
    fn of(input: &'a Input, stem: String) -> DocumentPlan<'a> {
        let document = &input.document;
        let mut planner = Planner { document, sizes: sizes(document), pages: Vec::new(), stem };
        planner.plan();
        let pictures = pictures(input, &planner.stem);
        let Planner { pages, stem, .. } = planner;
        DocumentPlan { document, file: &input.file, stem, pages, pictures }
    }

    /// The address of its list of keywords.
    pub fn keywords_page(&self) -> String {
        format!("{}-keywords.html", self.stem)
    }
}

struct Planner<'a> {
    document: &'a Document,
    /// Of each section without those inside, in bytes of text.
    sizes: Vec<usize>,
    pages: Vec<Page>,
    stem: String,
}

impl Planner<'_> {
    fn plan(&mut self) {
        let sections = self.document.sections.len();
        let mut front = Page { path: format!("{}.html", self.stem), parts: vec![], front: true };
        if self.sizes.iter().sum::<usize>() <= PAGE {
            front.parts.extend((0..sections).map(|at| self.whole(at)));
            self.pages.push(front);
            return;
        }
        // What comes before the first numbered section, such as its own table of contents.
        let numbered = self.document.sections.iter().position(|section| section.number.is_some());
        let first = numbered.unwrap_or(0);
        front.parts.extend((0..first).map(|at| self.whole(at)));
        self.pages.push(front);
        let mut at = first;
        while at < sections {
            let end = self.end(at);
            self.place(at..end);
            at = end;
        }
    }

    /// The sections inside the first one are with it if there is room, else on pages of their own.
    fn place(&mut self, sections: Range<usize>) {
        if self.sizes[sections.clone()].iter().sum::<usize>() <= PAGE {
            let parts = sections.clone().map(|at| self.whole(at)).collect();
            self.add_page(sections.start, parts);
            return;
        }
        let first = sections.start;
        let blocks = &self.document.sections[first].blocks;
        let is_keyword = |block: &Block| matches!(block, Block::Keyword(_));
        let starts: Vec<usize> = (0..blocks.len()).filter(|at| is_keyword(&blocks[*at])).collect();
        if self.sizes[first] <= PAGE || starts.len() < 2 {
            let part = self.whole(first);
            self.add_page(first, vec![part]);
        } else {
            let part = Part { section: first, blocks: 0..starts[0], heading: true };
            self.add_page(first, vec![part]);
            for (at, start) in starts.iter().enumerate() {
                let end = starts.get(at + 1).copied().unwrap_or(blocks.len());
                let part = Part { section: first, blocks: *start..end, heading: false };
                let Block::Keyword(keyword) = &blocks[*start] else { continue };
                let id = keyword.heads.first().map_or("", |head| &head.id);
                self.pages.push(Page {
                    path: format!("{}/{id}.html", self.stem),
                    parts: vec![part],
                    front: false,
                });
            }
        }
        let mut at = first + 1;
        while at < sections.end {
            let end = self.end(at).min(sections.end);
            self.place(at..end);
            at = end;
        }
    }

    fn add_page(&mut self, first: usize, parts: Vec<Part>) {
        let path = format!("{}/{}.html", self.stem, self.document.sections[first].id);
        self.pages.push(Page { path, parts, front: false });
    }

    fn whole(&self, section: usize) -> Part {
        let blocks = 0..self.document.sections[section].blocks.len();
        Part { section, blocks, heading: true }
    }

    /// Where the section that begins at `at` ends with all inside it.
    fn end(&self, at: usize) -> usize {
        let sections = &self.document.sections;
        let level = sections[at].level;
        let next = sections[at + 1..].iter().position(|section| section.level <= level);
        next.map_or(sections.len(), |next| at + 1 + next)
    }
}

fn sizes(document: &Document) -> Vec<usize> {
    let size = |blocks: &[Block]| crate::words::block_text(blocks).len();
    let keywords = |section: &crate::model::Section| -> usize {
        section
            .keywords()
            .map(|keyword| {
                let heads: usize = keyword.heads.iter().map(|head| head.syntax.len()).sum();
                heads + size(&keyword.blocks)
            })
            .sum()
    };
    document.sections.iter().map(|section| size(&section.blocks) + keywords(section)).collect()
}

/// The pictures that are there, beside the document's file.
fn pictures(input: &Input, stem: &str) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let folder = input.file.parent().unwrap_or(std::path::Path::new("."));
    for source in super::pictures::sources(&input.document) {
        let file = folder.join(source);
        let name = file.file_name().map(|name| name.to_string_lossy().into_owned());
        if let Some(name) = name
            && file.is_file()
        {
            let count = found.len();
            found.entry(file).or_insert_with(|| match count {
                0 => format!("{stem}/{name}"),
                count => format!("{stem}/{count}-{name}"),
            });
        }
    }
    found
}
