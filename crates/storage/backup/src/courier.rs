//! Transfers a repository's files to and from a target that fails now and then: retries, checks
//! what arrives, sends several packs at a time, and lets nothing refer to a pack before it is
//! there.

use crate::Error;
use crate::store::{self, Name, Store, StoreError};
use crate::target::Target;
use crate::target_options::TargetOptions;
use crate::throttle::Throttle;
use bytes::Bytes;
use jiff::Timestamp;
use rustic_core::{
    BytesList, ErrorKind, FileType, Id, ReadBackend, RusticError, RusticResult, WriteBackend,
};
use sha2::{Digest, Sha256};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
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

#[derive(Clone)]
pub(crate) struct Courier(Arc<Inner>);

struct Inner {
    store: Arc<dyn Store>,
    place: String,
    target_options: TargetOptions,
    state: Mutex<State>,
    changed: Condvar,
    holds_snapshots: AtomicBool,
}

#[derive(Default)]
struct State {
    under_way: usize,
    /// From then on nothing else is tried.
    failed: Option<StoreError>,
    /// The target has answered.
    was_reached: bool,
    /// The last file that couldn't be read, and why.
    unreadable: Option<String>,
    delivery: Delivery,
    /// The existing packs, if they have just been listed.
    listed: Option<Vec<(Id, u32)>>,
}

impl Courier {
    pub(crate) fn new(target: &Target, target_options: &TargetOptions) -> Result<Courier, Error> {
        let throttle = Arc::new(Throttle::new(target_options.limit));
        Ok(Courier::with(
            store::open(target, target_options, &throttle)?,
            target.shown(),
            target_options.clone(),
        ))
    }

    fn with(store: Arc<dyn Store>, place: String, target_options: TargetOptions) -> Courier {
        Courier(Arc::new(Inner {
            store,
            place,
            target_options,
            state: Mutex::default(),
            changed: Condvar::new(),
            holds_snapshots: AtomicBool::new(false),
        }))
    }

    /// Why nothing works any more.
    pub(crate) fn failure(&self) -> Option<Error> {
        if self.0.is_to_end() {
            return Some(Error::Interrupted);
        }
        let failed = self.0.lock().failed.clone()?;
        Some(Error::Target { target: self.0.place.clone(), what: failed.to_string() })
    }

    /// Whether there is no point in continuing.
    pub(crate) fn has_ended(&self) -> bool {
        self.0.is_to_end() || self.0.lock().failed.is_some()
    }

    /// Why the library gave up: the target's error if there is one, else the library's.
    pub(crate) fn error_of(&self, said: String) -> Error {
        let unreadable = self.0.lock().unreadable.take();
        self.failure().unwrap_or_else(|| unreadable.map_or(Error::Format(said), Error::Damaged))
    }

    /// What has been sent so far.
    pub(crate) fn delivery(&self) -> Delivery {
        self.0.lock().delivery.clone()
    }

    /// Whether snapshots' files are thrown away instead of written.
    pub(crate) fn hold_snapshots(&self, hold: bool) {
        self.0.holds_snapshots.store(hold, Ordering::Relaxed);
    }

    /// Removes what is left of writers that were killed; what stays takes nothing but room.
    pub(crate) fn tidy(&self) {
        let _ = self.0.store.tidy();
    }

    /// Checks that everything written since `before` is there: listed with its size, and for files
    /// that name others, with unchanged contents.
    pub(crate) fn look_again(&self, before: usize) -> Result<(), Error> {
        self.0.wait().map_err(|error| self.target_error(&error))?;
        let written = self.delivery().written;
        let written = written.get(before..).unwrap_or_default();
        for kind in [FileType::Pack, FileType::Index, FileType::Snapshot] {
            let expected: Vec<_> = written.iter().filter(|(of, ..)| *of == kind).collect();
            if expected.is_empty() {
                continue;
            }
            let listed = self.0.list(kind).map_err(|error| self.target_error(&error))?;
            let listed: std::collections::HashMap<Id, u32> = listed.into_iter().collect();
            for (_, id, size) in expected {
                let name = Name::new(kind, id);
                let there = listed.get(id) == Some(size);
                // Index and snapshot say where everything else is; a list may be out of date.
                if !there || kind != FileType::Pack {
                    let came = self.0.read(&name, None).map_err(|error| {
                        let what = format!("{} was sent and can't be read: {error}", name.path());
                        Error::Target { target: self.0.place.clone(), what }
                    })?;
                    if came.len() as u64 != u64::from(*size) {
                        return Err(Error::Damaged(format!("{} isn't as sent", name.path())));
                    }
                }
            }
        }
        Ok(())
    }

