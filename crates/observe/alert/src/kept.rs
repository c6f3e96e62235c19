use crate::outbox::Outbox;
use braid_durable::state_file;
use std::io;
use std::path::{Path, PathBuf};

/// The file that keeps undelivered events across restarts.
#[derive(Clone, Debug)]
pub struct Kept {
    file: PathBuf,
}

/// Far more than a full outbox needs; limits how much of a wrong file is read.
const MOST: u64 = 16 << 20;
const VERSION: u32 = 1;

impl Kept {
    /// Uses this file.
    pub fn at(file: &Path) -> Kept {
        Kept { file: file.to_owned() }
    }

    /// Reads the outbox; a missing file means an empty one.
    ///
    /// # Errors
    /// The system's error; that the file isn't an outbox, in which case [`Kept::write`] replaces
    /// it; that a newer Braid wrote it.
    pub fn read(&self) -> io::Result<Outbox> {
        let text = match braid_durable::read_text(&self.file, MOST) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Outbox::default()),
            text => text?,
        };
        state_file::from_json_or_bare(VERSION, text.as_bytes())
            .map_err(|error| self.at_file(&error))
    }

    /// Writes the outbox, readable only by root.
    ///
    /// # Errors
    /// The system's error; that a newer Braid wrote the existing file. The file then stays
    /// unchanged.
    pub fn write(&self, outbox: &Outbox) -> io::Result<()> {
        state_file::replace(&self.file, VERSION, outbox, Some(0o600))
            .map_err(|error| self.at_file(&error))
    }

    fn at_file(&self, error: &io::Error) -> io::Error {
        io::Error::new(error.kind(), format!("{}: {error}", self.file.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::post::test_event;
    use crate::rule::{Alert, Target};
    use braid_history::Severity;
    use std::fs;

    fn outbox() -> Outbox {
        let alert = Alert {
            name: "a".into(),
            target: Target::Command { command: "true".into() },
            kinds: vec![],
            least: Severity::Note,
            group_s: 0,
        };
        let mut outbox = Outbox::default();
        outbox.put(&[alert], &test_event("a"), 0);
        outbox
    }

    #[test]
    fn what_waits_is_read_as_it_was_and_a_newer_file_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("alerts.json");
        let kept = Kept::at(&file);
        assert_eq!(kept.read().unwrap(), Outbox::default());
        // Created once, since its event contains the time.
        let outbox = outbox();
        kept.write(&outbox).unwrap();
        assert_eq!(kept.read().unwrap(), outbox);
        // The format before it had a version.
        fs::write(&file, serde_json::to_vec(&outbox).unwrap()).unwrap();
        assert_eq!(kept.read().unwrap(), outbox);
        let newer = state_file::to_json(VERSION + 1, &outbox).unwrap();
        fs::write(&file, &newer).unwrap();
        let why = kept.read().unwrap_err().to_string();
        assert!(why.contains("a newer braid wrote it"), "{why}");
        assert!(kept.write(&Outbox::default()).is_err());
        assert_eq!(fs::read(&file).unwrap(), newer);
    }
}
