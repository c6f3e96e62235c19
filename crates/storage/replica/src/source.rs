//! The sending end of a replication.

mod choose;
mod conversation;
mod kernel;
mod records;
mod stream;
mod throttle;

pub use crate::folder::Snapshot;
pub use crate::watch::{Happening, Listener, Sent, Watch};
pub use choose::{Choice, chosen, series_of};
pub(crate) use choose::{all, named, stored};
pub(crate) use kernel::StreamOf;
pub(crate) use records::STREAMS;
pub use records::{Replica, Replicas};

use crate::error::Error;
use crate::subvolume;
use crate::wire::{Begin, Connection, Inventory, Message, SILENCE, Selection, StreamId};
use braid_pool::place::Place;
use braid_units::Rate;
use choose::parent_for;
use serde::{Deserialize, Serialize};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

/// How to send.
#[derive(Clone, Default)]
pub struct SendOptions {
    /// Maximum rate.
    pub limit: Option<Rate>,
    /// Whether to estimate each stream's length first.
    pub estimate: bool,
    /// To a temporary place: nothing is recorded about it.
    pub passing: bool,
    /// Receives the progress.
    pub watch: Arc<Watch>,
}

/// What was sent.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Report {
    /// Host, folder and filesystem where the replicas are.
    pub place: String,
    /// One for each snapshot that was completed, in order.
    pub snapshots: Vec<Sent>,
    /// How many were there already.
    pub already_there: usize,
}

/// Sends the selected snapshots that the sink at the other end of `connection` doesn't have yet,
/// oldest first, each as a difference from one it has.
///
/// # Errors
/// No snapshot is selected, the sink refuses, or the connection broke.
pub fn serve(
    connection: Connection,
    selection: &Selection,
    options: &SendOptions,
) -> Result<Report, Error> {
    serve_choosing(connection, options, selection.anew, || chosen(selection))
}

/// As [`serve`], with snapshots that are chosen already.
///
/// # Errors
/// As of [`serve`].
pub fn serve_chosen(
    connection: Connection,
    choice: Choice,
    options: &SendOptions,
) -> Result<Report, Error> {
    serve_choosing(connection, options, false, || Ok(choice))
}

/// As [`serve`], with what `choose` says.
pub(crate) fn serve_choosing(
    mut connection: Connection,
    options: &SendOptions,
    anew: bool,
    choose: impl FnOnce() -> Result<Choice, Error>,
) -> Result<Report, Error> {
    let _lives = connection.out.ping_while_silent()?;
    let outcome = send_all(&mut connection, choose, options, anew);
    match &outcome {
        Ok(report) => {
            let text = serde_json::to_string(report).unwrap_or_default();
            connection.say(Message::Report(text))?;
            connection.say(Message::Bye)?;
        }
        Err(error) => {
            let told = Message::Failed { why: error.to_string(), passing: error.is_passing() };
            // A peer that is gone can't be told.
            let _ = connection.say(told);
        }
    }
    outcome
}

/// Whether snapshots of a folder were ever replicated, as far as its records say.
pub(crate) fn has_replicas(from: &Path) -> bool {
    records_of(from).is_ok_and(|(_, records)| records.has_some())
}

/// Forgets that something is being sent from here to there.
///
/// # Errors
/// The records can't be read or written.
pub fn forget_sending(from: &Path, to: &Place) -> Result<(), Error> {
    let (folder, mut records) = records_of(from)?;
    records.forget_sending(to);
    records.save(folder)
}

/// For a folder of snapshots, or the one that a snapshot is in.
fn records_of(from: &Path) -> Result<(&Path, Replicas), Error> {
    let folder = match subvolume::open(from) {
        Ok((_, about)) if about.read_only => from.parent().unwrap_or(from),
        _ => from,
    };
    Ok((folder, Replicas::load(folder)?))
}

