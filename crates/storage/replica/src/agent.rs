//! The other end of a replication, as a program started remotely: it speaks the protocol on its
//! standard input and output.

use crate::archive;
use crate::beneath::{self, Held, Meant};
use crate::clone;
use crate::error::Error;
use crate::exact_path::ExactPath;
use crate::manifest::{self, Manifest, threads};
use crate::register::{Begun, Order, Register};
use crate::shown::shown;
use crate::sink;
use crate::source::{self, SendOptions, Watch};
use crate::verify;
use crate::wire::{
    Connection, Frame, LONGEST, Message, Open, PROTOCOL, Selection, Work, unexpected,
};
use braid_pool::uuid::Uuid;
use braid_units::Rate;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A peer that connects says at once what it wants.
const PATIENCE: Duration = Duration::from_secs(30);

/// What an agent may be asked.
#[derive(Clone, Debug)]
pub enum Allowed {
    /// Anything, at any place.
    All,
    /// To receive below this folder, and to list what is there.
    Into(PathBuf),
    /// To send what is below this folder, and to list what is there.
    From(PathBuf),
    /// To clone the system that this path belongs to, and nothing else.
    System(PathBuf),
}

/// Does what the other end asks for; a replication is in `register` meanwhile.
///
/// # Errors
/// What it asks for isn't allowed or possible, or failed. The other end was told, too.
pub fn serve(
    mut connection: Connection,
    allowed: &Allowed,
    register: &Register,
) -> Result<(), Error> {
    let (work, order) = match connection.hear(PATIENCE)? {
        Message::Open(Open { protocol: PROTOCOL, work, order }) => (work, order),
        Message::Open(Open { protocol, .. }) => {
            let error = Error::Refused(format!(
                "one end speaks version {protocol} of the protocol, the other {PROTOCOL}: \
                 install the same braid on both"
            ));
            return refuse(&mut connection, error);
        }
        other => return refuse(&mut connection, unexpected(&Frame::Message(other))),
    };
    match work {
        Work::Sink { .. } if matches!(allowed, Allowed::From(_) | Allowed::System(_)) => {
            refuse(&mut connection, allowed.refusal())
        }
        Work::Sink { folder } => match allowed.to_receive(&folder) {
            Ok(place) => {
                let begun = Begun::receives(order, &shown(&place.path));
                remembered(register, begun, |watch| {
                    sink::serve(&mut connection, &place.path, watch).map(drop)
                })
            }
            Err(error) => refuse(&mut connection, error),
        },
        Work::Source { .. } if matches!(allowed, Allowed::Into(_) | Allowed::System(_)) => {
            refuse(&mut connection, allowed.refusal())
        }
        Work::Source { selection, limit } => match allowed.to_send(&selection.path) {
            Ok(place) => {
                let named = place.name.as_ref().map_or(place.path.clone(), |n| place.path.join(n));
                let begun = Begun::sends(order, &shown(&named));
                let limit = limit.map(Rate::from_bytes_per_sec);
                remembered(register, begun, |watch| {
                    let options =
                        SendOptions { limit, watch: Arc::clone(watch), ..SendOptions::default() };
                    let choose = || match &place.name {
                        Some(name) => source::named(&place.path, name),
                        None if place.held.is_some() => source::all(&place.path, selection.newest),
                        None => source::chosen(&Selection {
                            path: place.path.as_path().into(),
                            ..selection
                        }),
                    };
                    source::serve_choosing(connection, &options, selection.anew, choose).map(drop)
                })
            }
            Err(error) => refuse(&mut connection, error),
        },
        Work::Manifest { folder } => match allowed.to_read(&folder) {
            Ok(place) => tell_manifest(&mut connection, &place.path),
            Err(error) => refuse(&mut connection, error),
        },
        Work::Clone(work) => match allowed {
            Allowed::All => clone::serve(connection, work, None),
            Allowed::System(path) => clone::serve(connection, work, Some(path)),
            _ => refuse(&mut connection, allowed.refusal()),
        },
        Work::Stored { folder, read } => match allowed.to_look(&folder) {
            Ok(place) => tell_stored(&mut connection, &place.path, read.as_deref()),
            Err(error) => refuse(&mut connection, error),
        },
    }
}

/// Does the work with an entry in the register, if it is known who wants it.
fn remembered(
    register: &Register,
    begun: Option<Begun>,
    work: impl FnOnce(&Arc<Watch>) -> Result<(), Error>,
) -> Result<(), Error> {
    // The record only serves to report it.
    let entry = begun.and_then(|begun| register.begin(&begun).ok());
    let watch = Arc::new(Watch::default());
    let outcome = work(&watch);
    let Some(entry) = entry else { return outcome };
    match outcome {
        Ok(()) => entry.end(),
        Err(error) => {
            let _ = entry.stop(watch.moved.load(Ordering::Relaxed) > 0);
            Err(error)
        }
    }
}

impl Begun {
    fn receives(order: Option<Order>, folder: &Path) -> Option<Begun> {
        let receives = Some(ExactPath::from(folder));
        order.map(|order| Begun { order, elsewhere: true, sends: None, receives })
    }

    fn sends(order: Option<Order>, folder: &Path) -> Option<Begun> {
        let sends = Some(ExactPath::from(folder));
        order.map(|order| Begun { order, elsewhere: true, sends, receives: None })
    }
}

/// The other end's path, resolved to one to work with.
struct ResolvedPath {
    path: PathBuf,
    /// The name of what is meant in it.
    name: Option<OsString>,
    /// Keeps the path valid; `None` if the path may be resolved again.
    held: Option<Held>,
}

