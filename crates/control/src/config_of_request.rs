//! Which config a request is meant for: the configs of two tunnels may name the same control
//! socket, and a command for one must not change the other.

use crate::error_answer::error;
use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderName, StatusCode};
use axum::middleware::{Next, from_fn};
use percent_encoding::{AsciiSet, CONTROLS, percent_encode};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The header that names the config; without it a request is for any config.
pub(crate) const HEADER: HeaderName = HeaderName::from_static("braid-config");
/// The status for a request meant for another config.
pub(crate) const ANOTHERS: StatusCode = StatusCode::MISDIRECTED_REQUEST;

/// Refuses requests for another config than `file`.
pub(crate) fn only_for<S>(router: Router<S>, file: &Path) -> Router<S>
where
    S: Clone + Send + Sync + 'static,
{
    let (own, shown) = (Arc::<str>::from(header_value(file)), whole(file));
    router.layer(from_fn(move |request: Request, next: Next| {
        let named = request.headers().get(HEADER).cloned();
        let refused = named.is_some_and(|named| named.as_bytes() != own.as_bytes());
        let shown = shown.clone();
        async move {
            match refused {
                true => error(ANOTHERS, &shown.to_string_lossy()),
                false => next.run(request).await,
            }
        }
    }))
}

/// The header's value for this file, which need not exist: its path without symbolic links,
/// percent-encoded (RFC 3986, section 2.1).
pub(crate) fn header_value(file: &Path) -> String {
    percent_encode(whole(file).as_os_str().as_bytes(), NOT_OF_HEADERS).to_string()
}

/// Non-ASCII characters are encoded in any case.
const NOT_OF_HEADERS: &AsciiSet = &CONTROLS.add(b' ').add(b'%');

fn whole(file: &Path) -> PathBuf {
    let file = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    let folder = file.parent().and_then(|folder| folder.canonicalize().ok());
    match (file.canonicalize(), folder, file.file_name()) {
        (Ok(whole), ..) => whole,
        (Err(_), Some(folder), Some(name)) => folder.join(name),
        _ => file,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_one_value_by_whatever_way_it_is_named_and_when_it_is_away() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a b%.toml");
        std::fs::write(&file, "").unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(folder.path(), &link).unwrap();
        let value = header_value(&file);
        assert!(value.ends_with("/a%20b%25.toml"), "{value}");
        assert_eq!(header_value(&link.join("a b%.toml")), value);
        std::fs::remove_file(&file).unwrap();
        assert_eq!(header_value(&link.join("a b%.toml")), value);
        assert_ne!(header_value(&folder.path().join("other.toml")), value);
    }
}
