//! Reads a device at the places that [`emptiness`] asks for, for at most a minute: a dying disk may
//! take seconds for each sector, or never answer.

use crate::superblock::read_at;
use braid_pool::disk::Content;
use braid_pool::disk::emptiness::{self, Blank, Extent, Reading};
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// A good HDD needs five seconds, a stick that reads 1 MB/s twenty.
const READ_WITHIN: Duration = Duration::from_secs(60);

/// Whether a device of `size_bytes` is empty.
///
/// # Errors
/// What is on it instead; also when some of it could not be read in time.
pub fn examine(device: &Path, size_bytes: u64) -> Result<Blank, Content> {
    examine_within(READ_WITHIN, size_bytes, {
        let device = device.to_owned();
        move |place| match read_at(&device, place.start, place.length as usize) {
            Ok(bytes) => Reading::of(place, &bytes),
            Err(error) => Reading::Unread { why: error.to_string() },
        }
    })
}

/// `read` runs on its own thread, which is abandoned if it doesn't return: it may be stuck in the
/// kernel.
fn examine_within(
    limit: Duration,
    size_bytes: u64,
    read: impl Fn(Extent) -> Reading + Send + 'static,
) -> Result<Blank, Content> {
    let deadline = Instant::now() + limit;
    let (tell, told) = mpsc::channel();
    let places = emptiness::places(size_bytes);
    let reader = thread::Builder::new().spawn(move || {
        // The caller may have stopped waiting.
        places.into_iter().take_while(|place| tell.send(read(*place)).is_ok()).count();
    });
    emptiness::examine(size_bytes, |_| {
        if let Err(error) = &reader {
            return Reading::Unread { why: format!("there is no thread left to read it: {error}") };
        }
        let left = deadline.saturating_duration_since(Instant::now());
        let late = || Reading::Unread { why: format!("the disk did not answer within {limit:?}") };
        told.recv_timeout(left).unwrap_or_else(|_| late())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: u64 = 1 << 30;

    #[test]
    fn a_disk_that_never_answers_is_not_waited_for_and_not_empty() {
        let (_keep, never) = mpsc::channel::<()>();
        let never = std::sync::Mutex::new(never);
        let stuck = move |place: Extent| {
            if place.start > SIZE / 2 {
                let _ = never.lock().map(|never| never.recv());
            }
            Reading::Zeroes
        };
        let found = examine_within(Duration::from_millis(100), SIZE, stuck).unwrap_err();
        assert!(found.to_string().contains("did not answer within 100ms"), "{found}");
    }

    #[test]
    fn a_reader_that_panics_shows_nothing() {
        let gone = |place: Extent| {
            assert!(place.start < SIZE / 2, "as if the disk had gone");
            Reading::Zeroes
        };
        assert!(examine_within(READ_WITHIN, SIZE, gone).is_err());
        assert!(examine_within(READ_WITHIN, SIZE, |_| Reading::Zeroes).is_ok());
    }

    #[test]
    fn a_device_that_is_not_there_is_not_empty() {
        let found = examine(Path::new("/nonexistent"), SIZE).unwrap_err();
        assert!(found.to_string().contains("could not be read"), "{found}");
    }
}
