//! Reads small files completely, with a size limit in case it is the wrong file.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Permission bits of users who are neither the owner nor in the group.
pub const OTHERS: u32 = 0o007;
/// Permission bits of everybody except the owner.
pub const ALL_BUT_OWNER: u32 = 0o077;

/// Why a secret isn't read.
#[derive(Debug)]
pub enum SecretError {
    /// The system's error, or the file is too long.
    Io(io::Error),
    /// Users who shouldn't can read it: the permission bits.
    Exposed(u32),
}

impl From<io::Error> for SecretError {
    fn from(error: io::Error) -> SecretError {
        SecretError::Io(error)
    }
}

/// The text of a file that has no more than `most` bytes.
///
/// # Errors
/// The system's error; `FileTooLarge` when it has more, `InvalidData` when it isn't UTF-8.
pub fn read_text(path: &Path, most: u64) -> io::Result<String> {
    text_of(&File::open(path)?, most)
}

/// Like [`read_text`], for a file that not every user may read.
///
/// # Errors
/// As [`read_text`]; or if every user may read it.
pub fn read_secret(path: &Path, most: u64) -> Result<String, SecretError> {
    Ok(text_of(&open_secret(path, OTHERS)?, most)?)
}

/// Opens a file with a secret, if none of these permission bits is set.
///
/// # Errors
/// The system's error; or if one of them is set.
pub fn open_secret(path: &Path, forbidden: u32) -> Result<File, SecretError> {
    let file = File::open(path)?;
    // Bits of the open file, so that it can't be exchanged in between.
    let mode = file.metadata()?.mode() & 0o777;
    match mode & forbidden {
        0 => Ok(file),
        _ => Err(SecretError::Exposed(mode)),
    }
}

fn text_of(file: &File, most: u64) -> io::Result<String> {
    let mut text = String::new();
    file.take(most.saturating_add(1)).read_to_string(&mut text)?;
    match text.len() as u64 > most {
        true => Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("it has more than {most} bytes"),
        )),
        false => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_file_is_read_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("f");
        let absent = read_text(&file, 4).unwrap_err();
        assert_eq!(absent.kind(), io::ErrorKind::NotFound);
        fs::write(&file, "four").unwrap();
        assert_eq!(read_text(&file, 4).unwrap(), "four");
        assert_eq!(read_text(&file, 3).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        fs::write(&file, b"\xff").unwrap();
        assert_eq!(read_text(&file, 4).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn a_secret_that_everybody_may_read_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("f");
        fs::write(&file, "s").unwrap();
        for (mode, fine) in [(0o600, true), (0o640, true), (0o604, false), (0o601, false)] {
            fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
            match read_secret(&file, 9) {
                Ok(text) => assert!(fine && text == "s", "{mode:o}"),
                Err(SecretError::Exposed(found)) => assert!(!fine && found == mode, "{mode:o}"),
                Err(SecretError::Io(error)) => panic!("{error}"),
            }
        }
        fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
        let opened = open_secret(&file, ALL_BUT_OWNER);
        assert!(matches!(opened, Err(SecretError::Exposed(0o640))), "{opened:?}");
    }
}
