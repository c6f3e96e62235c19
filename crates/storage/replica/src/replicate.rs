//! A replication from start to end, however often the connection breaks in between.

mod connect;
mod shell;

pub use braid_pool::place::{Place, PlaceError};
pub use connect::{Connected, Connector};

use crate::error::Error;
use crate::exact_path::ExactPath;
use crate::register::{Begun, Entry, Order, Register};
use crate::sink;
use crate::source::{self, Report, SendOptions, Watch};
use crate::wire::{Connection, Selection, Work};
use serde::Serialize;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

/// What is replicated from where to where.
pub struct Replication {
    /// Where the snapshots are.
    pub from: Place,
    /// Where the replicas should be.
    pub to: Place,
    /// Only the newest of each subvolume.
    pub newest: bool,
    /// Even to a place that had replicas of these snapshots but has none any more.
    pub anew: bool,
    /// How often in a row a broken connection is re-established without progress.
    pub retries: u32,
    /// How the other computer is reached.
    pub connector: Connector,
    /// Rate limit, and who watches.
    pub options: SendOptions,
    /// The order as the other end records it.
    pub order: Order,
    /// Where this end records it.
    pub register: Register,
}

/// The result of a replication.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// What was sent.
    #[serde(flatten)]
    pub report: Report,
    /// How often the connection broke.
    pub reconnects: u32,
}

/// First and longest pause before reconnecting.
const PAUSE: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));

impl Replication {
    /// Does it; `broke` is called for each broken connection before reconnecting.
    ///
    /// # Errors
    /// Both ends are remote; as of [`source::serve`] and [`sink::serve`].
    pub fn run(&self, mut broke: impl FnMut(&Error, Duration)) -> Result<Outcome, Error> {
        let watch = &self.options.watch;
        // If it can't be recorded it is done all the same: the entry only serves to report it.
        let entry = self.register.begin(&self.begun()).ok();
        let is_known = self.is_known() || entry.as_ref().is_some_and(Entry::was_there);
        let once = || self.once();
        let outcome = while_it_gets_on(self.retries, watch, is_known, &mut broke, once);
        let (mut report, reconnects) = match outcome {
            Ok(done) => {
                entry.map_or(Ok(()), Entry::end)?;
                done
            }
            Err(error) => {
                let something = watch.moved.load(Ordering::Relaxed) > 0;
                // The failure itself is what gets reported.
                let _ = entry.map(|entry| entry.stop(something));
                return Err(error);
            }
        };
        let completed = watch.sent();
        if !completed.is_empty() {
            // Some of them in attempts whose connection broke later.
            report.snapshots = completed;
        }
        Ok(Outcome { report, reconnects })
    }

    /// Whether this was replicated before: then the other end's name is right.
    fn is_known(&self) -> bool {
        match (&self.from, &self.to) {
            (Place::Local(from), _) => source::has_replicas(from),
            (_, Place::Local(to)) => {
                std::fs::read_dir(to).is_ok_and(|mut entries| entries.next().is_some())
            }
            _ => false,
        }
    }

    fn begun(&self) -> Begun {
        let here = |place: &Place| match place {
            Place::Local(path) => Some(ExactPath::from(path.as_path())),
            _ => None,
        };
        Begun {
            order: self.order.clone(),
            elsewhere: false,
            sends: here(&self.from),
            receives: here(&self.to),
        }
    }

    fn once(&self) -> Result<Report, Error> {
        match (&self.from, &self.to) {
            (Place::Local(from), Place::Local(to)) => self.inside(from, to),
            (Place::Local(from), to) => self.push(from, to),
            (from, Place::Local(to)) => self.pull(from, to),
            _ => Err(Error::Refused(
                "one of the two must be on this computer; run braid on one of them".to_owned(),
            )),
        }
    }

    fn selection(&self, path: &Path) -> Selection {
        Selection { path: ExactPath::from(path), newest: self.newest, anew: self.anew }
    }

    fn inside(&self, from: &Path, to: &Path) -> Result<Report, Error> {
        inside_this_process(to, |connection| {
            source::serve(connection, &self.selection(from), &self.options)
        })
    }

    fn push(&self, from: &Path, to: &Place) -> Result<Report, Error> {
        let folder = ExactPath::from(to.path());
        let connected = self.open(to, Work::Sink { folder })?;
        let (connection, guard) = connected.split();
        let outcome = source::serve(connection, &self.selection(from), &self.options);
        guard.finish(outcome)
    }

    fn pull(&self, from: &Place, to: &Path) -> Result<Report, Error> {
        let selection = self.selection(from.path());
        let limit = self.options.limit.map(braid_units::Rate::bytes_per_sec);
        let connected = self.open(from, Work::Source { selection, limit })?;
        let (mut connection, guard) = connected.split();
        let outcome = sink::serve(&mut connection, to, &self.options.watch);
        drop(connection);
        let received = guard.finish(outcome)?;
        let report = received.report.unwrap_or_default();
        serde_json::from_str(&report).map_err(|error| Error::Remote(error.to_string()))
    }

    fn open(&self, place: &Place, work: Work) -> Result<Connected, Error> {
        self.connector.open(place, work, Some(self.order.clone()))
    }
}

/// Retries as long as the connection breaks, but not more than `retries` times in a row without
/// progress. A name without an address counts as mistyped unless it `is_known` from before; `broke`
/// is called before each retry. Returns the number of reconnects.
pub(crate) fn while_it_gets_on<T>(
    retries: u32,
    watch: &Watch,
    is_known: bool,
    broke: &mut dyn FnMut(&Error, Duration),
    mut once: impl FnMut() -> Result<T, Error>,
) -> Result<(T, u32), Error> {
    let (mut reconnects, mut in_vain) = (0, 0);
    let mut pause = PAUSE.0;
    loop {
        let before = watch.moved.load(Ordering::Relaxed);
        match once() {
            Ok(done) => return Ok((done, reconnects)),
            Err(Error::Nameless(why)) if !is_known && before == 0 => {
                return Err(Error::Refused(format!("{why}; is its name right?")));
            }
            Err(error) if error.is_passing() => {
                let got_on = watch.moved.load(Ordering::Relaxed) != before;
                (in_vain, pause) = if got_on { (0, PAUSE.0) } else { (in_vain + 1, pause) };
                if in_vain > retries || retries == 0 {
                    return Err(error);
                }
                reconnects += 1;
                broke(&error, pause);
                thread::sleep(pause);
                pause = (pause * 2).min(PAUSE.1);
            }
            Err(error) => return Err(error),
        }
    }
}

/// A sink for `to` in one thread, and what `send` does in this one.
pub(crate) fn inside_this_process(
    to: &Path,
    send: impl FnOnce(Connection) -> Result<Report, Error>,
) -> Result<Report, Error> {
    let (ours, mut theirs) = Connection::pair();
    thread::scope(|scope| {
        let sink = scope.spawn(move || {
            let outcome = sink::serve(&mut theirs, to, &Watch::default());
            drop(theirs);
            outcome
        });
        let sent = send(ours);
        let died = |_| Err(Error::Refused("the receiving thread died".to_owned()));
        match (sent, sink.join().unwrap_or_else(died)) {
            // What one thread reports about the other is never the actual reason.
            (Err(Error::Connection(_) | Error::Remote(_)), Err(reason)) => Err(reason),
            (sent, _) => sent,
        }
    })
}
