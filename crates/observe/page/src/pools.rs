//! The state of the pools at the last look of a process that may query disks; the daemon may not.

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

impl PoolsLook {
    /// Reads what [`PoolsLook::write`] wrote; `None` if there is no file.
    ///
    /// # Errors
    /// The system's error, or that the file is something else.
    pub fn read(file: &Path) -> io::Result<Option<PoolsLook>> {
        let text = match braid_durable::read_text(file, MOST) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            text => text?,
        };
        serde_json::from_str(&text).map(Some).map_err(io::Error::from)
    }

    /// Writes it.
    ///
    /// # Errors
    /// The system's error; the file then stays unchanged.
    pub fn write(&self, file: &Path) -> io::Result<()> {
        braid_durable::replace(file, &serde_json::to_vec(self)?, Some(0o640))
    }
}
