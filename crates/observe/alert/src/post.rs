use crate::kept::Kept;
use crate::message::Message;
use crate::outbox::{Outbox, Waiting};
use crate::rule::Alert;
use braid_history::{Event, EventKind, Severity, unix_now};
use std::io;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Notifies people of events, on a thread of its own, so that reporting an event never blocks.
pub struct Post {
    give: Mutex<Option<SyncSender<Event>>>,
    outbox: Arc<Mutex<Outbox>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// Delivers messages, each within a bounded time.
pub trait Deliver: Send + 'static {
    /// Delivers a message.
    ///
    /// # Errors
    /// Why it didn't, or may not have, arrived, in words.
    fn deliver(&self, alert: &Alert, message: &Message) -> Result<(), String>;
}

/// Maximum number of events that wait for the thread while it delivers.
const BACKLOG: usize = 256;
/// How long to wait at the end for the file to be written.
const WRITES_WITHIN: Duration = Duration::from_millis(500);
/// Maximum sleep, since rules and the clock may change.
const LOOK_EVERY: Duration = Duration::from_secs(60);

impl Post {
    /// Starts with the events in `file`. `alerts` returns the current rules; `None` when it is time
    /// to end.
    ///
    /// `run` runs the given function until it returns, again after a panic.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn start(
        file: &Path,
        host: String,
        alerts: impl Fn() -> Option<Vec<Alert>> + Send + 'static,
        deliver: impl Deliver,
        run: impl FnOnce(&mut dyn FnMut()) + Send + 'static,
    ) -> io::Result<Post> {
        let kept = Kept::at(file);
        let outbox = kept.read().unwrap_or_else(|error| {
            tracing::warn!("can't read the alerts that were waiting: {error}");
            Outbox::default()
        });
        let outbox = Arc::new(Mutex::new(outbox));
        let (give, given) = sync_channel(BACKLOG);
        let mut rounds =
            Rounds { outbox: outbox.clone(), given, kept, host, alerts, deliver, writes: true };
        let thread = std::thread::Builder::new().name("braid-alerts".into());
        let thread = thread.spawn(move || run(&mut || rounds.run()))?;
        Ok(Post { give: Mutex::new(Some(give)), outbox, thread: Mutex::new(Some(thread)) })
    }

    /// Reports an event.
    pub fn tell(&self, event: &Event) {
        let give = self.give.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(give) = give.as_ref() else { return };
        if let Err(TrySendError::Full(event)) = give.try_send(event.clone()) {
            tracing::warn!(
                kind = event.kind.as_str(),
                "too many events: nobody is notified of one"
            );
        }
    }

    /// The state of an alert's queue.
    pub fn waiting(&self, alert: &str) -> Waiting {
        lock(&self.outbox).waiting(alert)
    }

    /// Stops, with waiting events saved in the file. Doesn't wait for a delivery in progress.
    pub fn stop(&self) {
        drop(self.give.lock().unwrap_or_else(PoisonError::into_inner).take());
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(thread) = thread else { return };
        let begun = Instant::now();
        while !thread.is_finished() && begun.elapsed() < WRITES_WITHIN {
            std::thread::sleep(Duration::from_millis(10));
        }
        if thread.is_finished() {
            let _ = thread.join();
        }
    }
}

/// The event for testing whether messages arrive.
pub fn test_event(alert: &str) -> Event {
    Event {
        unix: unix_now(),
        kind: EventKind::Test,
        severity: Severity::Note,
        subject: alert.into(),
        text: format!("this is a test of the alert {alert:?}: messages arrive"),
    }
}

struct Rounds<A, D> {
    outbox: Arc<Mutex<Outbox>>,
    given: Receiver<Event>,
    kept: Kept,
    host: String,
    alerts: A,
    deliver: D,
    /// Whether the last write of the file succeeded: a full disk is reported once.
    writes: bool,
}

