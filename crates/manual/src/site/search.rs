//! What the browser searches: names for completion and old addresses, an index for MiniSearch
//! (its `loadJS`, serialization version 2), texts for excerpts. Each is a script that hands over
//! JSON, since pages from `file://` may load scripts, but read no files.

use super::names::{Anchor, Names, places};
use super::plan::VersionPlan;
use super::render::head_label;
use crate::model::Section;
use crate::words::block_text;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// All that is searched of one version.
pub struct Search<'a> {
    version: &'a VersionPlan<'a>,
    units: Vec<Unit<'a>>,
}

/// What a hit shows: a section without its keywords, or a keyword.
struct Unit<'a> {
    place: Anchor<'a>,
    /// The keyword's name or the section's number and title.
    label: String,
    /// Only of keywords: other names that its text defines.
    names: String,
    text: String,
}

/// Fields of the index, in MiniSearch's order.
const FIELDS: [&str; 3] = ["name", "title", "text"];
/// Longer runs of letters are no words.
const LONGEST_WORD: usize = 64;

impl<'a> Search<'a> {
    pub fn of(version: &'a VersionPlan<'a>, names: &Names<'a>) -> Search<'a> {
        let mut units = Vec::new();
        for (at, plan) in version.documents.iter().enumerate() {
            for (section_at, section) in plan.document.sections.iter().enumerate() {
                if let Some(place) = names.section_place(at, &section.id) {
                    let mut text = block_text(&section.blocks);
                    if section_at == 0 {
                        text = block_text(&plan.document.opening) + &text;
                    }
                    let (label, names) = (section_label(section), String::new());
                    units.push(Unit { place, label, names, text: spaced(&text) });
                }
            }
            for place in places(at, plan).filter(|place| place.head.is_some()) {
                let section = &plan.document.sections[place.section];
                let keyword = section.keywords().find(|k| k.heads.first() == place.head);
                // Lines that are defined together are one hit.
                let Some(keyword) = keyword else { continue };
                let heads: Vec<String> = keyword.heads.iter().map(head_label).collect();
                let syntax: Vec<&str> = keyword.heads.iter().map(|h| h.syntax.as_str()).collect();
                let text = format!("{} {}", syntax.join(" "), block_text(&keyword.blocks));
                units.push(Unit {
                    place,
                    label: heads[0].clone(),
                    names: heads.join(" "),
                    text: spaced(&text),
                });
            }
        }
        Search { version, units }
    }

    /// Documents, sections and keywords with their addresses.
    pub fn names_js(&self) -> Vec<u8> {
        let mut pages: Vec<&str> = Vec::new();
        let mut numbers = BTreeMap::new();
        let mut page_number = |page: &'a str| {
            *numbers.entry(page).or_insert_with(|| {
                pages.push(page);
                pages.len() - 1
            })
        };
        let documents: Vec<Value> = self
            .version
            .documents
            .iter()
            .map(|plan| json!([plan.document.name, plan.document.title, plan.pages[0].path]))
            .collect();
        let mut sections = Vec::new();
        let mut keywords = Vec::new();
        for (at, plan) in self.version.documents.iter().enumerate() {
            let first = sections.len();
            sections.resize(first + plan.document.sections.len(), Value::Null);
            for place in places(at, plan) {
                let page = page_number(place.page);
                let section = &plan.document.sections[place.section];
                match place.head {
                    None => {
                        sections[first + place.section] =
                            json!([at, section.number, section.heading(), page, place.id]);
                    }
                    Some(head) => keywords.push(json!([
                        head.name,
                        first + place.section,
                        page,
                        place.id,
                        u8::from(head.negated)
                    ])),
                }
            }
        }
        let mut units = Vec::new();
        for unit in &self.units {
            let plan = &self.version.documents[unit.place.document];
            let section = &plan.document.sections[unit.place.section];
            let page = page_number(unit.place.page);
            let above = match unit.place.head {
                Some(_) => section_label(section),
                None => String::new(),
            };
            units.push(json!([unit.label, above, unit.place.document, page, unit.place.id]));
        }
        let names = json!({
            "version": self.version.version,
            "folder": self.version.folder,
            "documents": documents,
            "pages": pages,
            "sections": sections,
            "keywords": keywords,
            "units": units,
        });
        script("names", &self.version.folder, &names)
    }

