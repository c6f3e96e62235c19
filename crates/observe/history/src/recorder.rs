use crate::bucket::{Bucket, Sample};
use crate::clock::unix_now;
use crate::event::Event;
use crate::level::Level;
use crate::roll_up::RollUp;
use crate::series::Series;
use crate::store::{Store, StoreError};
use portable_atomic::{AtomicU64, Ordering};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Where history is kept, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The database.
    pub file: PathBuf,
    /// Maximum size of the database and its log, bytes.
    pub limit_bytes: u64,
    /// How often sums are written; newer ones are lost when the process is killed.
    pub write_every: Duration,
}

/// Passes samples and events to the thread that stores them, without ever blocking.
#[derive(Clone, Debug)]
pub struct Recorder {
    messages: SyncSender<Message>,
    dropped: Arc<AtomicU64>,
    health: Arc<Mutex<Health>>,
}

/// The state of the recording.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    /// Why nothing can be written or read now, in words.
    pub trouble: Option<String>,
    /// Samples and events dropped for lack of room since the start.
    pub dropped: u64,
    /// Sums that were lost because they waited too long for the disk.
    pub lost: u64,
    /// Bytes written to the disk since the start.
    pub written_bytes: u64,
}

/// Sums of a series.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Points {
    /// Length of a sum, seconds.
    pub width_s: i64,
    /// The beginning of each (Unix seconds) and its sum; oldest first.
    pub points: Vec<(i64, Bucket)>,
}

/// Why a query was not answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unanswered {
    /// The thread is busy, or waits for the disk.
    #[error("the history is busy; try again")]
    Busy,
    /// The thread has ended.
    #[error("history is no longer kept")]
    Ended,
    /// The file can't be read.
    #[error("can't read the history: {0}")]
    Failed(String),
}

enum Message {
    Samples(i64, Vec<(Series, Sample)>),
    Event(Event),
    Points { series: Series, from: i64, to: i64, level: Level, answer: Answer<Points> },
    Events { before: Option<i64>, most: usize, answer: Answer<Vec<Event>> },
    Series(Answer<Vec<Series>>),
    Stop(SyncSender<()>),
}

type Answer<T> = SyncSender<Result<T, Unanswered>>;

/// Two minutes of samples: a disk may stall that long without losses.
const WAITING: usize = 128;
/// Timeout of a query.
const PATIENCE: Duration = Duration::from_secs(5);
/// Timeout of the last write.
const LAST_WRITING: Duration = Duration::from_secs(2);
/// Time between retries.
const RETRY: Duration = Duration::from_secs(60);
/// Events less than this apart are written together.
const BETWEEN_EVENTS: Duration = Duration::from_secs(300);
/// Maximum number of sums written together: what fits the log's size.
const BATCH: usize = 2000;
const PRUNE_EVERY: Duration = Duration::from_secs(3600);
/// Maximum number of events that wait for the disk.
const MOST_EVENTS: usize = 1000;
/// 2024-01-01: a clock before that isn't set yet, and is ignored.
const CLOCK_IS_SET: i64 = 1_704_067_200;

impl Recorder {
    /// The handle, and the part to run on a thread of its own. It may be run again after a panic.
    pub fn new(settings: Settings) -> (Recorder, Keeping) {
        let (messages, received) = sync_channel(WAITING);
        let health = Arc::new(Mutex::new(Health::default()));
        let dropped = Arc::new(AtomicU64::new(0));
        let recorder = Recorder { messages, dropped, health: health.clone() };
        let keeping = Keeping {
            settings,
            received,
            health,
            store: None,
            roll_up: RollUp::new(),
            events: VecDeque::new(),
            lost_events: 0,
            write_at: None,
            opened_at: None,
            events_written: None,
            pruned: None,
        };
        (recorder, keeping)
    }

    /// Reports one second of some series, at this time (Unix seconds).
    pub fn samples(&self, unix: i64, samples: Vec<(Series, Sample)>) {
        self.give(Message::Samples(unix, samples));
    }

    /// Reports an event.
    pub fn event(&self, event: Event) {
        self.give(Message::Event(event));
    }

    /// Sums of a series from `from` until before `to` (Unix seconds), at this level, or a coarser
    /// one if it isn't kept.
    ///
    /// # Errors
    /// [`Unanswered`].
    pub fn points(
        &self,
        series: &Series,
        level: Level,
        from: i64,
        to: i64,
    ) -> Result<Points, Unanswered> {
        let series = series.clone();
        self.ask(|answer| Message::Points { series, from, to, level, answer })
    }

    /// The newest events, newest first; only those earlier than `before` (Unix seconds) if it is
    /// given.
    ///
    /// # Errors
    /// [`Unanswered`].
    pub fn events(&self, before: Option<i64>, most: usize) -> Result<Vec<Event>, Unanswered> {
        self.ask(|answer| Message::Events { before, most, answer })
    }

    /// All series that have data.
    ///
    /// # Errors
    /// [`Unanswered`].
    pub fn series(&self) -> Result<Vec<Series>, Unanswered> {
        self.ask(Message::Series)
    }

