//! The state of the pools at the last look of a process that may query disks; the daemon may not.

use braid_durable::state_file;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::Path;

/// One look at all pools.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PoolsLook {
    /// When, Unix seconds.
    pub looked_unix: i64,
    /// The pools.
    pub pools: Vec<PoolLine>,
    /// The disks; partitions are left out.
    pub disks: Vec<DiskLine>,
    /// What is wrong, worst first.
    pub findings: Vec<FindingLine>,
}

/// A pool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PoolLine {
    /// Its name.
    pub name: String,
    /// `btrfs-raid1`, `md-raid10-f2`.
    pub layout: String,
    /// `whole`, `degraded` …
    pub state: String,
    /// How many disks it should have.
    pub disks: usize,
    /// How many of those are missing.
    pub lacking: usize,
    /// Room for data.
    pub size_bytes: Option<u64>,
    /// What is stored.
    pub used_bytes: Option<u64>,
    /// Its first mount point.
    pub mounted_at: Option<String>,
    /// The running job, such as `scrub`.
    pub activity: Option<String>,
    /// The job's finished share, 0 to 1.
    #[serde(default)]
    pub done: Option<f64>,
    /// The job's remaining time, seconds.
    #[serde(default)]
    pub left_s: Option<u64>,
    /// What it survives, in words.
    #[serde(default)]
    pub survives: Option<String>,
}

/// A disk.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DiskLine {
    /// `/dev/sda`.
    pub path: String,
    /// The model, as the disk reports it.
    pub model: Option<String>,
    /// The serial number.
    pub serial: Option<String>,
    /// Its size.
    pub size_bytes: u64,
    /// `hdd`, `ssd`, `nvme` …
    pub kind: String,
    /// The health that it reports, in words.
    pub health: String,
    /// The temperature that it reports, °C.
    #[serde(default)]
    pub temperature_c: Option<i16>,
}

/// Something that is wrong.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FindingLine {
    /// `note`, `attention`, `danger`, `lost`.
    pub severity: String,
    /// The pool.
    pub pool: Option<String>,
    /// What is wrong.
    pub what: String,
    /// The command that fixes it.
    pub mend: String,
}

/// Maximum size of the file; more than any host's pools need.
const MOST: u64 = 4 << 20;
/// The file's format.
const VERSION: u32 = 1;

impl PoolsLook {
    /// Reads what [`PoolsLook::write`] wrote; `None` if there is no file.
    ///
    /// # Errors
    /// The system's error; that the file is something else, or that a newer Braid wrote it.
    pub fn read(file: &Path) -> io::Result<Option<PoolsLook>> {
        let text = match braid_durable::read_text(file, MOST) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            text => text?,
        };
        state_file::from_json_or_bare(VERSION, text.as_bytes()).map(Some)
    }

    /// Writes it, also over a newer Braid's: each look is made anew, so nothing is lost.
    ///
    /// # Errors
    /// The system's error; the file then stays unchanged.
    pub fn write(&self, file: &Path) -> io::Result<()> {
        braid_durable::replace(file, &state_file::to_json(VERSION, self)?, Some(0o640))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_a_version_is_read_and_a_newer_one_is_refused_and_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pools.json");
        let look = PoolsLook { looked_unix: 7, ..PoolsLook::default() };
        std::fs::write(&file, serde_json::to_vec(&look).unwrap()).unwrap();
        assert_eq!(PoolsLook::read(&file).unwrap().as_ref(), Some(&look));
        std::fs::write(&file, state_file::to_json(VERSION + 1, &look).unwrap()).unwrap();
        let why = PoolsLook::read(&file).unwrap_err().to_string();
        assert!(why.contains("a newer braid wrote it"), "{why}");
        look.write(&file).unwrap();
        assert_eq!(PoolsLook::read(&file).unwrap().as_ref(), Some(&look));
        assert!(std::fs::read_to_string(&file).unwrap().contains("\"version\": 1"));
    }
}
