//! The doctor for the page: examines on request, but not more often than needed.

use super::look::FirstLook;
use super::supervise::{start_thread, supervise_unneeded};
use super::tunnel::Tunnel;
use braid_doctor::{Measured, examine};
use braid_history::unix_now;
use braid_page::Examined;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

/// What was found last.
#[derive(Clone, Default)]
pub struct Consulting(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    last: Examined,
    at: Option<Instant>,
    looks: bool,
}

/// How long findings stay fresh.
const FRESH: Duration = Duration::from_secs(10);
/// Time between the two looks.
const MOMENT: Duration = Duration::from_secs(1);
/// Number of events to consider.
const EVENTS: usize = 200;
/// How long a measurement counts as current, seconds.
const MEASURED_FOR: i64 = 3600;

impl Consulting {
    /// The last findings; if they are old, a thread examines again.
    pub fn ask(&self, tunnel: &Weak<dyn Tunnel>) -> Examined {
        let mut state = self.state();
        let fresh = state.at.is_some_and(|at| at.elapsed() < FRESH);
        if !fresh && !state.looks {
            let (this, tunnel) = (self.clone(), tunnel.clone());
            let body = move || {
                supervise_unneeded("braid-doctor", || this.look(&tunnel));
                this.state().looks = false;
            };
            state.looks = start_thread("braid-doctor", body).is_ok();
        }
        state.last.clone()
    }

    fn look(&self, tunnel: &Weak<dyn Tunnel>) {
        let Some(running) = tunnel.upgrade() else { return };
        let config = running.config_now();
        let first = FirstLook::now(&config, Some(running.status()));
        // It may go down meanwhile.
        drop(running);
        thread::sleep(MOMENT);
        let Some(running) = tunnel.upgrade() else { return };
        let events = running.history().and_then(|history| history.events(None, EVENTS).ok());
        let measured = measured_lately(&*running, unix_now());
        let facts =
            first.then(&config, Some(running.status()), events.unwrap_or_default(), measured);
        let findings = Some(examine(&facts));
        let mut state = self.state();
        state.last = Examined { findings, looked_unix: unix_now() };
        state.at = Some(Instant::now());
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn measured_lately(tunnel: &dyn Tunnel, now: i64) -> Option<Measured> {
    let measuring = tunnel.measuring();
    let lately = measuring.at_unix.is_some_and(|at| now - at < MEASURED_FOR);
    measuring.measured.filter(|_| lately && measuring.trouble.is_none())
}
