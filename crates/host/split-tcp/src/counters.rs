use crate::Way;
use portable_atomic::{AtomicU64, Ordering};

/// What a proxy did since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Current connections.
    pub open: u64,
    /// Connections that began to be split.
    pub accepted: u64,
    /// Connections whose server couldn't be reached, or refused.
    pub unreachable: u64,
    /// Connections refused here: too many, or no file descriptors.
    pub over_limit: u64,
    /// Connections that ended with a reset.
    pub reset: u64,
    /// Bytes that went into the tunnel.
    pub bytes_into: u64,
    /// Bytes that came out of it.
    pub bytes_out_of: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) open: Counter,
    pub(crate) accepted: Counter,
    pub(crate) unreachable: Counter,
    pub(crate) over_limit: Counter,
    pub(crate) reset: Counter,
    bytes_into: Counter,
    bytes_out_of: Counter,
}

/// Written by one thread, read by others.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    pub(crate) fn one_less(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Counters {
    /// The byte counter for what a connection in this direction sends (`from_client`) or receives.
    pub(crate) fn bytes(&self, way: Way, from_client: bool) -> &Counter {
        match (way, from_client) {
            (Way::Into, true) | (Way::OutOf, false) => &self.bytes_into,
            (Way::Into, false) | (Way::OutOf, true) => &self.bytes_out_of,
        }
    }

    pub(crate) fn now(&self) -> Counts {
        Counts {
            open: self.open.get(),
            accepted: self.accepted.get(),
            unreachable: self.unreachable.get(),
            over_limit: self.over_limit.get(),
            reset: self.reset.get(),
            bytes_into: self.bytes_into.get(),
            bytes_out_of: self.bytes_out_of.get(),
        }
    }
}
