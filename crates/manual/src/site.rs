//! Documents become pages: static files that need no server and no other host.

mod html;
mod index;
mod names;
mod page;
mod pictures;
mod plan;
mod render;
mod search;
mod since;
mod version;
mod write;

pub use write::WriteError;

use crate::model::Document;
use names::Names;
use plan::{DocumentPlan, VersionPlan, plan};
use since::Since;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What the site is called and where it will be.
#[derive(Clone, Debug)]
pub struct Options {
    /// On every page's head.
    pub title: String,
    /// Where it will be served, for canonical addresses and a sitemap.
    pub base_url: Option<String>,
}

/// A manual and the file it was read from, against which its links count.
#[derive(Clone, Debug)]
pub struct Input {
    /// What was read.
    pub document: Document,
    /// The file.
    pub file: PathBuf,
}

/// All files of a site.
#[derive(Clone, Debug, Default)]
pub struct Site {
    /// By their address below the site's folder.
    pub files: BTreeMap<String, Vec<u8>>,
    /// Addresses of the pages with text, in reading order.
    pub reading_order: Vec<String>,
    /// What was made.
    pub summary: Summary,
}

/// What a site has, in figures.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Summary {
    /// One entry for each document.
    pub documents: Vec<DocumentSummary>,
    /// Files with text to read.
    pub pages: usize,
    /// Of all files together.
    pub bytes: u64,
}

/// What a document has, in figures.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct DocumentSummary {
    /// In addresses.
    pub name: String,
    /// Of the program it describes.
    pub version: Option<String>,
    /// Headings.
    pub sections: usize,
    /// Lines that define keywords.
    pub keywords: usize,
    /// Its first page.
    pub page: String,
}

/// Why documents make no site.
#[derive(Debug, thiserror::Error)]
pub enum SiteError {
    /// Two would have the same addresses.
    #[error(
        "{first} and {second} both are \"{name}\" of version {version}: rename one of the files, \
         or give them versions with --version"
    )]
    SameName {
        /// What both are called.
        name: String,
        /// What both describe.
        version: String,
        /// The file that came first.
        first: PathBuf,
        /// The other.
        second: PathBuf,
    },
    /// The system's word on a picture.
    #[error("{file}: {error}")]
    Picture {
        /// The picture.
        file: PathBuf,
        /// What is wrong.
        error: std::io::Error,
    },
}

/// Makes the site; `progress` is told how many of how many documents are done.
///
/// # Errors
/// See [`SiteError`].
pub fn build(
    inputs: &[Input],
    options: &Options,
    mut progress: impl FnMut(usize, usize),
) -> Result<Site, SiteError> {
    refuse_same_names(inputs)?;
    let versions = plan(inputs);
    let since = Since::of(&versions);
    let names: Vec<Names<'_>> = versions.iter().map(Names::of).collect();
    let mut site = Site::default();
    let all = inputs.len();
    let mut done = 0;
    for (version, names) in versions.iter().zip(&names) {
        for document in &version.documents {
            let room = page::Room { options, versions: &versions, version, document, names };
            for (at, page) in document.pages.iter().enumerate() {
                let html = room.html(at, &since);
                site.reading_order.push(page.path.clone());
                site.files.insert(page.path.clone(), html.into_bytes());
            }
            site.files.insert(document.keywords_page(), room.keywords_html().into_bytes());
            site.files.insert(format!("{}.json", document.stem), to_json(document.document));
            add_pictures(document, &mut site)?;
            done += 1;
            progress(done, all);
        }
        let search = search::Search::of(version, names);
        site.files.insert(format!("{}/data/names.js", version.folder), search.names_js());
        site.files.insert(format!("{}/data/index.js", version.folder), search.index_js());
        site.files.insert(format!("{}/data/texts.js", version.folder), search.texts_js());
    }
    site.files.insert("index.html".into(), index::html(&versions, options).into_bytes());
    for (path, content) in ASSETS {
        site.files.insert(format!("assets/{path}"), content.as_bytes().to_vec());
    }
    if let Some(base) = &options.base_url {
        site.files.insert("sitemap.xml".into(), sitemap(base, &site).into_bytes());
    }
    site.summary = summary(&versions, &site);
    site.files.insert(write::MARK.into(), to_json(&site.summary));
    Ok(site)
}

const ASSETS: &[(&str, &str)] = &[
    ("manual.css", include_str!("../assets/manual.css")),
    ("manual.js", include_str!("../assets/manual.js")),
    ("minisearch.js", include_str!("../assets/minisearch/minisearch.js")),
    ("minisearch-LICENSE.txt", include_str!("../assets/minisearch/LICENSE.txt")),
];

fn to_json(value: &impl serde::Serialize) -> Vec<u8> {
    // No type of the model has a map with keys that aren't strings, so this can't fail.
    serde_json::to_vec(value).unwrap_or_default()
}

fn refuse_same_names(inputs: &[Input]) -> Result<(), SiteError> {
    let mut known: BTreeMap<(&str, Option<&str>), &Path> = BTreeMap::new();
    for input in inputs {
        let document = &input.document;
        let key = (document.name.as_str(), document.version.as_deref());
        if let Some(first) = known.insert(key, &input.file) {
            return Err(SiteError::SameName {
                name: document.name.clone(),
                version: document.version.clone().unwrap_or_else(|| "(none)".into()),
                first: first.to_owned(),
                second: input.file.clone(),
            });
        }
    }
    Ok(())
}

fn add_pictures(document: &DocumentPlan<'_>, site: &mut Site) -> Result<(), SiteError> {
    for (file, address) in &document.pictures {
        let content = std::fs::read(file);
        let content = content.map_err(|error| SiteError::Picture { file: file.clone(), error })?;
        site.files.insert(address.clone(), content);
    }
    Ok(())
}

fn sitemap(base: &str, site: &Site) -> String {
    let mut xml = String::from(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <urlset xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\">\n",
    );
    for path in site.files.keys().filter(|path| path.ends_with(".html")) {
        xml.push_str("<url><loc>");
        html::escape(&page::absolute(base, path), &mut xml);
        xml.push_str("</loc></url>\n");
    }
    xml.push_str("</urlset>\n");
    xml
}

fn summary(versions: &[VersionPlan<'_>], site: &Site) -> Summary {
    let documents = versions.iter().flat_map(|version| &version.documents).map(|plan| {
        let document = plan.document;
        DocumentSummary {
            name: document.name.clone(),
            version: document.version.clone(),
            sections: document.sections.len(),
            keywords: document.heads(),
            page: plan.pages[0].path.clone(),
        }
    });
    Summary {
        documents: documents.collect(),
        pages: site.reading_order.len(),
        bytes: site.files.values().map(|content| content.len() as u64).sum(),
    }
}
