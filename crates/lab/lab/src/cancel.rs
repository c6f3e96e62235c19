//! A switch that ends a run early.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How often a sleeping thread checks for cancellation.
const LOOK: Duration = Duration::from_millis(50);

/// How long a cancelled run has for its reports.
const GRACE: Duration = Duration::from_millis(1_500);
/// Exit status after a signal, as shells report it for SIGINT.
pub(crate) const INTERRUPTED: u8 = 130;

/// A switch that ends a run early, shared by all its threads.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// A switch that only [`Cancel::cancel`] triggers.
    pub fn new() -> Self {
        Self::default()
    }

    /// A switch that SIGINT, SIGTERM and SIGHUP trigger. The process then ends soon, whatever it
    /// waits for; its namespaces and the processes in them end with it.
    ///
    /// # Errors
    /// Signals can't be caught, or no thread can be started.
    pub fn on_signals() -> std::io::Result<Self> {
        let switch = Self::default();
        for signal in
            [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP]
        {
            signal_hook::flag::register(signal, Arc::clone(&switch.0))?;
        }
        let asked = switch.clone();
        thread::Builder::new().name("lab-end".into()).spawn(move || {
            while !asked.is_cancelled() {
                thread::sleep(LOOK);
            }
            thread::sleep(GRACE);
            std::process::exit(INTERRUPTED.into());
        })?;
        Ok(switch)
    }

    /// Ends the run.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether the run is to end.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Sleeps until `deadline`; false if it was cancelled before.
    pub fn sleep_until(&self, deadline: Instant) -> bool {
        loop {
            if self.is_cancelled() {
                return false;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            thread::sleep(left.min(LOOK));
        }
    }

    /// Sleeps for `time`; false if it was cancelled before.
    pub fn sleep(&self, time: Duration) -> bool {
        self.sleep_until(Instant::now() + time)
    }
}
