//! The links' quota counters on disk, so that a restart doesn't forget what a
//! month has used.

use braid_durable::state_file;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// What a link used in its period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuotaCounter {
    /// Bytes, both directions.
    pub used_bytes: u64,
    /// When the period began, seconds since 1970 UTC.
    pub period_start_unix: i64,
}

/// Counters by the links' names.
pub type QuotaCounters = BTreeMap<String, QuotaCounter>;

const VERSION: u32 = 1;

/// The file for the tunnel `interface`.
pub fn path(state_dir: &Path, interface: &str) -> PathBuf {
    state_dir.join(format!("{interface}.quota.json"))
}

/// Reads the counters. A missing file means no counters.
///
/// # Errors
///
/// The system's error; [`io::ErrorKind::InvalidData`] for a damaged file, or one that a newer Braid
/// wrote.
pub fn read(file: &Path) -> io::Result<QuotaCounters> {
    match std::fs::read(file) {
        Ok(text) => state_file::from_json_or_bare(VERSION, &text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(QuotaCounters::new()),
        Err(error) => Err(error),
    }
}

/// Replaces the file atomically: after a crash it has the old counters or the new ones.
///
/// # Errors
/// The system's error, or that a newer Braid wrote the file, which then stays unchanged.
pub fn write(file: &Path, counters: &QuotaCounters) -> io::Result<()> {
    state_file::replace(file, VERSION, counters, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_survive_a_restart() {
        let directory = tempfile::tempdir().unwrap();
        let file = path(&directory.path().join("deep"), "braid0");
        assert_eq!(read(&file).unwrap(), QuotaCounters::new());
        let counter = QuotaCounter { used_bytes: 1 << 40, period_start_unix: 1_767_225_600 };
        let counters = QuotaCounters::from([("3g-1".to_owned(), counter)]);
        write(&file, &counters).unwrap();
        write(&file, &counters).unwrap();
        assert_eq!(read(&file).unwrap(), counters);
        // The format before it had a version.
        std::fs::write(&file, serde_json::to_vec(&counters).unwrap()).unwrap();
        assert_eq!(read(&file).unwrap(), counters);
        std::fs::write(&file, state_file::to_json(VERSION + 1, &counters).unwrap()).unwrap();
        assert!(read(&file).unwrap_err().to_string().contains("a newer braid wrote it"));
        let newer = std::fs::read(&file).unwrap();
        assert!(write(&file, &counters).is_err());
        assert_eq!(std::fs::read(&file).unwrap(), newer);
        std::fs::write(&file, "{").unwrap();
        assert!(read(&file).is_err());
    }
}
