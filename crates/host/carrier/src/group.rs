//! The connections of one link to one peer, and their shared queue.

use crate::queue::{Queue, Waiting};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;
use tokio::sync::Notify;

/// A batch is split into parts of at most a TLS record (RFC 8446, section 5.1): each goes to
/// whichever connection has room.
const PART: usize = 16_000;

/// A queue from which whichever connection can send takes the next batch.
#[derive(Debug, Default)]
pub(crate) struct Group {
    queue: Mutex<Queue>,
    news: Notify,
}

impl Group {
    /// Queues datagrams for sending.
    pub(crate) fn push(&self, segment: u16, contents: &[u8]) {
        let size = usize::from(segment).max(1);
        let now = Instant::now();
        for part in contents.chunks((PART / size).max(1) * size) {
            let waiting = Waiting { segment, contents: part.to_vec() };
            self.queue.lock().unwrap_or_else(PoisonError::into_inner).push(waiting, now);
            self.news.notify_one();
        }
    }

    /// Waits for the next batch to send.
    pub(crate) async fn next(&self) -> Waiting {
        loop {
            let next =
                self.queue.lock().unwrap_or_else(PoisonError::into_inner).pop(Instant::now());
            match next {
                Some(batch) => return batch,
                None => self.news.notified().await,
            }
        }
    }
}
