//! Batches waiting for a connection that can send them: bounded in bytes and in time, the oldest is
//! dropped first. TCP itself holds little unsent data (see `socket`), as the tunnel couldn't
//! attribute a queue there to the link.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Some 80 ms of 50 Mbit/s.
const MOST: usize = 512 << 10;
/// What has waited this long is too late: the tunnel's own repair is quicker.
const LONGEST: Duration = Duration::from_millis(250);

/// A waiting batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Length of each datagram except the last.
    pub segment: u16,
    /// The datagrams.
    pub contents: Vec<u8>,
}

/// The batches of one group.
#[derive(Debug, Default)]
pub struct Queue {
    waiting: VecDeque<(Instant, Waiting)>,
    bytes: usize,
    dropped: u64,
}

impl Queue {
    /// Adds a batch; the oldest are dropped if there is no room.
    pub fn push(&mut self, batch: Waiting, now: Instant) {
        self.bytes += batch.contents.len();
        self.waiting.push_back((now, batch));
        while self.bytes > MOST && self.waiting.len() > 1 {
            self.drop_oldest();
        }
    }

    /// The oldest batch that is not late.
    pub fn pop(&mut self, now: Instant) -> Option<Waiting> {
        while self.waiting.front().is_some_and(|(at, _)| now.duration_since(*at) > LONGEST) {
            self.drop_oldest();
        }
        let (_, batch) = self.waiting.pop_front()?;
        self.bytes -= batch.contents.len();
        Some(batch)
    }

    /// Batches that were dropped.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    fn drop_oldest(&mut self) {
        if let Some((_, batch)) = self.waiting.pop_front() {
            self.bytes -= batch.contents.len();
            self.dropped += 1;
        }
    }
}

/// Where a datagram goes, as the tunnel addresses it.
pub type Remote = SocketAddr;

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(len: usize) -> Waiting {
        Waiting { segment: 1400, contents: vec![0; len] }
    }

    #[test]
    fn what_is_oldest_makes_room_and_what_is_late_is_not_sent() {
        let start = Instant::now();
        let mut queue = Queue::default();
        for len in 1..=20 {
            queue.push(batch(len + (60 << 10)), start);
        }
        assert!(queue.bytes <= MOST);
        let first = queue.pop(start).map(|batch| batch.contents.len());
        assert_eq!(first, Some(20 - 7 + (60 << 10)), "the last eight fit, seven are left");
        assert_eq!(queue.dropped(), 12);

        queue.push(batch(5), start + LONGEST);
        let late = start + LONGEST + Duration::from_millis(1);
        assert_eq!(queue.pop(late), Some(batch(5)));
        assert_eq!(queue.pop(late), None);
        assert_eq!(queue.bytes, 0);
    }
}
