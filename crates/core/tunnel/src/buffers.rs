//! Memory for packets, used again and again: a packet on its way through the
//! tunnel costs no allocation.

use braid_units::Time;
use std::time::Duration;

/// Sizes of buffers, bytes. A buffer at most twice as large as asked for wastes
/// little while its packet waits. The last takes what a device reads.
const SIZES: [usize; 9] = [256, 512, 1024, 2048, 4096, 8192, 16_384, 32_768, 66_048];
/// What is kept of each size at the most, bytes in buffers. Ours.
const KEPT: usize = 8 << 20;
/// What wasn't needed for so long is given back, half by half. Ours.
const TRIM_AFTER: Duration = Duration::from_secs(2);

/// Empty buffers, by size.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    shelves: [Shelf; SIZES.len()],
    trimmed_at: Time,
}

#[derive(Debug, Default)]
struct Shelf {
    buffers: Vec<Vec<u8>>,
    /// The fewest that have lain here since the last trim.
    least: usize,
}

impl Buffers {
    /// An empty buffer of at least `capacity` bytes.
    pub fn take(&mut self, capacity: usize) -> Vec<u8> {
        let size = SIZES.iter().position(|&size| size >= capacity);
        let Some((shelf, size)) = size.and_then(|i| self.shelves.get_mut(i).zip(SIZES.get(i)))
        else {
            return Vec::with_capacity(capacity);
        };
        let buffer = shelf.buffers.pop();
        shelf.least = shelf.least.min(shelf.buffers.len());
        buffer.unwrap_or_else(|| Vec::with_capacity(*size))
    }

    /// Takes a buffer back.
    pub fn give(&mut self, mut buffer: Vec<u8>) {
        let size = SIZES.iter().rposition(|&size| size <= buffer.capacity());
        let Some((shelf, size)) = size.and_then(|i| self.shelves.get_mut(i).zip(SIZES.get(i)))
        else {
            return;
        };
        if shelf.buffers.len() < KEPT / size {
            buffer.clear();
            shelf.buffers.push(buffer);
        }
    }

    /// Gives back to the system what lay unused for a while.
    pub fn trim(&mut self, now: Time) {
        if now - self.trimmed_at < TRIM_AFTER {
            return;
        }
        self.trimmed_at = now;
        for shelf in &mut self.shelves {
            let keep = shelf.buffers.len() - shelf.least.div_ceil(2);
            shelf.buffers.truncate(keep);
            shelf.least = keep;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_comes_back_empty_and_is_no_larger_than_sensible() {
        let mut buffers = Buffers::default();
        for wanted in [1, 256, 257, 1500, 65_558, 70_000] {
            let mut buffer = buffers.take(wanted);
            assert!(buffer.is_empty() && buffer.capacity() >= wanted);
            assert!(wanted < 256 || buffer.capacity() <= wanted * 2);
            let place = buffer.as_ptr();
            buffer.push(7);
            buffers.give(buffer);
            let again = buffers.take(wanted.min(66_048));
            assert!(again.is_empty() && again.as_ptr() == place, "{wanted}");
        }
    }

    #[test]
    fn what_is_not_used_is_given_back_and_what_is_stays() {
        let mut buffers = Buffers::default();
        let taken: Vec<_> = (0..100).map(|_| buffers.take(2000)).collect();
        taken.into_iter().for_each(|buffer| buffers.give(buffer));
        let held = |buffers: &Buffers| buffers.shelves.iter().map(|s| s.buffers.len()).sum();
        let mut now = Time::ZERO;
        for _ in 0..10 {
            now += TRIM_AFTER;
            buffers.trim(now);
            let used: Vec<_> = (0..10).map(|_| buffers.take(2000)).collect();
            used.into_iter().for_each(|buffer| buffers.give(buffer));
        }
        let left: usize = held(&buffers);
        assert!((10..15).contains(&left), "{left}");
    }

    #[test]
    fn no_more_is_kept_than_allowed() {
        let mut buffers = Buffers::default();
        for _ in 0..200 {
            buffers.give(Vec::with_capacity(66_048));
            buffers.give(Vec::new());
        }
        let bytes: usize = buffers.shelves.iter().flat_map(|s| &s.buffers).map(Vec::capacity).sum();
        assert!(bytes <= KEPT);
    }
}