    /// Whether a file is there with all its bytes.
    pub(crate) fn has(&self, name: &Name, size: u32) -> Result<bool, Error> {
        let last = u64::from(size).saturating_sub(1)..u64::from(size);
        match self.0.read(name, Some(&last)) {
            Ok(came) => Ok(came.len() == 1),
            Err(StoreError::Absent | StoreError::Damaged(_)) => Ok(false),
            Err(error) => Err(self.target_error(&error)),
        }
    }

    /// A part of a file; `None` if it isn't there, or can't be read there.
    pub(crate) fn part(&self, name: &Name, part: Range<u64>) -> Result<Option<Bytes>, Error> {
        match self.0.persist("reading", || self.0.store.read(name, Some(part.clone()))) {
            Ok(came) => {
                self.0.target_options.watch.carried(came.len());
                Ok(Some(came))
            }
            Err(StoreError::Absent | StoreError::Damaged(_)) => Ok(None),
            Err(error) => Err(self.target_error(&error)),
        }
    }

    /// Takes this for the list of packs, instead of asking the target for one, until it is told
    /// otherwise.
    pub(crate) fn take_for_listed(&self, packs: Option<Vec<(Id, u32)>>) {
        self.0.lock().listed = packs;
    }

    /// By the target's clock.
    pub(crate) fn now(&self) -> Timestamp {
        self.0.store.now()
    }

    /// Makes what the first file needs.
    pub(crate) fn prepare(&self) -> Result<(), Error> {
        let made = self.0.persist("preparing", || self.0.store.create());
        made.map_err(|error| self.target_error(&error))
    }

    /// Whether the target can lock what it has.
    pub(crate) fn check_lock(&self) -> Result<(), Error> {
        let can = self.0.persist("asking whether it locks", || self.0.store.can_lock());
        can.map_err(|error| self.target_error(&error))
    }

