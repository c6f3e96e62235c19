//! The key of backups: a file with one line, as `restic --password-file` reads it.

use crate::Error;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// Where it is when nobody says.
pub const DEFAULT: &str = "/etc/braid/backup.key";

/// 160 bits of chance: more than anybody can try, few enough to be typed from paper.
const BYTES: usize = 20;
/// Crockford's base 32 (<https://www.crockford.com/base32.html>): no two look alike on paper.
const LETTERS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const GROUP: usize = 4;

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
        use std::os::unix::fs::PermissionsExt;
        let about = match fs::metadata(file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(Error::Refused(format!(
                    "there is no key at {}: `braid pool backup init` makes one; where backups \
                     exist already, write the line of their recovery sheet into it (mode 600)",
                    file.display()
                )));
            }
            other => other.map_err(|error| Error::io("reading", file, error))?,
        };
        if about.permissions().mode() & 0o077 != 0 {
            return Err(Error::Refused(format!(
                "others can read the key: chmod 600 {}",
                file.display()
            )));
        }
        let all = fs::read_to_string(file).map_err(|error| Error::io("reading", file, error))?;
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

    /// What opens the backups.
    pub fn reveal(&self) -> &str {
        &self.text
    }
}

fn random_text() -> Result<String, Error> {
    let mut bytes = Zeroizing::new([0_u8; BYTES]);
    getrandom::fill(&mut *bytes)
        .map_err(|error| Error::Refused(format!("this system gives no chance: {error}")))?;
    // Five bits a letter: 32 letters of 160 bits.
    let bit = |at: usize| (bytes.get(at / 8).copied().unwrap_or(0) >> (7 - at % 8)) & 1;
    let letter = |at: usize| (0..5).fold(0_u8, |value, i| value << 1 | bit(at * 5 + i));
    let letters = (0..BYTES * 8 / 5).map(|at| char::from(LETTERS[usize::from(letter(at)) % 32]));
    let mut text = String::new();
    for (at, letter) in letters.enumerate() {
        if at > 0 && at % GROUP == 0 {
            text.push('-');
        }
        text.push(letter);
    }
    Ok(text)
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

    #[test]
    fn all_letters_are_different() {
        let letters: std::collections::BTreeSet<u8> = LETTERS.iter().copied().collect();
        assert_eq!(letters.len(), 32);
    }
}