impl<A: Fn() -> Option<Vec<Alert>>, D: Deliver> Rounds<A, D> {
    fn run(&mut self) {
        while let Some(alerts) = (self.alerts)() {
            if self.deliver_next(&alerts) {
                let goes_on = self.take_all(&alerts);
                self.write();
                match goes_on {
                    true => continue,
                    false => return,
                }
            }
            match self.given.recv_timeout(self.pause()) {
                Ok(event) => {
                    lock(&self.outbox).put(&alerts, &event, unix_now());
                    let goes_on = self.take_all(&alerts);
                    self.write();
                    if !goes_on {
                        return;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Takes events that arrived meanwhile; returns `false` when no more can arrive.
    fn take_all(&self, alerts: &[Alert]) -> bool {
        loop {
            match self.given.try_recv() {
                Ok(event) => lock(&self.outbox).put(alerts, &event, unix_now()),
                Err(std::sync::mpsc::TryRecvError::Empty) => return true,
                Err(std::sync::mpsc::TryRecvError::Disconnected) => {
                    return false;
                }
            }
        }
    }

    /// Delivers one message; returns whether there was one.
    fn deliver_next(&mut self, alerts: &[Alert]) -> bool {
        let next = lock(&self.outbox).next(alerts, &self.host, unix_now());
        let Some((alert, message)) = next else { return false };
        let outcome = self.deliver.deliver(&alert, &message);
        match outcome {
            Ok(()) => lock(&self.outbox).delivered(&alert.name, unix_now()),
            Err(why) => {
                tracing::warn!(alert = alert.name, "couldn't be delivered, to be retried: {why}");
                lock(&self.outbox).failed(&alert.name, why, unix_now());
            }
        }
        true
    }

    fn write(&mut self) {
        let outbox = lock(&self.outbox).clone();
        match self.kept.write(&outbox) {
            Ok(()) => self.writes = true,
            Err(error) => {
                if self.writes {
                    tracing::warn!("waiting alerts are kept in memory only: {error}");
                }
                self.writes = false;
            }
        }
    }

    fn pause(&self) -> Duration {
        let Some(at) = lock(&self.outbox).next_at() else { return LOOK_EVERY };
        let seconds = u64::try_from(at - unix_now()).unwrap_or(0);
        // Don't poll continuously for a due message that can't be sent yet.
        Duration::from_secs(seconds.max(1)).min(LOOK_EVERY)
    }
}

fn lock(outbox: &Mutex<Outbox>) -> std::sync::MutexGuard<'_, Outbox> {
    outbox.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::{Alert, Target};
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::mpsc::{Sender, channel};

    /// Panics at the first message, like an unforeseen bug.
    struct PanicsOnce {
        has_panicked: Mutex<bool>,
        told: Sender<String>,
    }

    impl Deliver for PanicsOnce {
        fn deliver(&self, _: &Alert, message: &Message) -> Result<(), String> {
            let has_panicked = {
                let mut has_panicked = self.has_panicked.lock().unwrap();
                std::mem::replace(&mut *has_panicked, true)
            };
            assert!(has_panicked, "not yet");
            self.told.send(message.text()).map_err(|error| error.to_string())
        }
    }

    #[test]
    fn who_panicked_over_one_message_tells_it_again() {
        let folder = tempfile::tempdir().unwrap();
        let alert = Alert {
            name: "all".into(),
            target: Target::Command { command: "true".into() },
            kinds: Vec::new(),
            least: Severity::Note,
            group_s: 0,
        };
        let alerts = move || Some(vec![alert.clone()]);
        let (told, hears) = channel();
        let deliver = PanicsOnce { has_panicked: Mutex::new(false), told };
        let again = |rounds: &mut dyn FnMut()| {
            while catch_unwind(AssertUnwindSafe(&mut *rounds)).is_err() {}
        };
        let file = folder.path().join("kept.json");
        let post = Post::start(&file, "host".into(), alerts, deliver, again).unwrap();
        post.tell(&test_event("all"));
        assert!(hears.recv_timeout(Duration::from_secs(60)).unwrap().contains("test"));
        post.stop();
    }
}
