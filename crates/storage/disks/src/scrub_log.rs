//! When md arrays were last checked: the kernel doesn't keep it, so `braid pool scrub` and `watch`
//! write it down.

use crate::host_root::HostRoot;
use braid_pool::uuid::Uuid;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What is known of the checks of one array. Times are seconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScrubLog {
    /// The last one was started.
    pub started_s: Option<u64>,
    /// The last one that read everything ended.
    pub ended_s: Option<u64>,
    /// It is there, and this user may not read it.
    #[serde(skip)]
    pub may_not_be_read: bool,
}

impl ScrubLog {
    /// Reads it; nothing is known when there is none.
    pub fn read(host: &HostRoot, array: Uuid) -> Self {
        match fs::read(file(host, array)) {
            Ok(text) => serde_json::from_slice(&text).unwrap_or_default(),
            Err(error) => ScrubLog {
                may_not_be_read: error.kind() == io::ErrorKind::PermissionDenied,
                ..ScrubLog::default()
            },
        }
    }

    /// Writes it, so that it is there whole or not at all.
    ///
    /// # Errors
    /// When its folder can't be made or the file can't be written; what was there stays.
    pub fn write(&self, host: &HostRoot, array: Uuid) -> io::Result<()> {
        braid_durable::replace(&file(host, array), &serde_json::to_vec(self)?, None)
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
