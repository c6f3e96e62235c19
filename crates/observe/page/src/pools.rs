//! How the pools of disks were when somebody who may ask disks looked last: the daemon
//! may not.

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
    /// How many of those are not there.
    pub lacking: usize,
    /// Room for data.
    pub size_bytes: Option<u64>,
    /// What is stored.
    pub used_bytes: Option<u64>,
    /// Where it is mounted first.
    pub mounted_at: Option<String>,
    /// What runs: `scrub`.
    pub activity: Option<String>,
    /// How much of it is done, 0 to 1.
    #[serde(default)]
    pub done: Option<f64>,
    /// How long it will still take, seconds.
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
    /// Maker's name.
    pub model: Option<String>,
    /// Maker's number.
    pub serial: Option<String>,
    /// Its size.
    pub size_bytes: u64,
    /// `hdd`, `ssd`, `nvme` …
    pub kind: String,
    /// What it says of itself, in words.
    pub health: String,
    /// Degrees Celsius, by itself.
    #[serde(default)]
    pub temperature_c: Option<i16>,
}

/// Something that is wrong.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FindingLine {
    /// `note`, `attention`, `danger`, `lost`.
    pub severity: String,
    /// Of which pool.
    pub pool: Option<String>,
    /// What.
    pub what: String,
    /// The command that mends it.
    pub mend: String,
}

/// More than any host's pools need.
const MOST: u64 = 4 << 20;

impl PoolsLook {
    /// Reads what [`PoolsLook::write`] wrote; none where nobody has looked.
    ///
    /// # Errors
    /// What the system says, and a file that is something else.
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
    /// The system's error; the file is then as it was.
    pub fn write(&self, file: &Path) -> io::Result<()> {
        braid_durable::replace(file, &serde_json::to_vec(self)?, Some(0o640))
    }
}
