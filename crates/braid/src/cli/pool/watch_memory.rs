//! The file in which `braid pool watch` keeps its state between two looks.

use crate::cli::failure::{Failure, FailureKind};
use braid_durable::state_file;
use braid_pool::watch::Memory;
use std::fs;
use std::io;
use std::path::Path;

/// The default path.
pub const DEFAULT: &str = "/var/lib/braid/watch.json";

const VERSION: u32 = 1;

/// Reads it; a missing file means that nothing is known.
pub fn read(file: &Path) -> Result<Memory, Failure> {
    let text = match fs::read(file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Memory::default()),
        Err(error) => return Err(Failure::io(&format!("reading {}", file.display()), &error)),
    };
    state_file::from_json_or_bare(VERSION, &text).map_err(|error| {
        let message = format!("{}: {error}; delete it to start over", file.display());
        Failure::new(FailureKind::Failed, message)
    })
}

/// Writes it.
pub fn write(file: &Path, memory: &Memory) -> Result<(), Failure> {
    state_file::replace(file, VERSION, memory, None)
        .map_err(|error| Failure::io(&format!("writing {}", file.display()), &error))
}

/// Writes a file atomically: others see the old text or the new one.
pub fn replace(file: &Path, text: &str) -> Result<(), Failure> {
    braid_durable::replace(file, text.as_bytes(), None)
        .map_err(|error| Failure::io(&format!("writing {}", file.display()), &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_is_kept_and_a_newer_file_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("watch.json");
        assert_eq!(read(&file).unwrap(), Memory::default());
        let told = r#"{"told": [{"code": "degraded", "severity": "danger", "pool": "p", "what": "w",
            "mend": ""}], "errors": {}}"#;
        // The format before it had a version.
        fs::write(&file, told).unwrap();
        let memory = read(&file).unwrap();
        assert_ne!(memory, Memory::default());
        write(&file, &memory).unwrap();
        assert_eq!(read(&file).unwrap(), memory);
        let newer = state_file::to_json(VERSION + 1, &memory).unwrap();
        fs::write(&file, &newer).unwrap();
        let why = read(&file).unwrap_err().to_string();
        assert!(why.contains("a newer braid wrote it") && why.contains("delete it"), "{why}");
        assert!(write(&file, &Memory::default()).is_err());
        assert_eq!(fs::read(&file).unwrap(), newer);
    }
}
