//! Single transfers, retried and checked, and those in flight.

use crate::store::{Name, Store, StoreError};
use crate::target_options::TargetOptions;
use bytes::Bytes;
use rustic_core::{FileType, Id};
use sha2::{Digest, Sha256};
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

/// What went to the target.
#[derive(Clone, Debug, Default)]
pub struct Delivery {
    /// Files, with their sizes.
    pub(crate) written: Vec<(FileType, Id, u32)>,
    /// How often something was retried.
    pub retries: u64,
}

const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// How often it checks whether to stop.
const LOOK: Duration = Duration::from_millis(100);
/// How long files being sent may take to arrive when it is to stop: a user at a prompt waits no
/// longer.
const GRACE: Duration = Duration::from_secs(2);
/// A file that arrives damaged may have been damaged in transit; one that does so repeatedly
/// wasn't.
const DAMAGED_TRIES: u32 = 3;
/// A list may name a file before another server has it.
const ABSENT_TRIES: u32 = 3;

pub(super) struct Transfers {
    pub(super) store: Arc<dyn Store>,
    pub(super) place: String,
    pub(super) target_options: TargetOptions,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
pub(super) struct State {
    under_way: usize,
    /// From then on nothing else is tried.
    pub(super) failed: Option<StoreError>,
    /// The target has answered.
    was_reached: bool,
    /// The last file that couldn't be read, and why.
    pub(super) unreadable: Option<String>,
    pub(super) delivery: Delivery,
    /// The existing packs, if they have just been listed.
    pub(super) listed: Option<Vec<(Id, u32)>>,
}

impl Transfers {
    pub(super) fn new(
        store: Arc<dyn Store>,
        place: String,
        target_options: TargetOptions,
    ) -> Transfers {
        let (state, changed) = (Mutex::default(), Condvar::new());
        Transfers { store, place, target_options, state, changed }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub(super) fn is_to_end(&self) -> bool {
        self.target_options.stop.load(Ordering::Relaxed)
    }

    /// Waits until something has changed, or it is time to check again.
    fn await_change<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let waited = self.changed.wait_timeout(state, LOOK);
        waited.unwrap_or_else(|poisoned| poisoned.into_inner()).0
    }

    fn pause(&self, pause: Duration) {
        let until = Instant::now() + pause;
        while !self.is_to_end() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            thread::sleep(left.min(LOOK));
        }
    }

    pub(super) fn about(&self, name: &Name) -> String {
        format!("{}: {}", self.place, name.path())
    }

    /// Waits until everything in flight has arrived.
    pub(super) fn wait(&self) -> Result<(), StoreError> {
        let mut state = self.lock();
        let mut asked_to_end = None;
        while state.under_way > 0 {
            if self.is_to_end() && asked_to_end.get_or_insert_with(Instant::now).elapsed() > GRACE {
                return Err(interrupted());
            }
            state = self.await_change(state);
        }
        state.failed.clone().map_or(Ok(()), Err)
    }

    /// Whether the target's name is right: it was reached, now or earlier.
    fn is_reachable(&self) -> bool {
        self.target_options.is_known || self.lock().was_reached
    }