fn send_all(
    connection: &mut Connection,
    choose: impl FnOnce() -> Result<Choice, Error>,
    options: &SendOptions,
    anew: bool,
) -> Result<Report, Error> {
    let mut inventory = match connection.hear(SILENCE)? {
        Message::Inventory(inventory) => inventory,
        other => return Err(crate::wire::unexpected(&crate::wire::Frame::Message(other))),
    };
    let choice = choose()?;
    let mut records = match options.passing {
        true => Replicas::default(),
        false => Replicas::load(&choice.folder)?,
    };
    let has_some = || {
        let mut nearby = choice.nearby.iter();
        nearby.any(|one| inventory.present.iter().any(|there| there.is_known_as(one.uuid())))
    };
    if let Some(lost) = records.lost(&inventory).filter(|_| !anew && !has_some()) {
        return Err(Error::Refused(format!(
            "{} had replicas of these snapshots ({lost} was the newest) and has none any more. Is what belongs there \
             mounted? If all shall be sent anew, add --anew",
            inventory.place
        )));
    }
    let save = |records: &mut Replicas| match options.passing {
        true => Ok(()),
        false => records.save(&choice.folder),
    };
    let mut report = Report { place: inventory.place.clone(), ..Report::default() };
    let mut wanted = vec![];
    for snapshot in choice.wanted {
        if inventory.present.iter().any(|there| there.is_known_as(snapshot.uuid())) {
            records.common(&inventory.place, &snapshot);
            report.already_there += 1;
        } else {
            wanted.push(snapshot);
        }
    }
    // What was begun comes first, so that none of it is lost.
    let begun = inventory.unfinished.map(|unfinished| unfinished.uuid);
    wanted.sort_by_key(|snapshot| Some(snapshot.uuid()) != begun);
    options.watch.expect(wanted.len());
    for snapshot in wanted {
        let begin = plan(&snapshot, &choice.nearby, &inventory)?;
        let parent = begin
            .stream
            .parent
            .and_then(|uuid| choice.nearby.iter().find(|other| other.uuid() == uuid));
        options.watch.happens(Happening::Begins(&begin.name));
        let sent = stream::send(connection, &begin, &snapshot, parent, options);
        let record = records.sent(&inventory.place, begin.stream, sent.bytes);
        let (tries, sent_bytes) = (record.tries, record.bytes);
        let done = match sent.outcome {
            Ok(done) => done,
            Err(error) => {
                save(&mut records)?;
                return Err(error);
            }
        };
        records.common(&inventory.place, &snapshot);
        save(&mut records)?;
        inventory.unfinished = None;
        inventory.present.push(crate::wire::Present {
            name: snapshot.name.clone().into(),
            uuid: snapshot.uuid(),
            received: Some(snapshot.uuid()),
        });
        let sent = Sent {
            name: snapshot.name.clone().into(),
            parent: parent.map(|parent| parent.name.clone().into()),
            stream_bytes: done.stream_bytes,
            sent_bytes,
            tries,
            resumed_at: done.resumed_at,
            protocol: begin.stream.kind.version,
            compressed: begin.stream.kind.compressed,
            seconds: done.took.as_secs_f64(),
        };
        options.watch.completed(sent.clone());
        report.snapshots.push(sent);
    }
    save(&mut records)?;
    Ok(report)
}

/// How a snapshot is sent: as it was begun, if that can be continued.
fn plan(snapshot: &Snapshot, nearby: &[Snapshot], inventory: &Inventory) -> Result<Begin, Error> {
    if let Some(entry) = &snapshot.stored {
        return Ok(entry.begin.clone());
    }
    let about = fs::metadata(&snapshot.path)
        .map_err(|error| Error::io("looking at", &snapshot.path, error))?;
    let there = |other: &Snapshot| {
        inventory.present.iter().any(|present| present.is_known_as(other.uuid()))
    };
    let best = subvolume::best_kind();
    let kind = crate::subvolume::SendKind {
        version: best.version.min(inventory.accepts.version).max(1),
        compressed: best.compressed && inventory.accepts.compressed,
    };
    let afresh = || StreamId {
        uuid: snapshot.uuid(),
        parent: parent_for(snapshot, nearby, there)
            .map(Snapshot::uuid)
            .filter(|parent| !inventory.not_to_build_on.contains(parent)),
        kind,
    };
    let can_go_on = |begun: &StreamId| {
        let parent_is_here = |uuid| nearby.iter().any(|other| other.uuid() == uuid && there(other));
        begun.uuid == snapshot.uuid()
            && begun.parent.is_none_or(parent_is_here)
            && begun.kind.version <= best.version
            && (!begun.kind.compressed || kind.compressed)
    };
    Ok(Begin {
        name: snapshot.name.clone().into(),
        stream: inventory.unfinished.filter(can_go_on).unwrap_or_else(afresh),
        transaction: snapshot.about.changed_in,
        modified: (about.mtime(), about.mtime_nsec()),
    })
}
