//! Looks over a site's pages: links that lead nowhere, ids that are there twice.

use crate::site::Site;
use html5gum::{Token, Tokenizer};
use percent_encoding::percent_decode_str;
use serde::Serialize;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// HTML files.
    pub pages: usize,
    /// Links to places in the site.
    pub links: usize,
    /// Links to other hosts; they are not followed.
    pub external: usize,
    /// Links that lead nowhere.
    pub dead: Vec<Dead>,
    /// Ids that a page has more than once.
    pub duplicates: Vec<Duplicate>,
}

/// A link that leads nowhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Dead {
    /// Below the site's folder.
    pub page: String,
    /// As the page has it.
    pub link: String,
    /// How often the page has it.
    pub times: usize,
    /// What is missing.
    pub missing: Missing,
}

/// What a link needs and is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Missing {
    /// The file.
    File,
    /// The id in the file.
    Id,
}

/// An id that a page has more than once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Duplicate {
    /// Below the site's folder.
    pub page: String,
    /// The id.
    pub id: String,
    /// How often.
    pub times: usize,
}

/// Why a site can't be looked over.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// The system's word.
    #[error("{path}: {error}")]
    Io {
        /// Which file or folder.
        path: PathBuf,
        /// What is wrong.
        error: io::Error,
    },
    /// Nothing to look over.
    #[error("{0}: no .html file is in this folder")]
    NoPages(PathBuf),
}

impl Report {
    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.dead.is_empty() && self.duplicates.is_empty()
    }
}

/// Looks over all pages below `folder`; `progress` is told how many of how many are done.
///
/// # Errors
/// See [`CheckError`].
pub fn check(folder: &Path, mut progress: impl FnMut(usize, usize)) -> Result<Report, CheckError> {
    let mut files = BTreeSet::new();
    files_below(folder, "", &mut files)?;
    let pages: Vec<&String> = files.iter().filter(|file| file.ends_with(".html")).collect();
    if pages.is_empty() {
        return Err(CheckError::NoPages(folder.to_owned()));
    }
    let mut read = BTreeMap::new();
    for (at, page) in pages.iter().enumerate() {
        let path = folder.join(page);
        let html = fs::read(&path).map_err(|error| CheckError::Io { path, error })?;
        read.insert(page.as_str(), Page::read(&html));
        progress(at, pages.len());
    }
    Ok(report(&files, &read))
}

/// Looks over a site that isn't written yet.
#[must_use]
pub fn check_site(site: &Site) -> Report {
    let files: BTreeSet<String> = site.files.keys().cloned().collect();
    let pages = site.files.iter().filter(|(path, _)| path.ends_with(".html"));
    let read = pages.map(|(path, html)| (path.as_str(), Page::read(html))).collect();
    report(&files, &read)
}

fn report(files: &BTreeSet<String>, read: &BTreeMap<&str, Page>) -> Report {
    let mut report = Report { pages: read.len(), ..Report::default() };
    for (name, page) in read {
        for (id, times) in page.ids.iter().filter(|(_, times)| **times > 1) {
            let (page, id) = ((*name).to_owned(), id.clone());
            report.duplicates.push(Duplicate { page, id, times: *times });
        }
        for (link, times) in &page.links {
            match follow(name, link, files, read) {
                Followed::Outside => report.external += times,
                Followed::There => report.links += times,
                Followed::Missing(missing) => {
                    report.links += times;
                    let (page, link) = ((*name).to_owned(), link.clone());
                    report.dead.push(Dead { page, link, times: *times, missing });
                }
            }
        }
    }
    report
}

fn files_below(
    folder: &Path,
    prefix: &str,
    found: &mut BTreeSet<String>,
) -> Result<(), CheckError> {
    let io = |error| CheckError::Io { path: folder.to_owned(), error };
    for entry in fs::read_dir(folder).map_err(io)? {
        let entry = entry.map_err(io)?;
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.file_type().map_err(io)?.is_dir() {
            files_below(&entry.path(), &format!("{name}/"), found)?;
        } else {
            found.insert(name);
        }
    }
    Ok(())
}

/// Ids and links of a page, each with how often it is there.
#[derive(Default)]
struct Page {
    ids: BTreeMap<String, usize>,
    links: BTreeMap<String, usize>,
}

impl Page {
    fn read(html: &[u8]) -> Page {
        let mut page = Page::default();
        for Ok(token) in Tokenizer::new(html) {
            let Token::StartTag(tag) = token else { continue };
            let mut own = BTreeSet::new();
            for (key, value) in &tag.attributes {
                let value = String::from_utf8_lossy(value).into_owned();
                match key.as_slice() {
                    b"id" => {
                        own.insert(value);
                    }
                    // What links lead to as well (HTML, "indicated part of the document").
                    b"name" if tag.name.as_slice() == b"a" => {
                        own.insert(value);
                    }
                    b"href" | b"src" => *page.links.entry(value).or_default() += 1,
                    _ => {}
                }
            }
            for id in own {
                *page.ids.entry(id).or_default() += 1;
            }
        }
        page
    }
}

enum Followed {
    There,
    Outside,
    Missing(Missing),
}

fn follow(
    page: &str,
    link: &str,
    files: &BTreeSet<String>,
    pages: &BTreeMap<&str, Page>,
) -> Followed {
    let scheme = link.find([':', '/', '?', '#']).is_some_and(|at| link[at..].starts_with(':'));
    if scheme || link.starts_with("//") {
        return Followed::Outside;
    }
    let (address, id) = link.split_once('#').unwrap_or((link, ""));
    let address = address.split('?').next().unwrap_or_default();
    let target = match address {
        "" => page.to_owned(),
        address => resolve(page, &decoded(address)),
    };
    let index = format!("{}index.html", target.trim_end_matches('/').to_owned() + "/");
    let target = match files.contains(&target) {
        true => target,
        false if files.contains(index.trim_start_matches('/')) => {
            index.trim_start_matches('/').to_owned()
        }
        false => return Followed::Missing(Missing::File),
    };
    let id = decoded(id);
    match pages.get(target.as_str()) {
        // The top is always there.
        Some(page) if !id.is_empty() && id != "top" && !page.ids.contains_key(id.as_ref()) => {
            Followed::Missing(Missing::Id)
        }
        _ => Followed::There,
    }
}

/// `address` as seen from `page`.
fn resolve(page: &str, address: &str) -> String {
    let mut parts: Vec<&str> = match address.starts_with('/') {
        true => Vec::new(),
        false => page.split('/').rev().skip(1).collect::<Vec<_>>().into_iter().rev().collect(),
    };
    for part in address.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Without percent-encoding.
fn decoded(text: &str) -> Cow<'_, str> {
    percent_decode_str(text).decode_utf8_lossy()
}