    /// Retries until it succeeds or can't any more.
    pub(super) fn persist<T>(
        &self,
        what: &str,
        once: impl Fn() -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut pause = self.target_options.first_pause;
        let mut tries = 0;
        loop {
            if self.is_to_end() {
                return Err(interrupted());
            }
            if let Some(failed) = self.lock().failed.clone() {
                return Err(failed);
            }
            let passing = match once() {
                // It would be tried for a quarter of an hour.
                Err(StoreError::Nameless(text)) if !self.is_reachable() => {
                    let error = StoreError::Final(format!("{text}; is its name right?"));
                    self.lock().failed = Some(error.clone());
                    return Err(error);
                }
                Err(StoreError::Passing(text) | StoreError::Nameless(text)) => text,
                Err(error @ StoreError::Final(_)) => {
                    self.lock().failed = Some(error.clone());
                    return Err(error);
                }
                other => {
                    self.lock().was_reached = true;
                    return other;
                }
            };
            if tries >= self.target_options.retries {
                let text = match tries {
                    0 => format!("{what}: {passing}"),
                    _ => format!("{what}: {passing}; tried {} times", tries + 1),
                };
                let error = StoreError::Final(text);
                self.lock().failed = Some(error.clone());
                return Err(error);
            }
            tries += 1;
            self.lock().delivery.retries += 1;
            (self.target_options.tell)(&format!(
                "{}: {what}: {passing}; trying again in {}",
                self.place,
                braid_units::format_duration(pause)
            ));
            self.pause(pause);
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    pub(super) fn list(&self, kind: FileType) -> Result<Vec<(Id, u32)>, StoreError> {
        self.persist("listing", || self.store.list(kind))
    }

    /// Except for the config, the name is the digest of the contents.
    pub(super) fn read(&self, name: &Name, part: Option<&Range<u64>>) -> Result<Bytes, StoreError> {
        let mut tries = 1;
        loop {
            let came = self.persist("reading", || self.store.read(name, part.cloned()));
            let again = match &came {
                Err(StoreError::Absent) if name.kind != FileType::Config => tries < ABSENT_TRIES,
                Err(StoreError::Damaged(_)) => tries < DAMAGED_TRIES,
                Ok(content) if part.is_none() && !is_it(name, content) => {
                    if tries >= DAMAGED_TRIES {
                        let text = format!("{} is damaged there", name.path());
                        return Err(StoreError::Damaged(text));
                    }
                    true
                }
                _ => false,
            };
            if !again {
                match &came {
                    Ok(content) => self.target_options.watch.carried(content.len()),
                    Err(error) => {
                        let text = format!("{}: {error}", self.about(name));
                        self.lock().unreadable = Some(text);
                    }
                }
                return came;
            }
            tries += 1;
            self.pause(self.target_options.first_pause);
        }
    }

    pub(super) fn write(&self, name: &Name, content: &[Bytes]) -> Result<(), StoreError> {
        let outcome = self.persist("writing", || {
            // There is nothing that could be absent, but a folder that went away.
            self.store.write(name, content).map_err(|error| match error {
                StoreError::Absent => StoreError::Passing("its folder isn't there".to_owned()),
                other => other,
            })
        });
        let size: usize = content.iter().map(Bytes::len).sum();
        let mut state = self.lock();
        match &outcome {
            Ok(()) => {
                let size = u32::try_from(size).unwrap_or(u32::MAX);
                state.delivery.written.push((name.kind, name.id, size));
                self.target_options.watch.carried(size as usize);
            }
            // Without it nothing of what follows makes sense.
            Err(error) => state.failed = Some(error.clone()),
        }
        outcome
    }

    /// Sends a pack beside others, as soon as fewer than allowed are in flight. A failure is kept,
    /// for whoever asks next.
    pub(super) fn send(
        self: &Arc<Self>,
        name: Name,
        content: Vec<Bytes>,
    ) -> Result<(), StoreError> {
        let mut state = self.lock();
        while state.under_way >= self.target_options.connections.max(1) {
            if self.is_to_end() {
                return Err(interrupted());
            }
            state = self.await_change(state);
        }
        if let Some(failed) = state.failed.clone() {
            return Err(failed);
        }
        state.under_way += 1;
        drop(state);
        let under_way = UnderWay(Arc::clone(self));
        let send = move || drop(under_way.0.write(&name, &content));
        thread::Builder::new().spawn(send).map(drop).map_err(|error| {
            let failed = StoreError::Final(format!("can't start a thread: {error}"));
            self.lock().failed = Some(failed.clone());
            failed
        })
    }
}

/// A pack being sent. Dropped however that ends, so that nobody waits for one that is no longer
/// being sent.
struct UnderWay(Arc<Transfers>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.under_way = state.under_way.saturating_sub(1);
        if thread::panicking() {
            // No index may name what isn't there.
            let text = "braid broke while it was sending: see the log".to_owned();
            state.failed.get_or_insert(StoreError::Final(text));
        }
        drop(state);
        self.0.changed.notify_all();
    }
}

fn interrupted() -> StoreError {
    StoreError::Final("interrupted".to_owned())
}

fn is_it(name: &Name, content: &[u8]) -> bool {
    name.kind == FileType::Config || Id::new(Sha256::digest(content).into()) == name.id
}
