//! The old system, on this computer or on another one, which is reached over a connection like
//! those of replications.

use super::beside::{self};
use super::boot::{self, Identity};
use super::layout::{Layout, Part};
use super::mount::{Beside, TopLevel, is_encrypted, mount_privately};
use super::transfer;
use crate::error::Error;
use crate::exact_path::ExactPath;
use crate::files::{copy, copy_plain, pack, unpack};
use crate::old_system::{Asked, CloneWork, OldSystem};
use crate::replicate::{Connected, Connector, inside_this_process, while_it_gets_on};
use crate::sink;
use crate::source::{self, Report, SendOptions};
use crate::wire::{Block, Connection, Frame, Message, SILENCE, Work, unexpected};
use braid_pool::place::Place;
use braid_units::Rate;
use std::path::Path;
use std::time::Duration;

/// Where the old system is.
pub(super) enum Old<'a> {
    Here(TopLevel),
    There(&'a Place, &'a Connector),
}

impl<'a> Old<'a> {
    pub(super) fn at(place: &'a Place, connector: &'a Connector) -> Result<Old<'a>, Error> {
        match place {
            Place::Local(path) => Ok(Old::Here(TopLevel::mount(path)?)),
            place => Ok(Old::There(place, connector)),
        }
    }

    pub(super) fn look(&self, asked: &Asked) -> Result<OldSystem, Error> {
        let Old::There(place, connector) = self else { return look(self.here()?, asked) };
        let mut system = None;
        ask(place, connector, CloneWork::Look(asked.clone()), |frame| match frame {
            Frame::Message(Message::OldSystem(told)) => {
                system = Some(*told);
                Ok(())
            }
            other => Err(unexpected(&other)),
        })?;
        system.ok_or_else(|| Error::Remote("it told nothing of its system".to_owned()))
    }

    /// Sends the subvolumes to a folder at the new end; returns the bytes of the streams.
    pub(super) fn send(
        &self,
        parts: &[Part],
        into: &Path,
        options: &SendOptions,
        retries: u32,
        broke: &mut dyn FnMut(&Error, Duration),
    ) -> Result<u64, Error> {
        let report = match self {
            Old::Here(from) => {
                let choice = transfer::stage(from, parts)?;
                inside_this_process(into, |connection| {
                    source::serve_chosen(connection, choice, options)
                })?
            }
            Old::There(place, connector) => {
                let work = CloneWork::Send {
                    from: place.path().into(),
                    parts: parts.to_vec(),
                    limit: options.limit.map(Rate::bytes_per_sec),
                };
                let once = || pull(place, connector, work.clone(), into, options);
                while_it_gets_on(retries, &options.watch, false, broke, once)?.0
            }
        };
        Ok(report.snapshots.iter().map(|sent| sent.stream_bytes).sum())
    }

    /// Copies what is in a filesystem of another kind to the new one.
    pub(super) fn copy_beside(&self, path: &Path, new: &Beside) -> Result<(), Error> {
        let Old::There(place, connector) = self else {
            let old = Beside::open(path)?;
            return match new.has_owners() {
                true => copy(old.path(), new.path()),
                false => copy_plain(old.path(), new.path()),
            };
        };
        let work = CloneWork::Files { from: place.path().into(), path: path.into() };
        unpack(new.path(), new.has_owners(), |write| {
            ask(place, connector, work, |frame| match frame {
                Frame::Data(block) => write(&block.bytes),
                other => Err(unexpected(&other)),
            })
        })
    }

    /// Deletes what was staged.
    pub(super) fn clean(&self) -> Result<(), Error> {
        match self {
            Old::Here(from) => transfer::clean(from),
            Old::There(place, connector) => {
                let work = CloneWork::Clean { from: place.path().into() };
                ask(place, connector, work, |frame| Err(unexpected(&frame)))
            }
        }
    }

    fn here(&self) -> Result<&TopLevel, Error> {
        match self {
            Old::Here(top) => Ok(top),
            Old::There(place, _) => Err(Error::Refused(format!("{place} isn't on this computer"))),
        }
    }
}

