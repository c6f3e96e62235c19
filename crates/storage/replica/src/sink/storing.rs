use super::{Half, Headroom, Lock, Received, StreamSink};
use crate::archive::{Entry, STREAM, ends_of_chains, entries, named};
use crate::chain::{BLOCK, Chain};
use crate::error::Error;
use crate::files::{open_own, read_state, rename_new, write_state};
use crate::shown::shown;
use crate::source::STREAMS;
use crate::stream::{Command, Reader, StreamError};
use crate::subvolume::{self, SendKind};
use crate::watch::Watch;
use crate::wire::{Begin, Block, Connection, Inventory, Message, Present};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// Holds what isn't complete.
const INSIDE: &str = ".braid-archive";
const PART: &str = "part";
const BEGUN: &str = "begun.json";
const VERSION: u32 = 1;

/// A folder that stores streams, locked against others.
struct Destination {
    folder: PathBuf,
    _lock: Lock,
}

/// Stores what the source at the other end of `connection` sends.
///
/// # Errors
/// As of [`sink::serve`].
pub(crate) fn receive_all(
    connection: &mut Connection,
    folder: &Path,
    watch: &Watch,
) -> Result<Received, Error> {
    let inside = folder.join(INSIDE);
    match fs::create_dir(&inside) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(Error::io("making the folder", &inside, error));
        }
        _ => {}
    }
    // A link with this name could lead elsewhere.
    subvolume::open_folder(&inside)?;
    let destination =
        Destination { folder: folder.to_owned(), _lock: Lock::take(&inside.join("lock"))? };
    destination.tidy()?;
    connection.say(Message::Inventory(destination.inventory()?))?;
    super::take_all(connection, watch, |connection, begin| {
        let mut headroom = Headroom::look(folder)?;
        let mut storing = Storing::resume_or_begin(&destination, begin)?;
        super::carry_out(connection, &mut storing, &mut headroom, watch)
    })
}

/// Deletes what was begun in `folder` and not completed; returns what that was.
///
/// # Errors
/// It is being received, or can't be deleted.
pub(crate) fn abandon(folder: &Path) -> Result<Option<Begin>, Error> {
    let inside = folder.join(INSIDE);
    if !inside.is_dir() {
        return Ok(None);
    }
    let destination =
        Destination { folder: folder.to_owned(), _lock: Lock::take(&inside.join("lock"))? };
    destination.tidy()?;
    let begun = destination.begun()?;
    destination.forget()?;
    Ok(begun)
}

/// What is half received in `folder`.
pub(crate) fn half_received(folder: &Path) -> Result<Option<Half>, Error> {
    let inside = folder.join(INSIDE);
    let Some(begin) = begun_in(&inside)? else { return Ok(None) };
    if entries(folder)?.iter().any(|entry| entry.begin == begin) {
        return Ok(None);
    }
    let bytes = fs::metadata(inside.join(PART)).map_or(0, |about| about.len());
    // Half a block at the end is cut off.
    Ok(Some(Half { name: begin.name, bytes: bytes / BLOCK as u64 * BLOCK as u64 }))
}

fn begun_in(inside: &Path) -> Result<Option<Begin>, Error> {
    let path = inside.join(BEGUN);
    read_state(&path, VERSION)?.intact(&path)
}

impl Destination {
    fn part(&self) -> PathBuf {
        self.folder.join(INSIDE).join(PART)
    }

    fn begun_file(&self) -> PathBuf {
        self.folder.join(INSIDE).join(BEGUN)
    }

    fn begun(&self) -> Result<Option<Begin>, Error> {
        begun_in(&self.folder.join(INSIDE))
    }

    /// Finishes what a killed process had almost completed.
    fn tidy(&self) -> Result<(), Error> {
        let Some(begin) = self.begun()? else { return Ok(()) };
        let complete = entries(&self.folder)?.iter().any(|entry| entry.begin == begin);
        if complete { self.forget() } else { Ok(()) }
    }

    fn forget(&self) -> Result<(), Error> {
        for path in [self.begun_file(), self.part()] {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(Error::io("removing", &path, error));
                }
                _ => {}
            }
        }
        let inside = self.folder.join(INSIDE);
        braid_durable::sync_folder(&inside)
            .map_err(|error| Error::io("writing out", &inside, error))
    }

    fn inventory(&self) -> Result<Inventory, Error> {
        let io = |error| Error::io("looking at", &self.folder, error);
        let full = fs::canonicalize(&self.folder).map_err(io)?;
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let there = entries(&self.folder)?;
        let present = there.iter().map(|entry| Present {
            name: entry.begin.name.clone(),
            uuid: entry.uuid(),
            received: Some(entry.uuid()),
        });
        Ok(Inventory {
            place: format!("{}:{}{STREAMS}", host.trim(), full.display()),
            present: present.collect(),
            unfinished: self.begun()?.map(|begin| begin.stream),
            // Nothing is unpacked here; restoring is done by a kernel like the sender's.
            accepts: SendKind { version: 2, compressed: true },
            not_to_build_on: ends_of_chains(&there),
        })
    }
}

