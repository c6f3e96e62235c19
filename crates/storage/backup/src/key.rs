//! The key of backups: a file with one line, as `restic --password-file` reads it.

use crate::Error;
use braid_durable::{ALL_BUT_OWNER, SecretError, open_secret};
use braid_pool::key_text::{KEY_BYTES, key_meant, key_text};
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// Where it is when nobody says.
pub const DEFAULT: &str = "/etc/braid/backup.key";

/// A key, with where it came from.
pub struct Key {
    file: PathBuf,
    text: Zeroizing<String>,
}

impl Key {
    /// Reads it.
    ///
    /// # Errors
    /// It isn't there, is empty, or others than its owner may read it.
    pub fn read(file: &Path) -> Result<Key, Error> {
        let reading = |error| Error::io("reading", file, error);
        let mut opened = open_secret(file, ALL_BUT_OWNER).map_err(|error| match error {
            SecretError::Io(error) if error.kind() == io::ErrorKind::NotFound => {
                Error::Refused(format!(
                    "there is no key at {}: `braid pool backup init` makes one; where backups \
                     exist already, write the line of their recovery sheet into it (mode 600)",
                    file.display()
                ))
            }
            SecretError::Io(error) => reading(error),
            SecretError::Exposed(_) => {
                Error::Refused(format!("others can read the key: chmod 600 {}", file.display()))
            }
        })?;
        let mut all = String::new();
        opened.read_to_string(&mut all).map_err(reading)?;
        let all = Zeroizing::new(all);
        // restic, too, takes the first line, without white space around.
        let text = Zeroizing::new(all.lines().next().unwrap_or_default().trim().to_owned());
        if text.is_empty() {
            return Err(Error::Refused(format!("{} holds no key", file.display())));
        }
        Ok(Key { file: file.to_owned(), text })
    }

    /// Makes a new one, where there is none.
    ///
    /// # Errors
    /// It is there already, or can't be written.
    pub fn make(file: &Path) -> Result<Key, Error> {
        let text = Zeroizing::new(random_text()?);
        let line = Zeroizing::new(format!("{}\n", *text));
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder).map_err(|error| Error::io("making", folder, error))?;
        }
        braid_durable::create(file, line.as_bytes(), 0o600)
            .map_err(|error| Error::io("writing", file, error))?;
        Ok(Key { file: file.to_owned(), text })
    }

    /// Where it is.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The intended key, if this one looks typed from paper.
    pub(crate) fn meant(&self) -> Option<Zeroizing<String>> {
        key_meant(&self.text).map(Zeroizing::new)
    }

    /// What opens the backups.
    pub fn reveal(&self) -> &str {
        &self.text
    }
}

fn random_text() -> Result<String, Error> {
    let mut bytes = Zeroizing::new([0_u8; KEY_BYTES]);
    getrandom::fill(&mut *bytes)
        .map_err(|error| Error::Refused(format!("this system gives no chance: {error}")))?;
    Ok(key_text(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_key_is_its_owners_alone_and_is_never_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("keys/backup.key");
        assert!(Key::read(&file).is_err());
        let made = Key::make(&file).unwrap();
        assert_eq!(made.reveal().len(), 32 + 7);
        assert_eq!(Key::read(&file).unwrap().reveal(), made.reveal());
        assert!(Key::make(&file).is_err());
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(Key::read(&file).is_err());
    }
}
