use rustic_core::{HiddenProgress, Progress, ProgressBars, ProgressType, RusticProgress};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How far it is; who shows it looks at it from another thread.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    counts: Arc<Counts>,
    is_watched: bool,
}

#[derive(Debug, Default)]
struct Counts {
    done: AtomicU64,
    all: AtomicU64,
    carried: AtomicU64,
}

impl Watch {
    /// Somebody looks at it: it is worth knowing how much there is.
    pub fn watched() -> Watch {
        Watch { is_watched: true, ..Watch::default() }
    }

    /// Bytes that are done, bytes that there are (0 while that isn't known), and bytes that went
    /// to or came from the target.
    pub fn counts(&self) -> (u64, u64, u64) {
        let counts = &self.counts;
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (load(&counts.done), load(&counts.all), load(&counts.carried))
    }

    pub(crate) fn carried(&self, bytes: usize) {
        self.counts.carried.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

impl ProgressBars for Watch {
    fn progress(&self, kind: ProgressType, _prefix: &str) -> Progress {
        match kind {
            ProgressType::Bytes => {
                self.counts.done.store(0, Ordering::Relaxed);
                self.counts.all.store(0, Ordering::Relaxed);
                Progress::new(self.clone())
            }
            _ => Progress::new(HiddenProgress),
        }
    }
}

impl RusticProgress for Watch {
    fn is_hidden(&self) -> bool {
        !self.is_watched
    }
    fn set_length(&self, all: u64) {
        self.counts.all.store(all, Ordering::Relaxed);
    }
    fn set_title(&self, _title: &str) {}
    fn inc(&self, more: u64) {
        self.counts.done.fetch_add(more, Ordering::Relaxed);
    }
    fn finish(&self) {}
}