    /// The index of all units' words.
    pub fn index_js(&self) -> Vec<u8> {
        let mut terms: BTreeMap<String, BTreeMap<usize, BTreeMap<usize, u32>>> = BTreeMap::new();
        let mut lengths = Map::new();
        let mut sums = [0; FIELDS.len()];
        for (at, unit) in self.units.iter().enumerate() {
            let keyword = unit.place.head.is_some();
            let title = if keyword { "" } else { unit.label.as_str() };
            let fields = [unit.names.as_str(), title, unit.text.as_str()];
            let mut counts = [0; FIELDS.len()];
            for (field, text) in fields.iter().enumerate() {
                let mut unique = BTreeSet::new();
                each_term(text, &mut |term| {
                    let places = terms.entry(term.to_owned()).or_default();
                    *places.entry(field).or_default().entry(at).or_default() += 1;
                    unique.insert(term.to_owned());
                });
                counts[field] = unique.len();
                sums[field] += unique.len();
            }
            lengths.insert(at.to_string(), json!(counts));
        }
        let count = self.units.len();
        let mean = sums.map(|sum| sum as f64 / count.max(1) as f64);
        let ids: Map<String, Value> = (0..count).map(|at| (at.to_string(), json!(at))).collect();
        let fields = FIELDS.iter().enumerate().map(|(at, name)| ((*name).to_owned(), json!(at)));
        let index = json!({
            "documentCount": count,
            "nextId": count,
            "documentIds": ids,
            "fieldIds": fields.collect::<Map<_, _>>(),
            "fieldLength": lengths,
            "averageFieldLength": mean,
            "storedFields": {},
            "dirtCount": 0,
            "index": terms.into_iter().collect::<Vec<_>>(),
            "serializationVersion": 2,
        });
        script("index", &self.version.folder, &index)
    }

    /// The units' texts, for excerpts.
    pub fn texts_js(&self) -> Vec<u8> {
        let texts: Vec<&str> = self.units.iter().map(|unit| unit.text.as_str()).collect();
        script("texts", &self.version.folder, &json!(texts))
    }
}

fn section_label(section: &Section) -> String {
    super::render::numbered(section.number.as_deref(), &section.heading())
}

fn spaced(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// `manualData("names", "2.6", …);`. In a script of its own `<` needs no escape.
fn script(what: &str, folder: &str, value: &Value) -> Vec<u8> {
    // U+2028 and U+2029 end no line in a string since ES2019.
    format!("manualData({}, {}, {value});\n", json!(what), json!(folder)).into_bytes()
}

/// Words as the search box cuts them (`terms` in manual.js), in lower case: `set-header` as a
/// whole, and `set` and `header`.
fn each_term(text: &str, visit: &mut impl FnMut(&str)) {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let joins = |c: char| matches!(c, '-' | '.' | '+');
    for run in text.split(|c: char| !is_word(c) && !joins(c)) {
        let whole = run.trim_matches(joins);
        if whole.is_empty() || whole.len() > LONGEST_WORD {
            continue;
        }
        let whole = whole.to_lowercase();
        visit(&whole);
        if whole.contains(joins) {
            whole.split(joins).filter(|part| !part.is_empty()).for_each(&mut *visit);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compound_words_are_found_whole_and_by_their_parts() {
        let mut terms = Vec::new();
        each_term("Use \"http-request set-var(txn.x)\".", &mut |term| terms.push(term.to_owned()));
        let expected = [
            "use",
            "http-request",
            "http",
            "request",
            "set-var",
            "set",
            "var",
            "txn.x",
            "txn",
            "x",
        ];
        assert_eq!(terms, expected);
    }
}
