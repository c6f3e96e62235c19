//! How far a replication is, for whoever watches it.

use crate::exact_path::ExactPath;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// What happens to a snapshot.
#[derive(Clone, Copy, Debug)]
pub enum Happening<'a> {
    /// It begins to go over.
    Begins(&'a ExactPath),
    /// It is complete there.
    Sent(&'a Sent),
    /// It is complete here, with so many bytes of its stream.
    Received(&'a ExactPath, u64),
}

/// Is told what happens, at once.
pub type Listener = Box<dyn Fn(Happening<'_>) + Send + Sync>;

/// How far a replication is, for whoever shows it.
#[derive(Default)]
pub struct Watch {
    /// Snapshots to send.
    pub snapshots: AtomicU64,
    /// Snapshots that are complete.
    pub done: AtomicU64,
    /// The byte of the present stream that comes next.
    pub position: AtomicU64,
    /// The byte of the present stream from which it went on.
    pub resumed_at: AtomicU64,
    /// About how long the present stream is; 0 where nobody asked.
    pub expected: AtomicU64,
    /// Bytes of streams that went over, in all tries.
    pub moved: AtomicU64,
    sent: Mutex<Vec<Sent>>,
    listener: Option<Listener>,
}

impl Watch {
    /// With somebody who is told what happens.
    pub fn with(listener: Listener) -> Watch {
        Watch { listener: Some(listener), ..Watch::default() }
    }

    pub(crate) fn happens(&self, happening: Happening<'_>) {
        if let Some(listener) = &self.listener {
            listener(happening);
        }
    }

    pub(super) fn expect(&self, snapshots: usize) {
        self.snapshots.store(snapshots as u64, Ordering::Relaxed);
        self.done.store(0, Ordering::Relaxed);
    }

    /// So many bytes went over, and the stream is now at `position`.
    pub(crate) fn moved(&self, bytes: u64, position: u64) {
        self.moved.fetch_add(bytes, Ordering::Relaxed);
        self.position.store(position, Ordering::Relaxed);
    }

    pub(super) fn completed(&self, sent: Sent) {
        self.done.fetch_add(1, Ordering::Relaxed);
        self.happens(Happening::Sent(&sent));
        self.sent.lock().unwrap_or_else(PoisonError::into_inner).push(sent);
    }

    /// All that was completed, also in tries that failed later.
    pub(crate) fn sent(&self) -> Vec<Sent> {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// One snapshot that was sent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Sent {
    /// Its name.
    pub name: ExactPath,
    /// Against which its difference was sent.
    pub parent: Option<ExactPath>,
    /// Bytes of its stream.
    pub stream_bytes: u64,
    /// Bytes that left for it, with frames, in all tries.
    pub sent_bytes: u64,
    /// How often it was begun or gone on with.
    pub tries: u32,
    /// Where in the stream the last try went on.
    pub resumed_at: u64,
    /// How the stream was written.
    pub protocol: u32,
    /// Whether compressed data was sent as it is on the disk.
    pub compressed: bool,
    /// How long the last try took.
    pub seconds: f64,
}
