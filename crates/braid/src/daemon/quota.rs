use super::data_channel::Snapshot;
use braid_control::config::Interface;
use braid_control::quota_file::{self, QuotaCounters};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Keeps the links' quota counters on disk.
pub struct QuotaKeeper {
    file: PathBuf,
    written: QuotaCounters,
    next: Instant,
}

/// A crash forgets at most this much; flash is not worn.
const EVERY: Duration = Duration::from_secs(60);

impl QuotaKeeper {
    /// Reads what earlier runs counted. A damaged file counts as none.
    pub fn open(interface: &Interface) -> QuotaKeeper {
        let file = quota_file::path(&interface.state_dir, interface.name.as_str());
        let written = quota_file::read(&file).unwrap_or_else(|error| {
            tracing::warn!(file = %file.display(), %error, "quota counters begin at 0");
            QuotaCounters::new()
        });
        QuotaKeeper { file, written, next: Instant::now() + EVERY }
    }

    /// The counters of earlier runs and of links that are away.
    pub fn counters(&self) -> &QuotaCounters {
        &self.written
    }

    /// Writes when it is time and something changed.
    pub fn keep(&mut self, snapshot: &Snapshot, now: Instant) {
        if now >= self.next {
            self.next = now + EVERY;
            self.save(snapshot);
        }
    }

    /// Writes if something changed. Counters of links that aren't there now stay.
    pub fn save(&mut self, snapshot: &Snapshot) {
        let mut counters = self.written.clone();
        counters.extend(snapshot.quotas.iter().map(|(link, counter)| (link.clone(), *counter)));
        if counters == self.written {
            return;
        }
        match quota_file::write(&self.file, &counters) {
            Ok(()) => self.written = counters,
            Err(error) => {
                tracing::warn!(file = %self.file.display(), %error, "can't keep quota counters");
            }
        }
    }
}
