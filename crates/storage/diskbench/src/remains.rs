//! Files of benches: in folders with the process id in their names, so that a dead one's are
//! recognised.

use crate::error::BenchError;
use std::fs;
use std::io;
use std::path::Path;
use tempfile::TempDir;

const PREFIX: &str = ".braid-bench-";

/// A new folder in `folder`, removed when dropped; when this process is killed, [`remove`] finds
/// it.
pub(crate) fn folder_in(folder: &Path) -> io::Result<TempDir> {
    let prefix = format!("{PREFIX}{}-", std::process::id());
    tempfile::Builder::new().prefix(&prefix).tempdir_in(folder)
}

/// Removes what benches left in `folder` if `meant` accepts their process id.
///
/// # Errors
/// The folder can't be read, or something in it can't be removed.
pub fn remove(folder: &Path, meant: impl Fn(u32) -> bool) -> Result<(), BenchError> {
    let failed = |error| BenchError::io(format!("looking into {}", folder.display()))(error);
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
    };
    for entry in entries {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split('-').next());
        if process.and_then(|pid| pid.parse().ok()).is_some_and(&meant) {
            let path = entry.path();
            fs::remove_dir_all(&path)
                .map_err(BenchError::io(format!("removing {}", path.display())))?;
        }
    }
    Ok(())
}

/// Whether a process has ended.
pub fn has_ended(pid: u32) -> bool {
    !Path::new("/proc").join(pid.to_string()).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_dead_process_left_is_removed() {
        let place = tempfile::tempdir().unwrap();
        let ours = folder_in(place.path()).unwrap();
        // No process has this number: pid_max is 2^22 at most.
        let dead = place.path().join(".braid-bench-4999999-abc");
        let other = place.path().join(".braid-bench");
        fs::create_dir_all(dead.join("files")).unwrap();
        fs::create_dir(&other).unwrap();
        remove(place.path(), has_ended).unwrap();
        assert!(ours.path().exists() && other.exists() && !dead.exists());
        remove(&place.path().join("nowhere"), has_ended).unwrap();
    }
}
