//! Paths in a config. An impossible path is an error at its line, rather than a later system error.

use super::section::Section;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// Linux' `PATH_MAX` and `NAME_MAX`, without the terminating byte (limits.h).
const LONGEST: usize = 4095;
const LONGEST_NAME: usize = 255;
/// `sun_path` of unix(7), without the terminating byte.
const LONGEST_SOCKET: usize = 107;
/// Maximum length of a shell command; far more than usual in a config.
const LONGEST_COMMAND: usize = 8192;

/// The file that a key names, relative to `base` if it isn't absolute.
pub(super) fn file(
    section: &mut Section<'_, '_>,
    key: &'static str,
    base: &Path,
) -> Option<PathBuf> {
    section.parsed_by(key, |text| file_path(text, base))
}

/// A path that this program creates.
pub(super) fn place(
    section: &mut Section<'_, '_>,
    key: &'static str,
    base: &Path,
) -> Option<PathBuf> {
    section.parsed_by(key, |text| place_path(text, base))
}

/// The socket that a key names.
pub(super) fn socket(
    section: &mut Section<'_, '_>,
    key: &'static str,
    base: &Path,
) -> Option<PathBuf> {
    section.parsed_by(key, |text| {
        let path = place_path(text, base)?;
        names_a_file(text)?;
        match path.as_os_str().len() <= LONGEST_SOCKET {
            true => Ok(path),
            false => Err(format!(
                "{path:?} is longer than the {LONGEST_SOCKET} bytes that a socket's path may have"
            )),
        }
    })
}

/// The file that this text names.
pub(super) fn file_path(text: &str, base: &Path) -> Result<PathBuf, String> {
    let path = path(text, base)?;
    names_a_file(text)?;
    Ok(path)
}

/// A shell command.
pub(super) fn command(text: &str) -> Result<String, String> {
    let fits = |c: char| !c.is_control() || c == '\n' || c == '\t';
    if text.trim().is_empty() {
        return Err("it is empty; write a shell command".to_owned());
    }
    match text.len() <= LONGEST_COMMAND && text.chars().all(fits) {
        true => Ok(text.to_owned()),
        false => Err(format!(
            "{} can't be run: write at most {LONGEST_COMMAND} bytes without control characters, or \
             name a script",
            shown(text)
        )),
    }
}

/// A normalised path, so that comparing two shows whether they are the same place.
pub(super) fn place_path(text: &str, base: &Path) -> Result<PathBuf, String> {
    let path = path(text, base)?;
    match Path::new(text).components().any(|part| part == Component::ParentDir) {
        true => Err(format!("{} contains \"..\"; write the path without it", shown(text))),
        false => Ok(path),
    }
}

fn path(text: &str, base: &Path) -> Result<PathBuf, String> {
    if text.is_empty() {
        return Err("it is empty; write a path, or omit the key".to_owned());
    }
    if text.chars().any(char::is_control) {
        return Err(format!("{} contains a control character", shown(text)));
    }
    let path = base.join(text);
    let mut names = path.components().map(|part| part.as_os_str());
    if path.as_os_str().len() > LONGEST || names.any(|name: &OsStr| name.len() > LONGEST_NAME) {
        return Err(format!(
            "{} is too long for a path: {LONGEST} bytes, {LONGEST_NAME} between two slashes",
            shown(text)
        ));
    }
    Ok(path)
}

fn names_a_file(text: &str) -> Result<(), String> {
    match Path::new(text).file_name().is_some() && !OsStr::new(text).as_bytes().ends_with(b"/") {
        true => Ok(()),
        false => Err(format!("{} is a folder's path, not a file's", shown(text))),
    }
}

fn shown(text: &str) -> String {
    const MOST: usize = 80;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{:?}…", text.get(..end).unwrap_or_default()),
        None => format!("{text:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_file_is_called_is_no_path() {
        let base = Path::new("/etc/braid");
        assert_eq!(file_path("keys/home.key", base), Ok("/etc/braid/keys/home.key".into()));
        assert_eq!(file_path("../home.key", base), Ok("/etc/braid/../home.key".into()));
        assert_eq!(file_path("/a b/ü", base), Ok("/a b/ü".into()));
        let (long, deep) = ("x".repeat(256), "x/".repeat(2100) + "x");
        for wrong in ["", "a\nb", "a\0", "\u{1b}[2J", ".", "/", "a/", "..", &long, &deep] {
            assert!(file_path(wrong, base).is_err(), "{wrong:?}");
        }
        assert!(place_path("state/", base).is_ok() && place_path("/var/../x", base).is_err());
        for wrong in ["", " \n", "a\0b", "\u{1b}[2J", &"x".repeat(9000)] {
            assert!(command(wrong).is_err(), "{wrong:?}");
        }
        assert!(command("if true; then\n\techo \"$BRAID_EVENT\"; fi").is_ok());
    }
}
