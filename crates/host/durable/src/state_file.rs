//! Files in the state folder say in which format they are: what a newer Braid wrote an older one
//! doesn't take for something else.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io;

/// What stands at a file's beginning.
#[derive(Deserialize)]
struct Head {
    version: u32,
}

#[derive(Serialize, Deserialize)]
struct Whole<T> {
    version: u32,
    content: T,
}

/// The file's text.
///
/// # Errors
/// JSON has no form for it.
pub fn to_json<T: Serialize>(version: u32, content: T) -> io::Result<Vec<u8>> {
    Ok(serde_json::to_vec_pretty(&Whole { version, content })?)
}

/// What was written in this version.
///
/// # Errors
/// [`io::ErrorKind::InvalidData`] where the text is damaged, or in another version.
pub fn from_json<T: DeserializeOwned>(version: u32, text: &[u8]) -> io::Result<T> {
    let damaged = |error: serde_json::Error| io::Error::new(io::ErrorKind::InvalidData, error);
    let head: Head = serde_json::from_slice(text).map_err(damaged)?;
    if head.version != version {
        let who = if head.version > version { "a newer" } else { "an older" };
        let why = format!("{who} braid wrote it (format {}, not {version})", head.version);
        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
    }
    let whole: Whole<T> = serde_json::from_slice(text).map_err(damaged)?;
    Ok(whole.content)
}

/// As [`from_json`], also of a file from the time before this kind said its version: the content
/// stood alone.
///
/// # Errors
/// As [`from_json`].
pub fn from_json_or_bare<T: DeserializeOwned>(version: u32, text: &[u8]) -> io::Result<T> {
    match serde_json::from_slice::<Head>(text) {
        Ok(_) => from_json(version, text),
        Err(_) => Ok(serde_json::from_slice(text)?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_its_own_version_is_read() {
        let written = to_json(2, vec!["a"]).unwrap();
        assert_eq!(from_json::<Vec<String>>(2, &written).unwrap(), ["a"]);
        let why = |version, text: &[u8]| {
            let error = from_json::<Vec<String>>(version, text).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
            error.to_string()
        };
        assert_eq!(why(1, &written), "a newer braid wrote it (format 2, not 1)");
        assert_eq!(why(3, &written), "an older braid wrote it (format 2, not 3)");
        // Whatever else a newer one has.
        assert!(why(1, br#"{"version": 2, "peers": {}}"#).contains("newer"));
        let bare = |text: &[u8]| from_json_or_bare::<Vec<String>>(1, text);
        assert_eq!(bare(br#"["a"]"#).unwrap(), ["a"]);
        assert_eq!(bare(&to_json(1, vec!["b"]).unwrap()).unwrap(), ["b"]);
        assert!(bare(&written).unwrap_err().to_string().contains("a newer braid wrote it"));
        assert_eq!(bare(b"[").unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        assert!(why(1, b"half of it").contains("line 1"));
    }
}