/// A stream that is being stored.
struct Storing<'a> {
    destination: &'a Destination,
    begin: Begin,
    file: File,
    blocks: u64,
    bytes: u64,
    chain: Chain,
    hasher: blake3::Hasher,
    reader: Reader,
    ended: bool,
}

impl<'a> Storing<'a> {
    fn resume_or_begin(destination: &'a Destination, begin: Begin) -> Result<Storing<'a>, Error> {
        super::check_plain_name(&begin)?;
        let path = destination.folder.join(named(begin.name.as_name(), STREAM));
        if path.symlink_metadata().is_ok() && destination.begun()?.as_ref() != Some(&begin) {
            return Err(Error::Refused(format!(
                "{} is there already, and is no stream of this snapshot; move it away",
                shown(&path).display()
            )));
        }
        if destination.begun()?.as_ref() != Some(&begin) {
            return Storing::begin_afresh(destination, begin);
        }
        let mut storing = Storing::at_start(destination, begin, false)?;
        match storing.read_again() {
            Ok(()) => Ok(storing),
            // Data that rotted on the disk is sent again.
            Err(Error::Stream(_)) => Storing::begin_afresh(destination, storing.begin),
            Err(error) => Err(error),
        }
    }

    fn begin_afresh(destination: &'a Destination, begin: Begin) -> Result<Storing<'a>, Error> {
        write_state(&destination.begun_file(), VERSION, &begin)?;
        Storing::at_start(destination, begin, true)
    }

    fn at_start(
        destination: &'a Destination,
        begin: Begin,
        empty: bool,
    ) -> Result<Storing<'a>, Error> {
        let path = destination.part();
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(empty);
        let file = open_own(&path, &mut options).map_err(|e| Error::io("opening", &path, e))?;
        Ok(Storing {
            destination,
            begin,
            file,
            blocks: 0,
            bytes: 0,
            chain: Chain::default(),
            hasher: blake3::Hasher::new(),
            reader: Reader::new(),
            ended: false,
        })
    }

    /// Reads what an earlier process wrote; half a block at its end is cut off.
    fn read_again(&mut self) -> Result<(), Error> {
        let io = |error| Error::io("reading", &self.destination.part(), error);
        let whole = self.file.metadata().map_err(io)?.len() / BLOCK as u64;
        self.file.set_len(whole * BLOCK as u64).map_err(io)?;
        for _ in 0..whole {
            let mut bytes = vec![0; BLOCK];
            self.file.read_exact(&mut bytes).map_err(io)?;
            self.note(&bytes, None)?;
        }
        Ok(())
    }

    fn note(&mut self, bytes: &[u8], chain: Option<Chain>) -> Result<(), Error> {
        self.blocks += 1;
        self.bytes += bytes.len() as u64;
        self.chain = chain.unwrap_or_else(|| self.chain.after(bytes));
        self.hasher.update(bytes);
        self.reader.feed(bytes);
        while let Some(command) = self.reader.next_command()? {
            let stream = self.begin.stream;
            match command {
                _ if self.ended => return Err(StreamError::Order.into()),
                Command::End => self.ended = true,
                Command::Subvolume { uuid, .. } if (uuid, None) != (stream.uuid, stream.parent) => {
                    return Err(another());
                }
                Command::Snapshot { uuid, parent, .. }
                    if (uuid, Some(parent)) != (stream.uuid, stream.parent) =>
                {
                    return Err(another());
                }
                _ => {}
            }
        }
        Ok(())
    }
}

fn another() -> Error {
    Error::Remote("the stream is of another snapshot than was said".to_owned())
}

impl StreamSink for Storing<'_> {
    fn has(&self) -> (u64, Chain) {
        (self.blocks, self.chain)
    }

    fn take(&mut self, block: &Block) -> Result<u64, Error> {
        let bytes = &block.bytes;
        if bytes.is_empty() || bytes.len() > BLOCK {
            return Err(Error::Remote(format!("a block of {} bytes came", bytes.len())));
        }
        self.file
            .write_all(bytes)
            .map_err(|e| Error::io("writing", &self.destination.part(), e))?;
        self.note(bytes, block.chain)?;
        Ok(self.blocks)
    }

    fn restart(&mut self) -> Result<(), Error> {
        *self = Storing::begin_afresh(self.destination, self.begin.clone())?;
        Ok(())
    }

    fn finish(&mut self, blocks: u64, chain: [u8; 32]) -> Result<(), Error> {
        if !self.ended {
            return Err(StreamError::Truncated(self.reader.position()).into());
        }
        if (self.blocks, self.chain.bytes()) != (blocks, chain) {
            return Err(Error::Differs("what came is not what was sent".to_owned()));
        }
        let folder = &self.destination.folder;
        let entry = Entry {
            begin: self.begin.clone(),
            bytes: self.bytes,
            blake3: self.hasher.finalize().to_hex().to_string(),
        };
        let path = entry.file(folder);
        let io = |error| Error::io("completing", &path, error);
        self.file.sync_all().map_err(io)?;
        // The name of a stream that was renamed, but whose manifest wasn't written, is free again.
        if path.exists() {
            fs::remove_file(&path).map_err(io)?;
        }
        rename_new(&self.destination.part(), &path)?;
        braid_durable::sync_folder(folder).map_err(io)?;
        entry.save(folder)?;
        self.destination.forget()
    }
}
