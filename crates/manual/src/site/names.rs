//! Where each keyword and section of a version is, and which one is meant where it is named.

use super::plan::{DocumentPlan, VersionPlan};
use crate::model::{Block, Document, Head, Section};
use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};

/// All places of a version that can be linked to.
pub struct Names<'a> {
    keywords: HashMap<&'a str, Vec<Anchor<'a>>>,
    /// By the first words of names that have more: "compression" of "compression algo".
    families: HashMap<&'a str, Vec<Anchor<'a>>>,
    /// By document and id.
    sections: Vec<HashMap<&'a str, Anchor<'a>>>,
    files: HashMap<PathBuf, usize>,
    documents: Vec<&'a Document>,
    fronts: Vec<&'a str>,
}

/// A section or keyword and the page it is on.
#[derive(Clone, Copy)]
pub struct Anchor<'a> {
    /// Which document of the version.
    pub document: usize,
    /// Which section of the document.
    pub section: usize,
    /// The page's address.
    pub page: &'a str,
    /// On the page.
    pub id: &'a str,
    /// Of a keyword.
    pub head: Option<&'a Head>,
}

/// Words in front of a keyword that are no part of its name.
const TAKEN_OFF: [&str; 2] = ["no ", "default "];

impl<'a> Names<'a> {
    pub fn of(version: &'a VersionPlan<'a>) -> Names<'a> {
        let mut names = Names {
            keywords: HashMap::new(),
            families: HashMap::new(),
            sections: Vec::new(),
            files: HashMap::new(),
            documents: version.documents.iter().map(|plan| plan.document).collect(),
            fronts: version.documents.iter().map(|plan| plan.pages[0].path.as_str()).collect(),
        };
        for (at, plan) in version.documents.iter().enumerate() {
            names.files.insert(normal(plan.file), at);
            let mut sections = HashMap::new();
            for place in places(at, plan) {
                match place.head {
                    Some(head) => {
                        names.keywords.entry(&head.name).or_default().push(place);
                        for (end, _) in head.name.match_indices(' ') {
                            let family = names.families.entry(&head.name[..end]).or_default();
                            // One for each section leads there.
                            if family.last().is_none_or(|last| last.section != place.section) {
                                family.push(place);
                            }
                        }
                    }
                    None => {
                        sections.insert(place.id, place);
                    }
                }
            }
            names.sections.push(sections);
        }
        names
    }

    /// All places where a keyword of exactly this name is defined.
    pub fn places(&self, name: &str) -> &[Anchor<'a>] {
        self.keywords.get(name).map_or(&[], Vec::as_slice)
    }

    /// Which keyword is meant by `words` in a section of a document; `number` is that of the
    /// section where the text says it is.
    pub fn keyword(
        &self,
        words: &str,
        document: usize,
        section: usize,
        number: Option<&str>,
    ) -> Option<Anchor<'a>> {
        let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
        let plain = TAKEN_OFF.iter().find_map(|prefix| words.strip_prefix(prefix));
        let cut = words.find(['(', '<', '[', '{']).map(|at| words[..at].trim_end());
        let candidates = [Some(words.as_str()), plain, cut].into_iter().flatten();
        let mut places = candidates.map(|name| self.places(name)).find(|found| !found.is_empty());
        if places.is_none() {
            places = self.families.get(words.as_str()).map(Vec::as_slice);
        }
        // "http-request deny" where only "http-request" is defined.
        if places.is_none()
            && let Some((first, _)) = words.rsplit_once(' ')
        {
            places = Some(self.places(first)).filter(|found| !found.is_empty());
        }
        places?.iter().copied().min_by_key(|place| {
            let other = self.section(place.document, place.section);
            let said = number.is_some_and(|number| {
                !other.number.as_deref().is_some_and(|own| is_inside(own, number))
            });
            let elsewhere = place.document != document;
            let here = !elsewhere && place.section == section;
            let length = other.keywords().count();
            (said, elsewhere, !here, std::cmp::Reverse(length))
        })
    }

    /// The section of that number or id.
    pub fn section_place(&self, document: usize, id: &str) -> Option<Anchor<'a>> {
        self.sections.get(document)?.get(id).copied()
    }

    /// The section whose heading with its number is `words`: "3. Starting HAProxy", in any
    /// document, one's own first.
    pub fn heading(&self, words: &str, document: usize) -> Option<Anchor<'a>> {
        let (number, title) = words.split_once(char::is_whitespace)?;
        let number = number.strip_suffix('.').unwrap_or(number);
        if !number.starts_with(|c: char| c.is_ascii_digit()) {
            return None;
        }
        let all = std::iter::once(document).chain(0..self.documents.len());
        all.filter_map(|at| self.section_place(at, number)).find(|place| {
            let section = self.section(place.document, place.section);
            section.heading().eq_ignore_ascii_case(title.trim())
        })
    }

    /// The document that a word such as "management" names, in "section 9.3 of the management
    /// guide".
    pub fn document_called(&self, words: &str) -> Option<usize> {
        let words = words.to_ascii_lowercase();
        let word = |word: &str| words.split(|c: char| !c.is_alphanumeric()).any(|w| w == word);
        self.documents.iter().position(|document| word(&document.name.to_ascii_lowercase()))
    }

    /// The document that was read from `file`.
    pub fn file(&self, file: &Path) -> Option<usize> {
        self.files.get(&normal(file)).copied()
    }

    /// The first page of a document.
    pub fn front(&self, document: usize) -> &'a str {
        self.fronts[document]
    }

    fn section(&self, document: usize, section: usize) -> &'a Section {
        &self.documents[document].sections[section]
    }
}

/// Whether section `own` is `number` or lies in it.
fn is_inside(own: &str, number: &str) -> bool {
    own.strip_prefix(number).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Every section and keyword of a document, with its page.
pub fn places<'a>(document: usize, plan: &'a DocumentPlan<'a>) -> impl Iterator<Item = Anchor<'a>> {
    plan.pages.iter().flat_map(move |page| {
        page.parts.iter().flat_map(move |part| {
            let section = &plan.document.sections[part.section];
            let place = Anchor {
                document,
                section: part.section,
                page: &page.path,
                id: &section.id,
                head: None,
            };
            let keywords = section.blocks[part.blocks.clone()].iter();
            let heads = keywords.filter_map(|block| match block {
                Block::Keyword(keyword) => Some(&keyword.heads),
                _ => None,
            });
            let heads = heads.flatten();
            let heads = heads.map(move |head| Anchor { id: &head.id, head: Some(head), ..place });
            part.heading.then_some(place).into_iter().chain(heads)
        })
    })
}

/// Without `.` and `..`, so that the same file has one name.
pub fn normal(file: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in file.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir
                if matches!(normal.components().next_back(), Some(Component::Normal(_))) =>
            {
                normal.pop();
            }
            other => normal.push(other),
        }
    }
    normal
}
