//! Supervised threads: one that panics is resumed, or ends the daemon in good order.

use super::ending::{Ending, last_words};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// A thread that panics more often than this within [`CALM`] is given up.
const PANICS: usize = 3;
const CALM: Duration = Duration::from_secs(600);

/// Starts a thread of this name that runs `body` as [`supervise`] does.
///
/// # Errors
/// No thread can be created, or no memory is left; with the thread's name.
pub fn start(
    name: &'static str,
    ending: &Ending,
    body: impl FnMut() + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    let ending = ending.clone();
    start_thread(name, move || {
        supervise(name, &ending, body);
    })
}

/// Like [`start`], for a thread that the tunnel can do without.
///
/// # Errors
/// Those of [`start`].
pub fn start_unneeded(
    name: &'static str,
    body: impl FnMut() + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    start_thread(name, move || supervise_unneeded(name, body))
}

/// Starts a thread that handles its panics itself.
///
/// # Errors
/// Those of [`start`].
pub fn start_thread<T: Send + 'static>(
    name: &'static str,
    body: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    // `thread::spawn` panics instead.
    let started = Builder::new().name(name.into()).spawn(body);
    started.map_err(|error| {
        io::Error::new(error.kind(), format!("starting the thread {name}: {error}"))
    })
}

/// Runs `body` until it returns, again after each panic: it must cope with half-done work. If that
/// doesn't help, it notifies `ending` and returns false.
pub fn supervise(name: &str, ending: &Ending, body: impl FnMut()) -> bool {
    run_again(name, body).map_err(|why| ending.because(why)).is_ok()
}

/// Like [`supervise`], for work that the tunnel can do without.
pub fn supervise_unneeded(name: &str, body: impl FnMut()) {
    if let Err(why) = run_again(name, body) {
        tracing::error!("{why}; the tunnel continues without it");
    }
}

fn run_again(name: &str, mut body: impl FnMut()) -> Result<(), String> {
    let mut panics: Vec<Instant> = Vec::new();
    loop {
        let Err(panic) = catch_unwind(AssertUnwindSafe(&mut body)) else { return Ok(()) };
        let words = last_words(&*panic);
        panics.retain(|at| at.elapsed() < CALM);
        panics.push(Instant::now());
        if panics.len() > PANICS {
            return Err(format!("the thread {name} panics again and again: {words}"));
        }
        tracing::error!("the thread {name} panicked and was resumed: {words}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_panicked_goes_on() {
        let (ending, mut runs) = (Ending::default(), 0);
        let ended = supervise("braid-test", &ending, || {
            runs += 1;
            assert!(runs > 2, "not yet");
        });
        assert_eq!((ended, runs, ending.reason()), (true, 3, None));
    }

    #[test]
    fn one_that_panics_again_and_again_ends_the_daemon_which_says_why() {
        let ending = Ending::default();
        assert!(!supervise("braid-test", &ending, || panic!("at step {}", 7)));
        let reason = ending.reason().unwrap();
        assert!(reason.contains("braid-test") && reason.contains("at step 7"), "{reason}");
    }
}
