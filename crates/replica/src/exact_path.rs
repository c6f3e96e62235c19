//! Paths and names as text without loss, also those that aren't UTF-8.

use serde::{Deserialize, Serialize};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// A path that is written as text with `%XX` for `%` and for bytes that aren't
/// UTF-8.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", from = "String")]
pub struct ExactPath(PathBuf);

impl ExactPath {
    /// The path itself.
    pub fn as_path(&self) -> &Path {
        &self.0
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
        ExactPath(unescape(&text).into())
    }
}

impl fmt::Debug for ExactPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for ExactPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&escape(self.as_name(), |c| c == '%'))
    }
}

impl From<ExactPath> for String {
    fn from(path: ExactPath) -> String {
        path.to_string()
    }
}

/// `text` with `%XX` for the characters that are `special` (ASCII ones) and for
/// bytes that aren't UTF-8.
pub(crate) fn escape(text: &OsStr, special: impl Fn(char) -> bool) -> String {
    let mut out = String::new();
    for chunk in text.as_bytes().utf8_chunks() {
        for c in chunk.valid().chars() {
            if c.is_ascii() && special(c) {
                out.push_str(&format!("%{:02X}", u32::from(c)));
            } else {
                out.push(c);
            }
        }
        for byte in chunk.invalid() {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// Reads what [`escape`] wrote; a `%` that begins no escape stands for itself.
pub(crate) fn unescape(text: &str) -> OsString {
    let mut out = vec![];
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let hex = |byte: u8| char::from(byte).to_digit(16);
        let escaped = match (first, after) {
            (b'%', [high, low, ..]) => hex(*high).zip(hex(*low)),
            _ => None,
        };
        match escaped {
            Some((high, low)) => {
                out.push((high * 16 + low) as u8);
                rest = after.get(2..).unwrap_or_default();
            }
            None => {
                out.push(*first);
                rest = after;
            }
        }
    }
    OsString::from_vec(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_path_survives(bytes: Vec<u8>) {
            let path = ExactPath::from(OsString::from_vec(bytes));
            let text = serde_json::to_string(&path).unwrap();
            prop_assert_eq!(serde_json::from_str::<ExactPath>(&text).unwrap(), path);
        }
    }
}
