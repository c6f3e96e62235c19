//! When md arrays were last checked: the kernel doesn't keep that, so `braid pool scrub` and
//! `watch` record it.

use crate::host_root::HostRoot;
use braid_durable::state_file;
use braid_pool::uuid::Uuid;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What is known about one array's checks. Times are seconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScrubLog {
    /// The last one was started.
    pub started_s: Option<u64>,
    /// The last one that read everything ended.
    pub ended_s: Option<u64>,
    /// It exists, but this user may not read it.
    #[serde(skip)]
    pub may_not_be_read: bool,
}

const VERSION: u32 = 1;

impl ScrubLog {
    /// Reads what it can; without a log nothing is known.
    pub fn read(host: &HostRoot, array: Uuid) -> Self {
        match fs::read(file(host, array)) {
            Ok(text) => state_file::from_json_or_bare(VERSION, &text).unwrap_or_default(),
            Err(error) => ScrubLog {
                may_not_be_read: error.kind() == io::ErrorKind::PermissionDenied,
                ..ScrubLog::default()
            },
        }
    }

    /// The same, to be changed and written again.
    ///
    /// # Errors
    /// A newer Braid wrote it.
    pub fn to_be_changed(host: &HostRoot, array: Uuid) -> io::Result<Self> {
        let file = file(host, array);
        state_file::refuse_newer(&file, VERSION).map_err(|error| {
            let told = format!("{error}, or delete {}", file.display());
            io::Error::new(error.kind(), told)
        })?;
        Ok(Self::read(host, array))
    }

    /// Writes it atomically.
    ///
    /// # Errors
    /// When its folder can't be made or the file can't be written, or a newer Braid wrote the
    /// existing one, which stays.
    pub fn write(&self, host: &HostRoot, array: Uuid) -> io::Result<()> {
        state_file::replace(&file(host, array), VERSION, self, None)
    }

    /// One starts now.
    pub fn start(&mut self) {
        self.started_s = Some(seconds_now());
    }

    /// One that read everything ends now.
    pub fn end(&mut self) {
        self.ended_s = Some(seconds_now());
    }

    /// How long ago the last one ended.
    pub fn ended_ago(&self) -> Option<Duration> {
        self.ended_s.map(ago)
    }

    /// How long ago the last one was started.
    pub fn started_ago(&self) -> Option<Duration> {
        self.started_s.map(ago)
    }
}

fn file(host: &HostRoot, array: Uuid) -> PathBuf {
    host.path(format!("var/lib/braid/scrub/{array}.json"))
}

fn ago(then_s: u64) -> Duration {
    Duration::from_secs(seconds_now().saturating_sub(then_s))
}

fn seconds_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_read_as_it_was_and_a_newer_one_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let host = HostRoot::at(folder.path());
        let array = Uuid::from_bytes([7; 16]);
        let mut log = ScrubLog::to_be_changed(&host, array).unwrap();
        log.start();
        log.write(&host, array).unwrap();
        assert_eq!(ScrubLog::read(&host, array), log);
        // As it was written before it said its version.
        fs::write(file(&host, array), r#"{"started_s": 5, "ended_s": null}"#).unwrap();
        assert_eq!(ScrubLog::read(&host, array).started_s, Some(5));
        let newer = state_file::to_json(VERSION + 1, log).unwrap();
        fs::write(file(&host, array), &newer).unwrap();
        assert_eq!(ScrubLog::read(&host, array), ScrubLog::default());
        let why = ScrubLog::to_be_changed(&host, array).unwrap_err().to_string();
        assert!(why.contains("a newer braid wrote it") && why.contains("delete"), "{why}");
        assert!(log.write(&host, array).is_err());
        assert_eq!(fs::read(file(&host, array)).unwrap(), newer);
    }
}