    /// The state of the recording.
    pub fn health(&self) -> Health {
        let health = self.health.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Health { dropped: health.dropped + self.dropped.load(Ordering::Relaxed), ..health }
    }

    /// Writes outstanding data, waiting only for a moment, and ends the thread.
    pub fn stop(&self) {
        let (done, is_done) = sync_channel(1);
        let give_up = Instant::now() + LAST_WRITING;
        let mut stop = Message::Stop(done);
        loop {
            match self.messages.try_send(stop) {
                Ok(()) => break,
                Err(TrySendError::Disconnected(_)) => return,
                Err(TrySendError::Full(_)) if Instant::now() > give_up => return,
                Err(TrySendError::Full(back)) => stop = back,
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        // If it takes longer, it is as if it had been killed.
        let _ = is_done.recv_timeout(LAST_WRITING);
    }

    fn give(&self, message: Message) {
        if self.messages.try_send(message).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn ask<T>(&self, message: impl FnOnce(Answer<T>) -> Message) -> Result<T, Unanswered> {
        let (answer, answered) = sync_channel(1);
        self.messages.try_send(message(answer)).map_err(|error| match error {
            TrySendError::Full(_) => Unanswered::Busy,
            TrySendError::Disconnected(_) => Unanswered::Ended,
        })?;
        answered.recv_timeout(PATIENCE).map_err(|error| match error {
            RecvTimeoutError::Timeout => Unanswered::Busy,
            RecvTimeoutError::Disconnected => Unanswered::Ended,
        })?
    }
}

/// The thread's state.
#[derive(Debug)]
pub struct Keeping {
    settings: Settings,
    received: Receiver<Message>,
    health: Arc<Mutex<Health>>,
    store: Option<Store>,
    roll_up: RollUp,
    events: VecDeque<Event>,
    lost_events: u64,
    write_at: Option<Instant>,
    /// When opening the file was last tried.
    opened_at: Option<Instant>,
    events_written: Option<Instant>,
    pruned: Option<Instant>,
}

impl std::fmt::Debug for Message {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Message")
    }
}

impl Keeping {
    /// Stores samples and events until it is stopped or every handle is gone.
    pub fn run(&mut self) {
        self.open();
        loop {
            let now = Instant::now();
            let due = *self.write_at.get_or_insert(now + self.settings.write_every);
            if now >= due {
                self.write(Some(now));
                continue;
            }
            match self.received.recv_timeout(due - now) {
                Ok(Message::Stop(done)) => {
                    self.write(None);
                    // The caller may have given up.
                    let _ = done.try_send(());
                    return;
                }
                Ok(message) => self.take(message),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return self.write(None),
            }
        }
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::Samples(unix, _) if unix < CLOCK_IS_SET => {}
            Message::Samples(unix, samples) => {
                for (series, sample) in samples {
                    self.roll_up.add(unix, &series, sample);
                }
            }
            Message::Event(event) => {
                if self.events.len() == MOST_EVENTS {
                    self.events.pop_front();
                    self.lost_events += 1;
                }
                self.events.push_back(event);
                self.write_events_soon();
            }
            Message::Points { series, from, to, level, answer } => {
                reply(&answer, self.points(&series, level, from, to));
            }
            Message::Events { before, most, answer } => {
                reply(&answer, self.known_events(before, most))
            }
            Message::Series(answer) => {
                let mut all = self.roll_up.series();
                all.extend(self.store.iter().flat_map(Store::series));
                all.sort();
                all.dedup();
                reply(&answer, Ok(all));
            }
            Message::Stop(_) => {}
        }
    }

    fn points(
        &self,
        series: &Series,
        level: Level,
        from: i64,
        to: i64,
    ) -> Result<Points, StoreError> {
        if level == Level::Second {
            return Ok(Points { width_s: 1, points: self.roll_up.seconds(series, from, to) });
        }
        // The first sum is the one that contains `from`.
        let from = level.start(from);
        let mut written = match &self.store {
            Some(store) => store.read(series, level, from, to)?,
            None => Vec::new(),
        };
        let mut level = level;
        if written.is_empty()
            && level == Level::TenSeconds
            && let Some(store) = &self.store
        {
            let minutes = store.read(series, Level::Minute, from, to)?;
            // It is one of many series that aren't kept so finely.
            if !minutes.is_empty() {
                (written, level) = (minutes, Level::Minute);
            }
        }
        let mut sums: BTreeMap<i64, Bucket> = written.into_iter().collect();
        for (start, bucket) in self.roll_up.unwritten(series, level, from, to) {
            sums.entry(start).or_default().add(&bucket);
        }
        Ok(Points { width_s: level.width(), points: sums.into_iter().collect() })
    }

    fn known_events(&self, before: Option<i64>, most: usize) -> Result<Vec<Event>, StoreError> {
        let waiting = self.events.iter().rev();
        let waiting = waiting.filter(|event| before.is_none_or(|before| event.unix < before));
        let mut events: Vec<Event> = waiting.take(most).cloned().collect();
        if let Some(store) = &self.store {
            events.extend(store.events(before, most - events.len())?);
        }
        Ok(events)
    }

    /// Rare events are written immediately, frequent ones together.
    fn write_events_soon(&mut self) {
        let now = Instant::now();
        if self.events_written.is_some_and(|written| now - written < BETWEEN_EVENTS) {
            let due = self.events_written.map_or(now, |written| written + BETWEEN_EVENTS);
            self.write_at = Some(self.write_at.map_or(due, |at| at.min(due)));
            return;
        }
        self.events_written = Some(now);
        let Some(store) = &mut self.store else { return };
        let written = store.write(&[], self.events.make_contiguous());
        if written.is_ok() {
            self.events.clear();
        }
        self.settle(written);
    }

    /// Writes what is complete by now, or everything if no more will come.
    fn write(&mut self, now: Option<Instant>) {
        if let Some(now) = now {
            self.write_at = Some(now + self.settings.write_every);
            if self.store.is_none() && self.opened_at.is_none_or(|at| now - at >= RETRY) {
                self.open();
            }
        }
        let Some(store) = &mut self.store else { return self.tell_health() };
        let unix = unix_now();
        let before = if now.is_some() { Level::TenSeconds.start(unix) } else { i64::MAX };
        let rows = self.roll_up.take(before);
        let mut waiting = rows.as_slice();
        // At least once, even without sums, for the events.
        let mut written = loop {
            let batch = &waiting[..waiting.len().min(BATCH)];
            let mut written = store.write(batch, self.events.make_contiguous());
            if written.as_ref().is_err_and(is_full) && store.prune(unix).is_ok() {
                written = store.write(batch, self.events.make_contiguous());
            }
            if written.is_err() {
                self.roll_up.put_back(waiting);
                break written;
            }
            self.events.clear();
            waiting = &waiting[batch.len()..];
            if waiting.is_empty() {
                break written;
            }
        };
        if written.is_ok() {
            self.events_written = now;
            if let Some(now) = now
                && self.pruned.is_none_or(|at| now - at >= PRUNE_EVERY)
            {
                self.pruned = Some(now);
                written = store.prune(unix);
            }
        }
        self.settle(written);
    }

    fn open(&mut self) {
        let file = self.settings.file.clone();
        self.opened_at = Some(Instant::now());
        let opened = match Store::open(&file, self.settings.limit_bytes) {
            Err(error) if error.is_broken() => put_aside(&file)
                .map_err(|error| StoreError::File { file: file.clone(), error })
                .and_then(|aside| {
                    tracing::warn!(
                        "the history in {} was damaged: it is now {}, and a new one begins",
                        file.display(),
                        aside.display()
                    );
                    Store::open(&file, self.settings.limit_bytes)
                }),
            opened => opened,
        };
        let outcome = opened.map(|store| self.store = Some(store));
        self.settle(outcome);
    }

    /// Records the outcome, and logs changes.
    fn settle(&mut self, outcome: Result<(), StoreError>) {
        let trouble = match outcome {
            Ok(()) => None,
            Err(error) => {
                if error.is_broken() {
                    // Opening it will detect the damage and set it aside.
                    self.store = None;
                    self.opened_at = None;
                }
                Some(format!("{}: {error}", self.settings.file.display()))
            }
        };
        let changed = {
            let mut health = self.health.lock().unwrap_or_else(PoisonError::into_inner);
            let changed = health.trouble.is_some() != trouble.is_some();
            health.trouble.clone_from(&trouble);
            changed
        };
        match (changed, trouble) {
            (true, Some(trouble)) => tracing::warn!("can't keep history at the moment: {trouble}"),
            (true, None) => tracing::info!("history is kept again"),
            (false, _) => {}
        }
        self.tell_health();
    }

    fn tell_health(&self) {
        let mut health = self.health.lock().unwrap_or_else(PoisonError::into_inner);
        health.dropped = self.lost_events;
        health.lost = self.roll_up.lost();
        health.written_bytes =
            self.store.as_ref().map_or(health.written_bytes, Store::written_bytes);
    }
}

fn reply<T>(answer: &Answer<T>, result: Result<T, StoreError>) {
    // The caller may have given up.
    let _ = answer.try_send(result.map_err(|error| Unanswered::Failed(error.to_string())));
}

fn is_full(error: &StoreError) -> bool {
    let StoreError::Database(error) = error else { return false };
    error.sqlite_error_code() == Some(rusqlite::ErrorCode::DiskFull)
}

/// Renames a broken file and removes its companions; replaces one set aside earlier.
fn put_aside(file: &Path) -> io::Result<PathBuf> {
    let beside = |ending: &str| {
        let mut name = OsString::from(file);
        name.push(ending);
        PathBuf::from(name)
    };
    let aside = beside(".broken");
    std::fs::rename(file, &aside)?;
    for ending in ["-wal", "-shm"] {
        match std::fs::remove_file(beside(ending)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(aside)
}
