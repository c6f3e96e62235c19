//! Progress of a replication, for whoever watches it.

use crate::exact_path::ExactPath;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// What happens to a snapshot.
#[derive(Clone, Copy, Debug)]
pub enum Happening<'a> {
    /// Its transfer begins.
    Begins(&'a ExactPath),
    /// It is complete there.
    Sent(&'a Sent),
    /// It is complete here, with this many bytes of its stream.
    Received(&'a ExactPath, u64),
}

/// Is called for each event, immediately.
pub type Listener = Box<dyn Fn(Happening<'_>) + Send + Sync>;

/// Progress of a replication, for display.
#[derive(Default)]
pub struct Watch {
    /// Snapshots to send.
    pub snapshots: AtomicU64,
    /// Snapshots that are complete.
    pub done: AtomicU64,
    /// Position in the current stream.
    pub position: AtomicU64,
    /// The byte of the current stream at which it continued.
    pub resumed_at: AtomicU64,
    /// Estimated length of the current stream; 0 if not requested.
    pub expected: AtomicU64,
    /// Bytes of streams transferred, in all attempts.
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

    /// This many bytes were transferred, and the stream is now at `position`.
    pub(crate) fn moved(&self, bytes: u64, position: u64) {
        self.moved.fetch_add(bytes, Ordering::Relaxed);
        self.position.store(position, Ordering::Relaxed);
    }

    pub(super) fn completed(&self, sent: Sent) {
        self.done.fetch_add(1, Ordering::Relaxed);
        self.happens(Happening::Sent(&sent));
        self.sent.lock().unwrap_or_else(PoisonError::into_inner).push(sent);
    }

    /// Everything completed, including in attempts that failed later.
    pub(crate) fn sent(&self) -> Vec<Sent> {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// One snapshot that was sent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Sent {
    /// Its name.
    pub name: ExactPath,
    /// The parent of the difference sent.
    pub parent: Option<ExactPath>,
    /// Bytes of its stream.
    pub stream_bytes: u64,
    /// Bytes sent for it, with framing, in all attempts.
    pub sent_bytes: u64,
    /// How often it was begun or continued.
    pub tries: u32,
    /// Where in the stream the last attempt continued.
    pub resumed_at: u64,
    /// How the stream was written.
    pub protocol: u32,
    /// Whether compressed data was sent as it is on the disk.
    pub compressed: bool,
    /// How long the last try took.
    pub seconds: f64,
}
