//! The receiving end of a replication: a folder on btrfs (on another filesystem: [`archive`]).
//!
//! `btrfs receive` can't continue in the middle of a stream, so this applies the stream itself, in
//! a subvolume with a name of its own beside the replicas. Its progress is known at any time (see
//! [`note`]), and every half minute a snapshot of it is made that survives a system crash. Only a
//! complete one gets the snapshot's name.

mod begun;
mod ground;
mod lock;
mod note;
mod receiving;
mod storing;

use crate::chain::{BLOCK, Chain};
use crate::error::Error;
use crate::exact_path::ExactPath;
use crate::folder::snapshots_in;
use crate::subvolume;
use crate::watch::{Happening, Watch};
use crate::wire::{
    Begin, Block, Connection, Frame, Inventory, Message, Present, SILENCE, StreamId,
};
use begun::BegunReplica;
use receiving::{Destination, Receiving};
use std::path::Path;
use std::sync::atomic::Ordering;

pub(crate) use ground::{Headroom, refuse_unmounted};
pub(crate) use lock::Lock;
pub(crate) use receiving::check_plain_name;

/// Inside a process nobody waits for acknowledgements; they only show that the sink is alive.
const ACK_INSIDE: u64 = 64;

/// What was received.
#[derive(Debug, Default)]
pub struct Received {
    /// The names of the replicas that were completed.
    pub names: Vec<ExactPath>,
    /// What the source reported, as JSON.
    pub report: Option<String>,
}

/// Receives into `folder` what the source at the other end of `connection` sends.
///
/// # Errors
/// The folder isn't suitable, another process is receiving there, the connection broke, or a stream
/// can't be applied.
pub fn serve(connection: &mut Connection, folder: &Path, watch: &Watch) -> Result<Received, Error> {
    let _lives = connection.out.ping_while_silent()?;
    let outcome = receive_all(connection, folder, watch).map_err(|error| match error {
        Error::Io { error, .. } if is_full(&error) => ground::full(folder, None),
        error => error,
    });
    if let Err(error) = &outcome {
        let told = Message::Failed { why: error.to_string(), passing: error.is_passing() };
        // A peer that is gone can't be told.
        let _ = connection.say(told);
    }
    outcome
}

/// Whether the system had no room.
pub(crate) fn is_full(error: &std::io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT))
}

fn receive_all(
    connection: &mut Connection,
    folder: &Path,
    watch: &Watch,
) -> Result<Received, Error> {
    ground::prepare(folder)?;
    if !subvolume::is_btrfs(&subvolume::open_folder(folder)?) {
        return storing::receive_all(connection, folder, watch);
    }
    let destination = Destination::enter(folder)?;
    destination.tidy()?;
    connection.say(Message::Inventory(inventory(&destination)?))?;
    take_all(connection, watch, |connection, begin| receive(connection, &destination, begin, watch))
}

/// Receives one snapshot after the other, until the source has no more.
pub(crate) fn take_all(
    connection: &mut Connection,
    watch: &Watch,
    mut receive: impl FnMut(&mut Connection, Begin) -> Result<(), Error>,
) -> Result<Received, Error> {
    let mut received = Received::default();
    loop {
        match connection.hear(SILENCE)? {
            Message::Begin(begin) => {
                let name = begin.name.clone();
                watch.happens(Happening::Begins(&name));
                receive(connection, begin)?;
                watch.done.fetch_add(1, Ordering::Relaxed);
                watch.happens(Happening::Received(&name, watch.position.load(Ordering::Relaxed)));
                received.names.push(name);
            }
            Message::Report(text) => received.report = Some(text),
            Message::Bye => return Ok(received),
            other => {
                return Err(crate::wire::unexpected(&Frame::Message(other)));
            }
        }
    }
}

fn receive(
    connection: &mut Connection,
    destination: &Destination,
    begin: Begin,
    watch: &Watch,
) -> Result<(), Error> {
    let mut headroom = Headroom::look(destination.path())?;
    let mut receiving = Receiving::resume_or_begin(destination, begin)?;
    let outcome = carry_out(connection, &mut receiving, &mut headroom, watch);
    if let Err(error) = &outcome {
        // What has arrived is kept for the next attempt, and made to survive a crash.
        if error.is_passing() {
            receiving.checkpoint()?;
        }
    }
    outcome
}

