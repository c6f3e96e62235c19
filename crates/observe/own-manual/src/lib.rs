//! Braid's own manual: the site that `braid manual` makes from `docs/`, generated when the program
//! is built and kept compressed. Serving a file costs only a look-up.

#![forbid(unsafe_code)]

use flate2::read::GzDecoder;
use std::io::Read;
use std::ops::Range;

/// All files, one gzip member each.
static PACK: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/pack"));
/// Each file's range in it, sorted by address.
static TABLE: &[(&str, Range<usize>)] = include!(concat!(env!("OUT_DIR"), "/table.rs"));

/// A file of the site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct File {
    /// Its media type.
    pub kind: &'static str,
    /// Its content as gzip.
    pub packed: &'static [u8],
}

/// The file at this address below the site, such as `index.html`.
#[must_use]
pub fn file(path: &str) -> Option<File> {
    let at = TABLE.binary_search_by_key(&path, |(known, _)| known).ok()?;
    let (path, range) = &TABLE[at];
    Some(File { kind: kind(path), packed: &PACK[range.clone()] })
}

/// All addresses, in order.
pub fn paths() -> impl Iterator<Item = &'static str> {
    TABLE.iter().map(|(path, _)| *path)
}

/// How much the manual adds to the program, bytes.
#[must_use]
pub fn size() -> usize {
    PACK.len()
}

impl File {
    /// The content for clients that don't accept gzip.
    #[must_use]
    pub fn unpacked(&self) -> Vec<u8> {
        let mut content = Vec::new();
        // It was packed at build time and is read from memory: it can't be truncated or damaged.
        let _ = GzDecoder::new(self.packed).read_to_end(&mut content);
        content
    }
}

fn kind(path: &str) -> &'static str {
    match path.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("png") => "image/png",
        Some("svg") => "image/svg+xml",
        Some("txt") => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use braid_manual::check::check_site;
    use braid_manual::site::Site;

    #[test]
    fn all_guides_are_in_it_and_every_link_leads_somewhere() {
        let mut site = Site::default();
        for path in paths() {
            let file = file(path).unwrap();
            assert_ne!(file.kind, "application/octet-stream", "{path}");
            site.files.insert(path.to_owned(), file.unpacked());
        }
        let report = check_site(&site);
        assert!(report.is_clean() && report.pages > 20, "{report:?}");
        let version = env!("CARGO_PKG_VERSION");
        for guide in ["home", "concentrator", "nas", "trouble"] {
            assert!(file(&format!("{version}/guide/{guide}.html")).is_some(), "{guide}");
        }
        assert!(file("index.html/").is_none() && file("../index.html").is_none());
        println!("{} files, {} bytes packed", site.files.len(), size());
    }
}
