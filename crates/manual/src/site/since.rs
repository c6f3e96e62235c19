//! Since when a keyword is there, as far as the versions that the site has tell.

use super::plan::VersionPlan;
use crate::model::{Document, Section};
use std::collections::{BTreeMap, BTreeSet};

/// Which keywords each version has.
pub struct Since<'a> {
    /// Oldest first.
    versions: Vec<Known<'a>>,
}

struct Known<'a> {
    version: &'a str,
    documents: BTreeMap<&'a str, Keywords<'a>>,
}

#[derive(Default)]
struct Keywords<'a> {
    sections: BTreeSet<String>,
    names: BTreeSet<&'a str>,
    in_sections: BTreeSet<(String, &'a str)>,
}

impl<'a> Since<'a> {
    pub fn of(versions: &[VersionPlan<'a>]) -> Since<'a> {
        let known = versions.iter().rev().filter_map(|plan| {
            let documents = plan.documents.iter().map(|plan| plan.document);
            let documents = documents.map(|document| (document.name.as_str(), keywords(document)));
            Some(Known { version: plan.version?, documents: documents.collect() })
        });
        Since { versions: known.collect() }
    }

    /// The oldest version since which each one has the keyword in that section, and the one
    /// before, which has not. None if all have it.
    pub fn when(
        &self,
        document: &Document,
        section: &Section,
        name: &str,
    ) -> Option<(&'a str, &'a str)> {
        let version = document.version.as_deref()?;
        let at = self.versions.iter().position(|known| known.version == version)?;
        let title = section.heading();
        let lacks = |known: &&Known<'_>| match known.documents.get(document.name.as_str()) {
            None => false,
            // A section that is new or was renamed: its keywords may have been elsewhere.
            Some(keywords) if !keywords.sections.contains(&title) => !keywords.names.contains(name),
            Some(keywords) => !keywords.in_sections.contains(&(title.clone(), name)),
        };
        let before = self.versions[..at].iter().rposition(|known| lacks(&known))?;
        Some((self.versions[before + 1].version, self.versions[before].version))
    }
}

fn keywords(document: &Document) -> Keywords<'_> {
    let mut found = Keywords::default();
    for section in &document.sections {
        let title = section.heading();
        for head in section.keywords().flat_map(|keyword| &keyword.heads) {
            found.names.insert(&head.name);
            found.in_sections.insert((title.clone(), &head.name));
        }
        found.sections.insert(title);
    }
    found
}