/// A stream that is being received.
pub(crate) trait StreamSink {
    /// Whole blocks that needn't be sent again, and the chain over them.
    fn has(&self) -> (u64, Chain);
    /// Takes the next block; returns how many have come.
    fn take(&mut self, block: &Block) -> Result<u64, Error>;
    /// Back to the stream's first byte.
    fn restart(&mut self) -> Result<(), Error>;
    /// Everything has arrived.
    fn finish(&mut self, blocks: u64, chain: [u8; 32]) -> Result<(), Error>;
}

/// One stream, from where it is.
pub(crate) fn carry_out(
    connection: &mut Connection,
    receiving: &mut impl StreamSink,
    headroom: &mut Headroom<'_>,
    watch: &Watch,
) -> Result<(), Error> {
    let ready = |receiving: &dyn StreamSink| {
        let (blocks, chain) = receiving.has();
        Message::Ready { blocks, chain: chain.bytes() }
    };
    connection.say(ready(receiving))?;
    loop {
        match connection.incoming.next(SILENCE)? {
            Frame::Data(block) => {
                headroom.use_up(block.bytes.len() as u64)?;
                let blocks = receiving.take(&block)?;
                if !connection.is_inside() || blocks % ACK_INSIDE == 0 {
                    connection.out.send(Frame::Ack(blocks))?;
                }
                watch.moved(block.bytes.len() as u64, blocks * BLOCK as u64);
            }
            Frame::Ping => {}
            Frame::Message(Message::Restart) => {
                receiving.restart()?;
                connection.say(ready(receiving))?;
            }
            Frame::Message(Message::End { blocks, chain }) => {
                receiving.finish(blocks, chain)?;
                return connection.say(Message::Done);
            }
            other => return Err(crate::wire::unexpected(&other)),
        }
    }
}

/// Deletes what was begun in `folder` and not completed; returns what that was.
///
/// # Errors
/// It is being received, or can't be deleted.
pub fn abandon(folder: &Path) -> Result<Option<Begin>, Error> {
    if !subvolume::is_btrfs(&subvolume::open_folder(folder)?) {
        return storing::abandon(folder);
    }
    if !folder.join(begun::FOLDER).is_dir() {
        return Ok(None);
    }
    let destination = Destination::enter(folder)?;
    destination.tidy()?;
    let Some(begun) = BegunReplica::load(folder)? else { return Ok(None) };
    let begin = begun.begin.clone();
    destination.clear(&begun)?;
    Ok(Some(begin))
}

/// The part of a snapshot that has arrived in a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Half {
    /// The snapshot's name.
    pub name: ExactPath,
    /// The byte of its stream at which it can continue.
    pub bytes: u64,
}

/// What is half received in a folder; read only.
///
/// # Errors
/// What was begun in the folder can't be read.
pub fn half_received(folder: &Path) -> Result<Option<Half>, Error> {
    let Ok(opened) = subvolume::open_folder(folder) else { return Ok(None) };
    if !subvolume::is_btrfs(&opened) {
        return storing::half_received(folder);
    }
    let Some(begun) = BegunReplica::load(folder)? else { return Ok(None) };
    let bytes = receiving::reached(folder, &opened, &begun);
    let Begin { name, stream, .. } = begun.begin;
    let is_complete = subvolume::open(&folder.join(name.as_path()))
        .is_ok_and(|(_, about)| about.read_only && about.received_uuid == Some(stream.uuid));
    Ok((!is_complete).then_some(Half { name, bytes }))
}

/// The stream that is unfinished in a folder, if there is one.
///
/// # Errors
/// What was begun can't be read.
pub(crate) fn begun(folder: &Path) -> Result<Option<StreamId>, Error> {
    Ok(BegunReplica::load(folder)?.map(|begun| begun.begin.stream))
}

fn inventory(destination: &Destination) -> Result<Inventory, Error> {
    let present = snapshots_in(destination.path())?
        .into_iter()
        .map(|(name, about)| Present {
            name: name.into(),
            uuid: about.uuid,
            received: about.received_uuid,
        })
        .collect();
    let unfinished = BegunReplica::load(destination.path())?.map(|begun| begun.begin.stream);
    Ok(Inventory {
        place: destination.place()?,
        present,
        unfinished,
        accepts: destination.accepts(),
        not_to_build_on: vec![],
    })
}
