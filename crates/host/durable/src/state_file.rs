//! State files as JSON with a format version: an older Braid neither misreads a file of a newer one
//! nor overwrites it.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::error::Error;
use std::path::Path;
use std::{fmt, fs, io};

/// The start of a file, in every version.
#[derive(Deserialize)]
struct Head {
    version: u32,
}

#[derive(Serialize, Deserialize)]
struct Whole<T> {
    version: u32,
    content: T,
}

/// The file has a format that only a newer Braid knows.
#[derive(Debug)]
struct Newer {
    found: u32,
    known: u32,
}

impl fmt::Display for Newer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Newer { found, known } = self;
        write!(
            f,
            "a newer braid wrote it (format {found}, this one knows {known}): upgrade this one"
        )
    }
}

impl Error for Newer {}

/// Whether this error of [`from_json`] or [`replace`] means that a newer Braid wrote the file.
pub fn is_newer(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<Newer>())
}

/// The file's text.
///
/// # Errors
/// The content can't be represented in JSON.
pub fn to_json<T: Serialize>(version: u32, content: T) -> io::Result<Vec<u8>> {
    let mut text = serde_json::to_vec_pretty(&Whole { version, content })?;
    text.push(b'\n');
    Ok(text)
}

/// Parses a file of this version.
///
/// # Errors
/// [`io::ErrorKind::InvalidData`] if the text is damaged or has another version.
pub fn from_json<T: DeserializeOwned>(version: u32, text: &[u8]) -> io::Result<T> {
    let damaged = |error: serde_json::Error| io::Error::new(io::ErrorKind::InvalidData, error);
    let head: Head = serde_json::from_slice(text).map_err(damaged)?;
    if head.version > version {
        return Err(newer(head.version, version));
    }
    if head.version < version {
        let why = format!("an older braid wrote it (format {}, not {version})", head.version);
        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
    }
    let whole: Whole<T> = serde_json::from_slice(text).map_err(damaged)?;
    Ok(whole.content)
}

/// Like [`from_json`], but also accepts a file from before this kind had a version: only the
/// content.
///
/// # Errors
/// As [`from_json`].
pub fn from_json_or_bare<T: DeserializeOwned>(version: u32, text: &[u8]) -> io::Result<T> {
    match serde_json::from_slice::<Head>(text) {
        Ok(_) => from_json(version, text),
        Err(_) => Ok(serde_json::from_slice(text)?),
    }
}

/// Replaces the file as [`crate::replace`] does.
///
/// # Errors
/// As [`crate::replace`]; [`is_newer`] if a newer Braid wrote the existing file, which then stays.
pub fn replace<T: Serialize>(
    path: &Path,
    version: u32,
    content: T,
    mode: Option<u32>,
) -> io::Result<()> {
    let text = to_json(version, content)?;
    refuse_newer(path, version)?;
    crate::replace(path, &text, mode)
}

/// Whether a file of this version may replace the existing one. A damaged or missing file may be
/// replaced.
///
/// # Errors
/// [`is_newer`].
pub fn refuse_newer(path: &Path, version: u32) -> io::Result<()> {
    fs::read(path).map_or(Ok(()), |present| refuse_newer_than(version, &present))
}

/// Like [`refuse_newer`], with the contents of the existing file.
///
/// # Errors
/// [`is_newer`].
pub fn refuse_newer_than(version: u32, present: &[u8]) -> io::Result<()> {
    match serde_json::from_slice(present) {
        Ok(Head { version: found }) if found > version => Err(newer(found, version)),
        _ => Ok(()),
    }
}

fn newer(found: u32, known: u32) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, Newer { found, known })
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
            (is_newer(&error), error.to_string())
        };
        let newer = "a newer braid wrote it (format 2, this one knows 1): upgrade this one";
        assert_eq!(why(1, &written), (true, newer.to_owned()));
        let older = "an older braid wrote it (format 2, not 3)";
        assert_eq!(why(3, &written), (false, older.to_owned()));
        // Whatever else a newer file contains.
        assert!(why(1, br#"{"version": 2, "peers": {}}"#).0);
        let bare = |text: &[u8]| from_json_or_bare::<Vec<String>>(1, text);
        assert_eq!(bare(br#"["a"]"#).unwrap(), ["a"]);
        assert_eq!(bare(&to_json(1, vec!["b"]).unwrap()).unwrap(), ["b"]);
        assert!(is_newer(&bare(&written).unwrap_err()));
        assert_eq!(bare(b"[").unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        let (newer, why) = why(1, b"half of it");
        assert!(!newer && why.contains("line 1"), "{why}");
    }

    #[test]
    fn what_a_newer_braid_wrote_is_not_written_over() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("state.json");
        let newer = r#"{"version": 2, "homes": {}}"#;
        fs::write(&file, newer).unwrap();
        assert!(is_newer(&replace(&file, 1, "a", None).unwrap_err()));
        assert_eq!(fs::read_to_string(&file).unwrap(), newer);
        for present in [newer, "damaged", "[]"] {
            fs::write(&file, present).unwrap();
            replace(&file, 2, "a", None).unwrap();
            assert_eq!(from_json::<String>(2, &fs::read(&file).unwrap()).unwrap(), "a");
        }
        fs::remove_file(&file).unwrap();
        replace(&file, 1, "a", None).unwrap();
    }
}
