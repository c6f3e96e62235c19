//! How many packs may be in memory at a time.

use bytes::Bytes;
use std::sync::{Arc, Condvar, Mutex};

/// Places for packs that were read and aren't used up yet.
pub(super) struct Slots {
    free: Mutex<usize>,
    changed: Condvar,
}

struct Slot(Arc<Slots>);

/// A pack, or a part, in its place.
struct Held {
    content: Bytes,
    _slot: Slot,
}

impl Slots {
    pub(super) fn new(count: usize) -> Slots {
        Slots { free: Mutex::new(count.max(1)), changed: Condvar::new() }
    }

    /// Reads once there is a place; the place is free again when the bytes are dropped. Whoever
    /// waits must hold none.
    pub(super) fn read<E>(
        self: &Arc<Self>,
        read: impl FnOnce() -> Result<Bytes, E>,
    ) -> Result<Bytes, E> {
        let slot = self.take();
        let content = read()?;
        Ok(Bytes::from_owner(Held { content, _slot: slot }))
    }

    fn take(self: &Arc<Self>) -> Slot {
        let mut free = self.free.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        while *free == 0 {
            free = self.changed.wait(free).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
        *free -= 1;
        Slot(Arc::clone(self))
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        *self.0.free.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) += 1;
        self.0.changed.notify_one();
    }
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.content
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    #[test]
    fn no_more_are_held_than_there_are_places_and_all_come() {
        let (slots, held, most) =
            (Arc::new(Slots::new(3)), AtomicUsize::new(0), AtomicUsize::new(0));
        let reads = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..12 {
                scope.spawn(|| {
                    for number in 0..50_u8 {
                        let read = slots.read(|| match number % 7 {
                            // A failure takes no place.
                            6 => Err(()),
                            _ => {
                                most.fetch_max(
                                    held.fetch_add(1, Ordering::SeqCst) + 1,
                                    Ordering::SeqCst,
                                );
                                Ok(Bytes::from(vec![number; 10]))
                            }
                        });
                        let Ok(bytes) = read else { continue };
                        assert_eq!(&bytes[..], &[number; 10]);
                        thread::yield_now();
                        held.fetch_sub(1, Ordering::SeqCst);
                        drop(bytes);
                        reads.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
        });
        assert!(most.into_inner() <= 3);
        assert_eq!(reads.into_inner(), 12 * 43);
    }
}
