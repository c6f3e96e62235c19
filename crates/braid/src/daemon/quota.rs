use super::data_channel::Snapshot;
use braid_control::config::{Interface, Link};
use braid_control::quota_file::{self, QuotaCounters};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Keeps the links' quota counters on disk.
pub struct QuotaStore {
    file: PathBuf,
    written: QuotaCounters,
    saved_at: Instant,
    /// Reported once until it works again.
    failing: bool,
}

/// Write interval: a crash loses at most this much, or one hundredth of a quota, without wearing
/// out flash.
const EVERY: Duration = Duration::from_secs(60);
const LEAST_PAUSE: Duration = Duration::from_secs(1);

impl QuotaStore {
    /// Reads the counters of earlier runs. A damaged file is ignored.
    pub fn open(interface: &Interface) -> QuotaStore {
        let file = quota_file::path(&interface.state_dir, interface.name.as_str());
        let written = quota_file::read(&file).unwrap_or_else(|error| {
            tracing::warn!(file = %file.display(), %error, "can't read the quota counters; they \
                                                            start at 0");
            QuotaCounters::new()
        });
        QuotaStore { file, written, saved_at: Instant::now(), failing: false }
    }

    /// The counters of earlier runs and of links that are away.
    pub fn counters(&self) -> &QuotaCounters {
        &self.written
    }

    /// Writes if it is time and something changed.
    pub fn keep(&mut self, snapshot: &Snapshot, links: &[Link], now: Instant) {
        let passed = now.duration_since(self.saved_at);
        if passed >= EVERY || passed >= LEAST_PAUSE && self.lacks_much(snapshot, links) {
            self.saved_at = now;
            self.save(snapshot);
        }
    }

    /// Whether at least a hundredth of a link's quota isn't written yet.
    fn lacks_much(&self, snapshot: &Snapshot, links: &[Link]) -> bool {
        links.iter().any(|link| {
            let name = link.name.as_str();
            let used = |counters: &QuotaCounters| counters.get(name).map_or(0, |c| c.used_bytes);
            let news = used(&snapshot.quotas).saturating_sub(used(&self.written));
            link.quota.is_some_and(|quota| news > 0 && news >= quota.bytes.bytes() / 100)
        })
    }

    /// Writes if something changed. Counters of absent links are kept.
    pub fn save(&mut self, snapshot: &Snapshot) {
        let mut counters = self.written.clone();
        counters.extend(snapshot.quotas.iter().map(|(link, counter)| (link.clone(), *counter)));
        if counters == self.written {
            return;
        }
        match quota_file::write(&self.file, &counters) {
            Ok(()) => {
                self.written = counters;
                self.failing = false;
            }
            Err(error) if self.failing => tracing::debug!(%error, "can't save the quota counters"),
            Err(error) => {
                tracing::warn!(file = %self.file.display(), %error, "can't save the quota \
                                                                     counters");
                self.failing = true;
            }
        }
    }
}