    /// Locks them against deletion until then; `each` is called with the end of each lock.
    pub(crate) fn lock(
        &self,
        names: &[Name],
        until: Timestamp,
        each: &(dyn Fn(&Name, Timestamp) + Sync),
    ) -> Result<(), Error> {
        let next = AtomicUsize::new(0);
        let absent = Mutex::new(None);
        let work = || {
            while let Some(name) = names.get(next.fetch_add(1, Ordering::Relaxed)) {
                match self.0.persist("locking", || self.0.store.lock(name, until)) {
                    Ok(end) => each(name, end),
                    // Others exist and need to be locked.
                    Err(StoreError::Absent) => {
                        *absent.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) =
                            Some(*name);
                    }
                    Err(_) => return,
                }
            }
        };
        thread::scope(|scope| {
            for _ in 0..self.0.target_options.connections.max(1) {
                scope.spawn(work);
            }
        });
        if let Some(failure) = self.failure() {
            return Err(failure);
        }
        match absent.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()) {
            Some(name) => Err(Error::Damaged(format!(
                "{} isn't there, though backups need it: `braid pool backup check` tells more",
                self.0.about(&name)
            ))),
            None => Ok(()),
        }
    }

    /// The end of its lock, if it has one.
    pub(crate) fn lock_end(&self, name: &Name) -> Result<Option<Timestamp>, Error> {
        let end = self.0.persist("reading a lock", || self.0.store.lock_end(name));
        end.map_err(|error| self.target_error(&error))
    }

    fn target_error(&self, error: &StoreError) -> Error {
        let target = Error::Target { target: self.0.place.clone(), what: error.to_string() };
        self.failure().unwrap_or(target)
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn is_to_end(&self) -> bool {
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

    fn about(&self, name: &Name) -> String {
        format!("{}: {}", self.place, name.path())
    }

    /// Waits until everything in flight has arrived.
    fn wait(&self) -> Result<(), StoreError> {
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
    fn persist<T>(
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

    fn list(&self, kind: FileType) -> Result<Vec<(Id, u32)>, StoreError> {
        self.persist("listing", || self.store.list(kind))
    }

    /// Except for the config, the name is the digest of the contents.
    fn read(&self, name: &Name, part: Option<&Range<u64>>) -> Result<Bytes, StoreError> {
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

    fn write(&self, name: &Name, content: &[Bytes]) -> Result<(), StoreError> {
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
}

/// A pack being sent. Dropped however that ends, so that nobody waits for one that is no longer
/// being sent.
struct UnderWay(Arc<Inner>);

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

fn told(place: &str, error: StoreError) -> Box<RusticError> {
    RusticError::with_source(ErrorKind::Backend, place.to_owned(), error)
}

impl ReadBackend for Courier {
    fn location(&self) -> String {
        self.0.place.clone()
    }

    fn list_with_size(&self, kind: FileType) -> RusticResult<Vec<(Id, u32)>> {
        let listed = (kind == FileType::Pack).then(|| self.0.lock().listed.clone()).flatten();
        match listed {
            Some(listed) => Ok(listed),
            None => self.0.list(kind).map_err(|error| told(&self.0.place, error)),
        }
    }

    fn read_full(&self, kind: FileType, id: &Id) -> RusticResult<Bytes> {
        let name = Name::new(kind, id);
        self.0.read(&name, None).map_err(|error| told(&self.0.about(&name), error))
    }

    fn read_partial(
        &self,
        kind: FileType,
        id: &Id,
        _cacheable: bool,
        offset: u32,
        length: u32,
    ) -> RusticResult<Bytes> {
        let start = u64::from(offset);
        let part = start..start + u64::from(length);
        let name = Name::new(kind, id);
        self.0.read(&name, Some(&part)).map_err(|error| told(&self.0.about(&name), error))
    }

    fn warmup_path(&self, kind: FileType, id: &Id) -> String {
        Name::new(kind, id).path()
    }
}

impl WriteBackend for Courier {
    fn create(&self) -> RusticResult<()> {
        let create = self.0.persist("preparing", || self.0.store.create());
        create.map_err(|error| told(&self.0.place, error))
    }

    fn write_bytes(
        &self,
        kind: FileType,
        id: &Id,
        _cacheable: bool,
        content: BytesList,
    ) -> RusticResult<()> {
        let name = Name::new(kind, id);
        let content = content.into_vec();
        if kind != FileType::Pack {
            let written = self.0.wait().and_then(|()| {
                match kind == FileType::Snapshot && self.0.holds_snapshots.load(Ordering::Relaxed) {
                    true => Ok(()),
                    false => self.0.write(&name, &content),
                }
            });
            return written.map_err(|error| told(&self.0.place, error));
        }
        let mut state = self.0.lock();
        while state.under_way >= self.0.target_options.connections.max(1) {
            if self.0.is_to_end() {
                return Err(told(&self.0.place, interrupted()));
            }
            state = self.0.await_change(state);
        }
        if let Some(failed) = state.failed.clone() {
            return Err(told(&self.0.place, failed));
        }
        state.under_way += 1;
        drop(state);
        let under_way = UnderWay(Arc::clone(&self.0));
        // A failure is kept, for whoever asks next.
        let send = move || drop(under_way.0.write(&name, &content));
        thread::Builder::new().spawn(send).map(drop).map_err(|error| {
            let failed = StoreError::Final(format!("can't start a thread: {error}"));
            self.0.lock().failed = Some(failed.clone());
            told(&self.0.place, failed)
        })
    }

    fn remove(&self, kind: FileType, id: &Id, _cacheable: bool) -> RusticResult<()> {
        let name = Name::new(kind, id);
        let removed =
            self.0.wait().and_then(|()| self.0.persist("removing", || self.0.store.remove(&name)));
        removed.map_err(|error| told(&self.0.place, error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secrets::Secrets;
    use std::collections::BTreeMap;

    /// Fails as often as it is told to.
    #[derive(Default)]
    struct Moody {
        files: Mutex<BTreeMap<String, Vec<u8>>>,
        failures: Mutex<Vec<StoreError>>,
        breaks: AtomicBool,
    }

    impl Moody {
        fn mood(&self) -> Result<(), StoreError> {
            self.failures.lock().unwrap().pop().map_or(Ok(()), Err)
        }
    }

    impl Store for Moody {
        fn list(&self, _kind: FileType) -> Result<Vec<(Id, u32)>, StoreError> {
            self.mood()?;
            Ok(vec![])
        }
        fn read(&self, name: &Name, _part: Option<Range<u64>>) -> Result<Bytes, StoreError> {
            self.mood()?;
            let files = self.files.lock().unwrap();
            files.get(&name.path()).cloned().map(Bytes::from).ok_or(StoreError::Absent)
        }
        fn write(&self, name: &Name, content: &[Bytes]) -> Result<(), StoreError> {
            assert!(!self.breaks.load(Ordering::Relaxed), "what this test is for");
            self.mood()?;
            self.files.lock().unwrap().insert(name.path(), content.concat());
            Ok(())
        }
        fn remove(&self, _name: &Name) -> Result<(), StoreError> {
            self.mood()
        }
        fn create(&self) -> Result<(), StoreError> {
            self.mood()
        }
    }

    fn courier(retries: u32, failures: Vec<StoreError>) -> (Courier, Arc<Moody>) {
        let store = Arc::new(Moody { failures: Mutex::new(failures), ..Moody::default() });
        let first_pause = Duration::from_millis(1);
        let target_options =
            TargetOptions { retries, first_pause, ..TargetOptions::new(Secrets::at(None)) };
        (
            Courier::with(Arc::clone(&store) as Arc<dyn Store>, "there".to_owned(), target_options),
            store,
        )
    }

    fn passing(times: usize) -> Vec<StoreError> {
        vec![StoreError::Passing("it hiccups".to_owned()); times]
    }

    fn pack(text: &str) -> (Id, BytesList) {
        (Id::new(Sha256::digest(text).into()), text.as_bytes().to_vec().into())
    }

    #[test]
    fn what_passes_is_tried_again_and_counted() {
        let (courier, store) = courier(3, passing(3));
        let (id, content) = pack("one");
        courier.write_bytes(FileType::Pack, &id, false, content).unwrap();
        courier.0.wait().unwrap();
        assert_eq!(store.files.lock().unwrap().len(), 1);
        assert_eq!(courier.delivery().retries, 3);
        assert_eq!(&courier.read_full(FileType::Pack, &id).unwrap()[..], b"one");
    }

    #[test]
    fn a_name_without_an_address_is_mistyped_unless_it_was_right_before() {
        let nameless = || vec![StoreError::Nameless("no such host".to_owned())];
        let list = |courier: &Courier| courier.list_with_size(FileType::Index);
        let (new, _) = courier(3, nameless());
        assert!(list(&new).is_err());
        let failure = new.failure().unwrap().to_string();
        assert!(failure.contains("is its name right?"), "{failure}");
        // Now.
        let (reached, store) = courier(3, vec![]);
        list(&reached).unwrap();
        *store.failures.lock().unwrap() = nameless();
        list(&reached).unwrap();
        // Or earlier, as its record says.
        let store = Arc::new(Moody { failures: Mutex::new(nameless()), ..Moody::default() });
        let first_pause = Duration::from_millis(1);
        let target_options =
            TargetOptions { is_known: true, first_pause, ..TargetOptions::new(Secrets::at(None)) };
        let known = Courier::with(store, "there".to_owned(), target_options);
        list(&known).unwrap();
        assert_eq!(known.delivery().retries, 1);
    }

    #[test]
    fn no_index_is_written_once_a_pack_was_not() {
        let (courier, store) = courier(1, passing(2));
        let (id, content) = pack("one");
        courier.write_bytes(FileType::Pack, &id, false, content).unwrap();
        let (id, content) = pack("the index");
        assert!(courier.write_bytes(FileType::Index, &id, false, content).is_err());
        assert!(store.files.lock().unwrap().is_empty());
        let failure = courier.failure().unwrap().to_string();
        assert!(failure.contains("it hiccups; tried 2 times"), "{failure}");
    }

    #[test]
    fn nobody_waits_for_a_pack_whose_sender_broke_and_no_index_names_it() {
        let (courier, store) = courier(1, vec![]);
        store.breaks.store(true, Ordering::Relaxed);
        let (id, content) = pack("one");
        courier.write_bytes(FileType::Pack, &id, false, content).unwrap();
        assert!(courier.0.wait().is_err());
        store.breaks.store(false, Ordering::Relaxed);
        let (id, content) = pack("the index");
        assert!(courier.write_bytes(FileType::Index, &id, false, content).is_err());
        assert!(store.files.lock().unwrap().is_empty());
    }

    #[test]
    fn what_is_damaged_there_is_an_error_for_it_alone() {
        let (courier, store) = courier(1, vec![]);
        let (id, content) = pack("one");
        courier.write_bytes(FileType::Index, &id, false, content).unwrap();
        let path = Name::new(FileType::Index, &id).path();
        store.files.lock().unwrap().insert(path, b"other".to_vec());
        assert!(courier.read_full(FileType::Index, &id).is_err());
        assert!(courier.failure().is_none());
        assert!(courier.look_again(0).is_err());
    }

    #[test]
    fn snapshots_are_held_back_while_it_is_not_known_whether_they_are_whole() {
        let (courier, store) = courier(0, vec![]);
        courier.hold_snapshots(true);
        let (id, content) = pack("snapshot");
        courier.write_bytes(FileType::Snapshot, &id, false, content.clone()).unwrap();
        assert!(store.files.lock().unwrap().is_empty());
        courier.hold_snapshots(false);
        courier.write_bytes(FileType::Snapshot, &id, false, content).unwrap();
        assert_eq!(store.files.lock().unwrap().len(), 1);
    }
}
