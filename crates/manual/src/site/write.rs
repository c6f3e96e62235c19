//! The site's folder is replaced as a whole, and only if it is a site.

use super::Site;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A folder with this file was made by Braid.
pub const MARK: &str = "manual.json";

/// Why a site could not be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// There is something else.
    #[error("{0} has files that are no manual made by braid: name another folder, or empty it")]
    Taken(PathBuf),
    /// The system's word.
    #[error("{path}: {error}")]
    Io {
        /// Where.
        path: PathBuf,
        /// What is wrong.
        error: io::Error,
    },
}

impl Site {
    /// Whether [`write`](Site::write) would refuse `folder`.
    ///
    /// # Errors
    /// [`WriteError::Taken`] if it has files and no manual.
    pub fn may_replace(folder: &Path) -> Result<(), WriteError> {
        let mut entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(at(folder)(error)),
        };
        if entries.next().is_none() || folder.join(MARK).is_file() {
            return Ok(());
        }
        Err(WriteError::Taken(folder.to_owned()))
    }

    /// Writes the site into `folder`. A site that is there already is replaced when the new one
    /// is complete.
    ///
    /// # Errors
    /// See [`WriteError`]. What was there before stays.
    pub fn write(&self, folder: &Path) -> Result<(), WriteError> {
        Site::may_replace(folder)?;
        let new = beside(folder, "new");
        let old = beside(folder, "old");
        remove(&new)?;
        let mut made = std::collections::BTreeSet::new();
        for (path, content) in &self.files {
            let file = new.join(path);
            let parent = file.parent().unwrap_or(&new).to_owned();
            if made.insert(parent.clone()) {
                fs::create_dir_all(&parent).map_err(at(&parent))?;
            }
            fs::write(&file, content).map_err(at(&file))?;
        }
        if folder.exists() {
            remove(&old)?;
            fs::rename(folder, &old).map_err(at(folder))?;
        }
        fs::rename(&new, folder).map_err(at(folder))?;
        remove(&old)
    }
}

fn at(path: &Path) -> impl Fn(io::Error) -> WriteError + '_ {
    |error| WriteError::Io { path: path.to_owned(), error }
}

/// `site.new` of this process beside `site`.
fn beside(folder: &Path, ending: &str) -> PathBuf {
    let name = folder.file_name().map_or_else(|| "manual".into(), |name| name.to_os_string());
    let name = format!(".{}.{}.{ending}", name.to_string_lossy(), std::process::id());
    folder.parent().unwrap_or(Path::new("")).join(name)
}

fn remove(folder: &Path) -> Result<(), WriteError> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(at(folder)(error)),
        _ => Ok(()),
    }
}
