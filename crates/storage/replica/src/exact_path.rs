//! Paths and names as text without loss, including those that aren't UTF-8.

use braid_pool::untrusted::deceives;
use percent_encoding::{percent_decode_str, percent_encode_byte};
use serde::{Deserialize, Serialize};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// A path that is written as text without loss: unchanged if it is UTF-8, otherwise with a leading
/// zero character, which no real path has, and `%XX` for `%` and for non-UTF-8 bytes. Displayed, it
/// can't control the terminal.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", from = "String")]
pub struct ExactPath(PathBuf);

/// What the written form begins with when it isn't the path itself.
const ESCAPED: char = '\0';

impl ExactPath {
    /// The path itself.
    pub fn as_path(&self) -> &Path {
        &self.0
    }

    /// The written form: no two paths have the same.
    pub fn written(&self) -> String {
        match self.0.to_str() {
            Some(text) if !text.starts_with(ESCAPED) => text.to_owned(),
            _ => format!("{ESCAPED}{}", escape(self.as_name(), |c| c == '%')),
        }
    }

    /// It as a name.
    pub fn as_name(&self) -> &OsStr {
        self.0.as_os_str()
    }
}

impl From<PathBuf> for ExactPath {
    fn from(path: PathBuf) -> Self {
        ExactPath(path)
    }
}

impl From<OsString> for ExactPath {
    fn from(name: OsString) -> Self {
        ExactPath(name.into())
    }
}

impl From<&Path> for ExactPath {
    fn from(path: &Path) -> Self {
        ExactPath(path.to_owned())
    }
}

impl From<String> for ExactPath {
    /// Reads the written form.
    fn from(text: String) -> Self {
        match text.strip_prefix(ESCAPED) {
            Some(escaped) => ExactPath(unescape(escaped).into()),
            None => ExactPath(text.into()),
        }
    }
}

impl fmt::Debug for ExactPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for ExactPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.as_name().as_bytes().utf8_chunks() {
            for c in chunk.valid().chars() {
                match deceives(c) {
                    true => write!(f, "\\x{:02x}", u32::from(c))?,
                    false => write!(f, "{c}")?,
                }
            }
            for byte in chunk.invalid() {
                write!(f, "\\x{byte:02x}")?;
            }
        }
        Ok(())
    }
}

impl From<ExactPath> for String {
    fn from(path: ExactPath) -> String {
        path.written()
    }
}

/// `text` with `%XX` for the characters that are `special` (ASCII ones) and for
/// bytes that aren't UTF-8.
pub(crate) fn escape(text: &OsStr, special: impl Fn(char) -> bool) -> String {
    let mut out = String::new();
    for chunk in text.as_bytes().utf8_chunks() {
        for c in chunk.valid().chars() {
            if c.is_ascii() && special(c) {
                out.push_str(percent_encode_byte(c as u8));
            } else {
                out.push(c);
            }
        }
        for byte in chunk.invalid() {
            out.push_str(percent_encode_byte(*byte));
        }
    }
    out
}

/// Reads what [`escape`] wrote; a `%` that begins no escape stands for itself.
pub(crate) fn unescape(text: &str) -> OsString {
    OsString::from_vec(percent_decode_str(text).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_path_is_written_as_it_is_and_shown_without_control() {
        for text in ["%2F.20261121T235646Z", "100%", "a%2Fb/\u{e9}", "back\\slash", ""] {
            let path = ExactPath::from(Path::new(text));
            assert_eq!(serde_json::to_value(&path).unwrap(), text);
            assert_eq!(path.to_string(), text);
        }
        let path = ExactPath::from(OsString::from_vec(b"\x1b[2Ja\n\xff".to_vec()));
        assert_eq!(path.to_string(), "\\x1b[2Ja\\x0a\\xff");
    }

    #[test]
    fn a_zero_character_in_front_survives() {
        let path = ExactPath::from(Path::new("\0%41"));
        assert_eq!(ExactPath::from(path.written()), path);
    }

    proptest! {
        #[test]
        fn any_path_survives(bytes: Vec<u8>) {
            let path = ExactPath::from(OsString::from_vec(bytes));
            let text = serde_json::to_string(&path).unwrap();
            prop_assert_eq!(serde_json::from_str::<ExactPath>(&text).unwrap(), path);
        }
    }
}