impl ResolvedPath {
    fn of(path: &Path) -> ResolvedPath {
        ResolvedPath { path: path.to_owned(), name: None, held: None }
    }

    fn holding(held: Held, name: Option<OsString>) -> ResolvedPath {
        ResolvedPath { path: held.path(), name, held: Some(held) }
    }
}

impl Allowed {
    /// A folder for replicas, which is made if only its last part is lacking. Not inside something
    /// received, whose contents the other end made.
    fn to_receive(&self, asked: &ExactPath) -> Result<ResolvedPath, Error> {
        match self.find(asked)? {
            (top, Meant::Top) => Ok(ResolvedPath::of(top)),
            (_, Meant::Folder(held)) if !held.in_snapshot => Ok(ResolvedPath::holding(held, None)),
            (_, Meant::Inside(held, name)) if !held.in_snapshot => {
                let made = held.make(&name)?;
                match made.in_snapshot {
                    true => Err(is_snapshot(asked)),
                    false => Ok(ResolvedPath::holding(made, None)),
                }
            }
            _ => Err(is_snapshot(asked)),
        }
    }

    /// Snapshots, or one; not what looks like snapshots inside of one.
    fn to_send(&self, asked: &ExactPath) -> Result<ResolvedPath, Error> {
        match self.find(asked)? {
            (top, Meant::Top) => Ok(ResolvedPath::of(top)),
            (_, Meant::Folder(held)) if !held.in_snapshot => Ok(ResolvedPath::holding(held, None)),
            (_, Meant::Inside(held, name)) if !held.in_snapshot => {
                Ok(ResolvedPath::holding(held, Some(name)))
            }
            _ => Err(is_snapshot(asked)),
        }
    }

    /// A folder with stored streams.
    fn to_look(&self, asked: &ExactPath) -> Result<ResolvedPath, Error> {
        match self.find(asked)? {
            (top, Meant::Top) => Ok(ResolvedPath::of(top)),
            (_, Meant::Folder(held)) if !held.in_snapshot => Ok(ResolvedPath::holding(held, None)),
            _ => Err(is_snapshot(asked)),
        }
    }

    /// Any folder, also in a snapshot.
    fn to_read(&self, asked: &ExactPath) -> Result<ResolvedPath, Error> {
        match self.find(asked)? {
            (top, Meant::Top) => Ok(ResolvedPath::of(top)),
            (_, Meant::Folder(held)) => Ok(ResolvedPath::holding(held, None)),
            (_, Meant::Inside(held, name)) => {
                let inside = held.enter(&name);
                let inside = inside.map_err(|e| Error::io("opening", asked.as_path(), e))?;
                Ok(ResolvedPath::holding(inside, None))
            }
        }
    }

    /// What is asked for, and the folder that it is below.
    fn find<'a>(&'a self, asked: &'a ExactPath) -> Result<(&'a Path, Meant), Error> {
        match self {
            Allowed::All => Ok((asked.as_path(), Meant::Top)),
            Allowed::System(_) => Err(self.refusal()),
            Allowed::Into(top) | Allowed::From(top) => {
                Ok((top, beneath::find(top, asked.as_path())?))
            }
        }
    }

    fn refusal(&self) -> Error {
        let text = match self {
            Allowed::From(_) => "this listener only sends what is in its folder",
            Allowed::System(_) => "this listener only offers its system to be cloned",
            _ => "this listener only takes replicas into its folder",
        };
        Error::Refused(text.to_owned())
    }
}

fn is_snapshot(asked: &ExactPath) -> Error {
    Error::Refused(format!(
        "{} is a snapshot or in one, and that is no folder of replicas or snapshots",
        asked.as_path().display()
    ))
}

fn refuse(connection: &mut Connection, error: Error) -> Result<(), Error> {
    // A peer that is gone can't be told.
    let _ = connection.say(Message::Failed { why: error.to_string(), passing: false });
    Err(error)
}

/// Lines are sent in messages of about this size.
const CHUNK: usize = LONGEST / 8;

fn tell_manifest(connection: &mut Connection, folder: &Path) -> Result<(), Error> {
    let _lives = connection.out.ping_while_silent()?;
    let Manifest { lines, .. } = match manifest::read(folder, threads(), &AtomicU64::new(0)) {
        Ok(manifest) => manifest,
        Err(error) => return refuse(connection, error),
    };
    let mut chunk = vec![];
    let mut size = 0;
    for line in lines {
        // A path may take three characters per byte, and a line has up to three paths.
        size += 400 + 3 * line.path.as_name().len();
        chunk.push(line);
        if size > CHUNK {
            connection.say(Message::Lines(std::mem::take(&mut chunk)))?;
            size = 0;
        }
    }
    connection.say(Message::Lines(chunk))?;
    connection.say(Message::Bye)
}

/// Number of streams per message.
const STREAMS: usize = 100;

fn tell_stored(
    connection: &mut Connection,
    folder: &Path,
    read: Option<&[Uuid]>,
) -> Result<(), Error> {
    let _lives = connection.out.ping_while_silent()?;
    if archive::is_archive(folder) {
        let stored = match verify::look(folder, read, &AtomicU64::new(0)) {
            Ok(stored) => stored,
            Err(error) => return refuse(connection, error),
        };
        for some in stored.chunks(STREAMS) {
            connection.say(Message::Stored(some.to_vec()))?;
        }
    }
    connection.say(Message::Bye)
}
