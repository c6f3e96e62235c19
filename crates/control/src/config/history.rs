use super::path;
use super::section::Section;
use braid_units::ByteSize;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// `[history]`: what history is kept, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct History {
    /// Whether any is kept.
    pub keep: bool,
    /// The database; by default in the state folder.
    pub file: Option<PathBuf>,
    /// Maximum size, including auxiliary files.
    pub max_size: ByteSize,
    /// How often it is written; newer data is lost when the process is killed.
    pub write_every: Duration,
}

impl Default for History {
    fn default() -> History {
        History {
            keep: true,
            file: None,
            max_size: ByteSize::from_bytes(64 << 20),
            write_every: Duration::from_secs(600),
        }
    }
}

const LEAST_SIZE: u64 = 4 << 20;
const SOONEST: Duration = Duration::from_secs(10);
const LATEST: Duration = Duration::from_secs(3600);

pub(super) fn read(mut section: Section<'_, '_>, base: &Path) -> History {
    let usual = History::default();
    let keep = section.boolean("keep").unwrap_or(usual.keep);
    let file = path::file(&mut section, "file", base);
    let max_size = section.parsed("max_size").unwrap_or(usual.max_size);
    if max_size.bytes() < LEAST_SIZE {
        section.wrong(
            "max_size",
            format!("history.max_size of {max_size} keeps almost nothing"),
            "write at least \"4MiB\", or keep = false",
        );
    }
    let write_every = section.duration("write_every").unwrap_or(usual.write_every);
    if !(SOONEST..=LATEST).contains(&write_every) {
        section.wrong(
            "write_every",
            "history.write_every must be 10s to 1h",
            "write \"10m\": writing more often wears flash out, less often loses more in a crash",
        );
    }
    section.finish();
    History { keep, file, max_size, write_every }
}
