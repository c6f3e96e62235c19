//! Braid's own manual below `/manual/`: files in the program, compressed as browsers accept them.

use braid_own_manual::{File, file};
use hyper::body::Bytes;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use std::hash::{DefaultHasher, Hash, Hasher};

/// The answer to a request for it.
pub enum Given {
    /// The address of its first page.
    At(&'static str),
    /// The browser's copy is up to date.
    Same,
    /// A file and its headers.
    File(Bytes, Vec<(HeaderName, HeaderValue)>),
}

/// The file at this path; `None` if there is none.
pub fn given(parts: &[String], asked: &HeaderMap) -> Option<Given> {
    let path = parts.join("/");
    if parts.is_empty() {
        return Some(Given::At("/manual/"));
    }
    let file = file(if path.is_empty() { "index.html" } else { &path })?;
    let has = |name: HeaderName, word: &str| {
        let texts = asked.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
        texts.flat_map(|text| text.split(',')).any(|part| part.trim() == word)
    };
    let tag = tag(file);
    if has(header::IF_NONE_MATCH, &tag) {
        return Some(Given::Same);
    }
    let text = |text: &str| HeaderValue::try_from(text).ok();
    let mut headers = vec![
        (header::CONTENT_TYPE, text(file.kind)),
        // Cached but revalidated each time, since an upgrade changes it.
        (header::CACHE_CONTROL, text("private, no-cache")),
        (header::ETAG, text(&tag)),
        (header::VARY, text("accept-encoding")),
    ];
    let content = match has(header::ACCEPT_ENCODING, "gzip") {
        true => {
            headers.push((header::CONTENT_ENCODING, text("gzip")));
            Bytes::from_static(file.packed)
        }
        false => file.unpacked().into(),
    };
    let headers = headers.into_iter().filter_map(|(name, value)| Some((name, value?)));
    Some(Given::File(content, headers.collect()))
}

/// A weak tag: compressed or not, it is the same file.
fn tag(file: File) -> String {
    let mut hasher = DefaultHasher::new();
    file.packed.hash(&mut hasher);
    format!("W/\"{:016x}\"", hasher.finish())
}
