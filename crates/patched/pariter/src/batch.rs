use std::time::{Duration, Instant};

/// No batch waits longer for more: many times what it takes to wake a thread (some 5 to 50 µs), and
/// less than it takes to read, cut and hash a chunk of a large file (a megabyte, a millisecond).
const PATIENCE: Duration = Duration::from_micros(500);
/// Where each takes next to nothing.
pub(crate) const MOST: usize = 64;
/// Of large chunks no more come at once than threads hold ready, and those that wait between them.
const FEW: usize = 16;

/// What comes until it has taken too long; nothing at the end.
pub(crate) fn next<I: Iterator>(iterator: &mut I) -> Vec<I::Item> {
    let Some(first) = iterator.next() else { return Vec::new() };
    let began = Instant::now();
    let mut batch = vec![first];
    while batch.len() < MOST && began.elapsed() < PATIENCE {
        match iterator.next() {
            Some(item) => batch.push(item),
            None => break,
        }
    }
    batch
}

/// Whether so many items, gathered by [`next`] from what `threads` threads make, are small ones:
/// large ones take too long to come.
pub(crate) fn is_small(len: usize, threads: usize) -> bool {
    len > FEW + 4 * threads
}