/// Does what the new end asks for. With `only` it gets the system of that path, and nothing else.
///
/// # Errors
/// What it asks for isn't allowed or possible, or failed. The other end was told, too.
pub(crate) fn serve(
    mut connection: Connection,
    work: CloneWork,
    only: Option<&Path>,
) -> Result<(), Error> {
    let _lives = connection.out.ping_while_silent()?;
    let place = |asked: &ExactPath| only.map_or_else(|| asked.clone(), ExactPath::from);
    let outcome = match work {
        CloneWork::Send { from, parts, limit } => {
            let staged = mount_privately()
                .and_then(|()| TopLevel::mount(place(&from).as_path()))
                .and_then(|from| Ok((transfer::stage(&from, &parts)?, from)));
            match staged {
                Ok((choice, _mounted)) => {
                    let limit = limit.map(Rate::from_bytes_per_sec);
                    let options = SendOptions { limit, ..SendOptions::default() };
                    return source::serve_chosen(connection, choice, &options).map(drop);
                }
                Err(error) => Err(error),
            }
        }
        CloneWork::Look(asked) => {
            let asked = Asked { from: place(&asked.from), ..asked };
            answer(&mut connection, &asked, only.is_some())
        }
        CloneWork::Files { from, path } => {
            send_files(&mut connection, place(&from).as_path(), path.as_path(), only.is_some())
        }
        CloneWork::Clean { from } => mount_privately()
            .and_then(|()| transfer::clean(&TopLevel::mount(place(&from).as_path())?)),
    };
    match outcome {
        Ok(()) => connection.say(Message::Bye),
        Err(error) => {
            // A peer that is gone can't be told.
            let _ = connection.say(Message::Failed { why: error.to_string(), passing: false });
            Err(error)
        }
    }
}

fn answer(connection: &mut Connection, asked: &Asked, is_bound: bool) -> Result<(), Error> {
    mount_privately()?;
    let top = TopLevel::mount(asked.from.as_path())?;
    if is_bound {
        for path in &asked.beside {
            refuse_others(&top, path.as_path())?;
        }
    }
    let system = look(&top, asked)?;
    connection.say(Message::OldSystem(Box::new(system)))
}

fn send_files(
    connection: &mut Connection,
    from: &Path,
    path: &Path,
    is_bound: bool,
) -> Result<(), Error> {
    mount_privately()?;
    if is_bound {
        refuse_others(&TopLevel::mount(from)?, path)?;
    }
    let beside = Beside::open(path)?;
    pack(beside.path(), |bytes| connection.out.send(Frame::Data(Block { bytes, chain: None })))
}

/// A listener opens only filesystems that belong to its system.
fn refuse_others(top: &TopLevel, path: &Path) -> Result<(), Error> {
    let root = Layout::read(top, &[])?.root(top, None)?;
    let known = beside::of_system(&top.path().join(root.as_path()))?;
    match known.iter().any(|one| one.device == path || Path::new(&one.at) == path) {
        true => Ok(()),
        false => Err(Error::Refused(format!(
            "{} takes no part in booting the system that is offered",
            path.display()
        ))),
    }
}

fn look(top: &TopLevel, asked: &Asked) -> Result<OldSystem, Error> {
    let skip: Vec<_> = asked.skip.iter().map(|path| path.as_path().to_owned()).collect();
    let layout = Layout::read(top, &skip)?;
    let root = layout.root(top, asked.root.as_ref().map(ExactPath::as_path))?;
    let system = top.path().join(root.as_path());
    let boot_disk = asked.boot_disk.as_ref().map(ExactPath::as_path);
    let mut identities = vec![];
    for path in &asked.beside {
        identities.push(Identity::of(Beside::open(path.as_path())?.path())?);
    }
    Ok(OldSystem {
        filesystem: top.filesystem,
        partition: Identity::of(&top.device()?)?.partition,
        boot: boot::steps(&system, !asked.beside.is_empty(), boot_disk),
        encrypted: is_encrypted(top.filesystem),
        used_bytes: beside::used_bytes(top.path())?,
        beside: identities,
        found: match asked.find_beside {
            true => beside::of_system(&system)?,
            false => vec![],
        },
        warnings: beside::left_behind(&system, top.filesystem)?,
        default: layout.default_path(),
        parts: layout.parts,
        root,
    })
}

/// Receives the snapshots once.
fn pull(
    place: &Place,
    connector: &Connector,
    work: CloneWork,
    into: &Path,
    options: &SendOptions,
) -> Result<Report, Error> {
    let (mut connection, guard) = open(place, connector, work)?.split();
    let outcome = sink::serve(&mut connection, into, &options.watch);
    drop(connection);
    let received = guard.finish(outcome)?;
    let report = received.report.unwrap_or_default();
    serde_json::from_str(&report).map_err(|error| Error::Remote(error.to_string()))
}

/// Asks, and gives all that is said to `take`.
fn ask(
    place: &Place,
    connector: &Connector,
    work: CloneWork,
    mut take: impl FnMut(Frame) -> Result<(), Error>,
) -> Result<(), Error> {
    let (mut connection, guard) = open(place, connector, work)?.split();
    let mut listen = || loop {
        match connection.incoming.next(SILENCE)? {
            Frame::Message(Message::Bye) => return Ok(()),
            Frame::Ping => {}
            frame => take(frame)?,
        }
    };
    let outcome = listen();
    drop(connection);
    guard.finish(outcome)
}

fn open(place: &Place, connector: &Connector, work: CloneWork) -> Result<Connected, Error> {
    connector.open(place, Work::Clone(work), None)
}
