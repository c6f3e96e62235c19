use crate::outbox::Outbox;
use std::io;
use std::path::{Path, PathBuf};

/// The file in which what waits outlives the process.
#[derive(Clone, Debug)]
pub struct Kept {
    file: PathBuf,
}

/// Far more than a full outbox has; bounds what is read of a wrong file.
const MOST: u64 = 16 << 20;

impl Kept {
    /// In this file.
    pub fn at(file: &Path) -> Kept {
        Kept { file: file.to_owned() }
    }

    /// What it has; nothing waits where there is no file.
    ///
    /// # Errors
    /// What the system says; that it is no outbox. It is then begun anew by [`Kept::write`].
    pub fn read(&self) -> io::Result<Outbox> {
        let text = match braid_durable::read_text(&self.file, MOST) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Outbox::default()),
            text => text?,
        };
        Ok(serde_json::from_str(&text)?)
    }

    /// Writes it; only root reads it.
    ///
    /// # Errors
    /// What the system says. The file is then as it was.
    pub fn write(&self, outbox: &Outbox) -> io::Result<()> {
        braid_durable::replace(&self.file, &serde_json::to_vec(outbox)?, Some(0o600))
    }
}
