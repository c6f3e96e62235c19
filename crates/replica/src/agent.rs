//! The other end of a replication, as a program that somebody at a distance
//! starts: it speaks the protocol on its standard input and output.

use crate::archive;
use crate::clone;
use crate::error::Error;
use crate::exact_path::ExactPath;
use crate::manifest::{self, Manifest};
use crate::register::{Begun, Order, Register};
use crate::sink;
use crate::source::{self, Manner, Watch};
use crate::wire::{Frame, LONGEST, Link, Message, Open, PROTOCOL, Selection, Work, unexpected};
use braid_pool::uuid::Uuid;
use braid_units::Rate;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Whoever connects says at once what is wanted.
const PATIENCE: Duration = Duration::from_secs(30);

/// What an agent may be asked.
#[derive(Clone, Debug)]
pub enum Allowed {
    /// Anything, at any place.
    All,
    /// To receive below this folder, and to tell what is there.
    Into(PathBuf),
    /// To send what is below this folder, and to tell what is there.
    From(PathBuf),
    /// To clone the system that this path is of, and nothing else.
    System(PathBuf),
}

/// Does what the other end asks for; a replication is in `register` meanwhile.
///
/// # Errors
/// It asks for nothing that can be done, or that failed. It was told, too.
pub fn serve(mut link: Link, allowed: &Allowed, register: &Register) -> Result<(), Error> {
    let (work, order) = match link.hear(PATIENCE)? {
        Message::Open(Open { protocol: PROTOCOL, work, order }) => (work, order),
        Message::Open(Open { protocol, .. }) => {
            let error = Error::Refused(format!(
                "one end speaks version {protocol} of the protocol, the other {PROTOCOL}: \
                 install the same braid on both"
            ));
            return refuse(&mut link, error);
        }
        other => return refuse(&mut link, unexpected(&Frame::Message(other))),
    };
    match work {
        Work::Sink { .. } if matches!(allowed, Allowed::From(_) | Allowed::System(_)) => {
            refuse(&mut link, allowed.refusal())
        }
        Work::Sink { folder } => match allowed.place(&folder) {
            Ok(folder) => {
                let begun = Begun::receives(order, &folder);
                remembered(register, begun, |watch| {
                    sink::serve(&mut link, &folder, watch).map(drop)
                })
            }
            Err(error) => refuse(&mut link, error),
        },
        Work::Source { .. } if matches!(allowed, Allowed::Into(_) | Allowed::System(_)) => {
            refuse(&mut link, allowed.refusal())
        }
        Work::Source { selection, limit } => match allowed.place(&selection.path) {
            Ok(path) => {
                let begun = Begun::sends(order, &path);
                let selection = Selection { path: path.into(), ..selection };
                let limit = limit.map(Rate::from_bytes_per_sec);
                remembered(register, begun, |watch| {
                    let manner = Manner { limit, watch: Arc::clone(watch), ..Manner::default() };
                    source::serve(link, &selection, &manner).map(drop)
                })
            }
            Err(error) => refuse(&mut link, error),
        },
        Work::Manifest { folder } => match allowed.place(&folder) {
            Ok(folder) => tell_manifest(&mut link, &folder),
            Err(error) => refuse(&mut link, error),
        },
        Work::Clone(work) => match allowed {
            Allowed::All => clone::serve(link, work, None),
            Allowed::System(path) => clone::serve(link, work, Some(path)),
            _ => refuse(&mut link, allowed.refusal()),
        },
        Work::Stored { folder, read } => match allowed.place(&folder) {
            Ok(folder) => tell_stored(&mut link, &folder, read.as_deref()),
            Err(error) => refuse(&mut link, error),
        },
    }
}

/// Does the work with an entry in the register, if somebody said who wants it.
fn remembered(
    register: &Register,
    begun: Option<Begun>,
    work: impl FnOnce(&Arc<Watch>) -> Result<(), Error>,
) -> Result<(), Error> {
    // To remember it serves only to tell of it.
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

impl Allowed {
    /// The folder that is meant by `asked`.
    fn place(&self, asked: &ExactPath) -> Result<PathBuf, Error> {
        let asked = asked.as_path();
        match self {
            Allowed::All => Ok(asked.to_owned()),
            Allowed::System(_) => Err(self.refusal()),
            Allowed::Into(folder) | Allowed::From(folder) => {
                let inside = asked.strip_prefix("/").unwrap_or(asked);
                let is_plain = |part| matches!(part, std::path::Component::Normal(_));
                match inside.components().all(is_plain) {
                    true => Ok(folder.join(inside)),
                    false => Err(self.refusal()),
                }
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

fn refuse(link: &mut Link, error: Error) -> Result<(), Error> {
    // Who is gone can't be told.
    let _ = link.say(Message::Failed { why: error.to_string(), passing: false });
    Err(error)
}

/// Lines are told in messages of about this size.
const CHUNK: usize = LONGEST / 8;

fn tell_manifest(link: &mut Link, folder: &Path) -> Result<(), Error> {
    let _lives = link.out.ping_while_silent();
    let Manifest { lines, .. } = match manifest::read(folder, threads(), &AtomicU64::new(0)) {
        Ok(manifest) => manifest,
        Err(error) => return refuse(link, error),
    };
    let mut chunk = vec![];
    let mut size = 0;
    for line in lines {
        // A path may take three characters a byte, and a line has up to three.
        size += 400 + 3 * line.path.as_name().len();
        chunk.push(line);
        if size > CHUNK {
            link.say(Message::Lines(std::mem::take(&mut chunk)))?;
            size = 0;
        }
    }
    link.say(Message::Lines(chunk))?;
    link.say(Message::Bye)
}

/// So many streams are told in a message.
const STREAMS: usize = 100;

fn tell_stored(link: &mut Link, folder: &Path, read: Option<&[Uuid]>) -> Result<(), Error> {
    let _lives = link.out.ping_while_silent();
    if archive::is_archive(folder) {
        let stored = match archive::look(folder, read, &AtomicU64::new(0)) {
            Ok(stored) => stored,
            Err(error) => return refuse(link, error),
        };
        for some in stored.chunks(STREAMS) {
            link.say(Message::Stored(some.to_vec()))?;
        }
    }
    link.say(Message::Bye)
}

/// As many as there are processors.
pub(crate) fn threads() -> usize {
    std::thread::available_parallelism().map_or(2, std::num::NonZero::get)
}
