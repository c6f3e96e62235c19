use super::StreamSink;
use super::begun::{BegunReplica, Checkpoint, FOLDER};
use super::lock::Lock;
use super::note::{Circumstances, Note, Progress};
use crate::beneath::OWN;
use crate::chain::{BLOCK, Chain};
use crate::error::Error;
use crate::files::rename_new;
use crate::folder::{WORK, snapshots_in};
use crate::shown::shown;
use crate::stream::{Applier, CloneSources, Command, Reader, StreamError};
use crate::subvolume::{self, SendKind, Subvolume};
use crate::wire::{Begin, Block, StreamId};
use rustix::fs::{Timespec, Timestamps};
use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A folder that receives, locked against others.
pub struct Destination {
    path: PathBuf,
    folder: File,
    inside: File,
    _lock: Lock,
}

/// A replica that is being made.
pub struct Receiving<'a> {
    destination: &'a Destination,
    begun: BegunReplica,
    applier: Applier,
    note: Note,
    reader: Reader,
    progress: Progress,
    /// Blocks received, and the chain over them.
    blocks: u64,
    chain: Chain,
    /// The chains at the ends of blocks beyond `progress`.
    ahead: VecDeque<Chain>,
    /// Bytes of the next block that were already applied.
    skip: usize,
    checked_at: Instant,
    ended: bool,
}

/// The most work that a system crash costs.
const CHECKPOINT_EVERY: Duration = Duration::from_secs(30);
/// Its presence means that this filesystem can't take compressed data as it is.
const PLAIN_ONLY: &str = "plain-only";

impl Destination {
    /// Locks the folder.
    pub fn enter(path: &Path) -> Result<Destination, Error> {
        let folder = subvolume::open_folder(path)?;
        if !subvolume::is_btrfs(&folder) {
            return Err(Error::Refused(format!(
                "{} is not on btrfs, so it can't hold replicas of btrfs snapshots",
                shown(path).display()
            )));
        }
        let inside = path.join(FOLDER);
        match fs::DirBuilder::new().mode(0o700).create(&inside) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(Error::io("making the folder", &inside, error));
            }
            _ => {}
        }
        let opened = subvolume::open_folder(&inside)?;
        let lock = Lock::take(&inside.join("lock"))?;
        Ok(Destination { path: path.to_owned(), folder, inside: opened, _lock: lock })
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The name by which a source remembers this destination.
    pub fn place(&self) -> Result<String, Error> {
        let io = |error| Error::io("looking at", &self.path, error);
        let full = fs::canonicalize(&self.path).map_err(io)?;
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let filesystem = subvolume::filesystem(&self.folder).map_err(io)?;
        Ok(format!("{}:{} on {filesystem}", host.trim(), full.display()))
    }

    /// The best kind of stream that can be applied here.
    pub fn accepts(&self) -> SendKind {
        let best = subvolume::best_kind();
        let plain_only = self.path.join(FOLDER).join(PLAIN_ONLY).exists();
        SendKind { compressed: best.compressed && !plain_only, ..best }
    }

    /// Finishes what a killed process had almost completed.
    pub fn tidy(&self) -> Result<(), Error> {
        let Some(begun) = BegunReplica::load(&self.path)? else {
            return self.delete_checkpoints(None);
        };
        self.delete_checkpoints(begun.checkpoint.as_ref().map(|checkpoint| checkpoint.number))?;
        let uuid = begun.begin.stream.uuid;
        if self.is_complete(begun.begin.name.as_name(), uuid) {
            return self.forget();
        }
        if let Some((root, about)) = self.subvolume(OsStr::new(WORK))
            && about.received_uuid == Some(uuid)
        {
            self.give_name(&root, &begun)?;
        }
        Ok(())
    }

    /// Deletes an unfinished replica, and nothing that it didn't make.
    pub fn clear(&self, begun: &BegunReplica) -> Result<(), Error> {
        self.delete_work(begun.work)?;
        self.forget()
    }

    fn subvolume(&self, name: &OsStr) -> Option<(File, Subvolume)> {
        subvolume::open(&self.path.join(name)).ok()
    }

    fn is_complete(&self, name: &OsStr, uuid: braid_pool::uuid::Uuid) -> bool {
        let found = self.subvolume(name);
        found.is_some_and(|(_, about)| about.read_only && about.received_uuid == Some(uuid))
    }

    /// With `made` the subvolume must be that one. Without, the file was
    /// written just before one was made under the reserved name.
    fn delete_work(&self, made: Option<braid_pool::uuid::Uuid>) -> Result<(), Error> {
        let Some((_, about)) = self.subvolume(OsStr::new(WORK)) else { return Ok(()) };
        if about.read_only || made.is_some_and(|uuid| uuid != about.uuid) {
            return Err(Error::Refused(format!(
                "{}/{WORK} is not the subvolume that was begun here; move it away",
                shown(&self.path).display()
            )));
        }
        self.delete(&self.folder, OsStr::new(WORK))
    }

    fn delete(&self, from: &File, name: &OsStr) -> Result<(), Error> {
        subvolume::delete(from, name)
            .map_err(|e| Error::io("deleting the subvolume", &self.path.join(name), e))
    }

    /// Deletes all checkpoints but one; they are gone after a crash too if none is kept.
    fn delete_checkpoints(&self, keep: Option<u64>) -> Result<(), Error> {
        let path = self.path.join(FOLDER);
        let entries = fs::read_dir(&path).map_err(|e| Error::io("reading the folder", &path, e))?;
        let mut deleted = false;
        for entry in entries {
            let name = entry.map_err(|e| Error::io("reading the folder", &path, e))?.file_name();
            let is_ours = name.as_bytes().starts_with(b"checkpoint-");
            let kept = keep.is_some_and(|number| name == *Checkpoint::name(number));
            if is_ours && !kept {
                self.delete(&self.inside, &name)?;
                deleted = true;
            }
        }
        if deleted && keep.is_none() {
            subvolume::sync(&self.folder).map_err(|e| Error::io("writing out", &path, e))?;
        }
        Ok(())
    }

    /// Everything is in place: nothing of what was begun is needed any more.
    fn forget(&self) -> Result<(), Error> {
        self.delete_checkpoints(None)?;
        BegunReplica::remove(&self.path)
    }

    /// The complete subvolume becomes read-only and gets its name.
    fn give_name(&self, root: &File, begun: &BegunReplica) -> Result<(), Error> {
        let name = begun.begin.name.as_name();
        let path = self.path.join(name);
        subvolume::set_read_only(root, true).map_err(|e| Error::io("completing", &path, e))?;
        rename_new(&self.path.join(WORK), &path)?;
        subvolume::sync(&self.folder).map_err(|e| Error::io("writing out", &path, e))?;
        self.forget()
    }
}

impl<'a> Receiving<'a> {
    /// Continues what was begun if it is the very same stream; otherwise deletes that and begins
    /// anew.
    pub fn resume_or_begin(
        destination: &'a Destination,
        begin: Begin,
    ) -> Result<Receiving<'a>, Error> {
        check_name(destination, &begin)?;
        match BegunReplica::load(&destination.path)? {
            Some(begun) if begun.begin == begin => {
                match Receiving::resume(destination, begun.clone())? {
                    Some(receiving) => return Ok(receiving),
                    None => destination.clear(&begun)?,
                }
            }
            Some(begun) => destination.clear(&begun)?,
            None if destination.subvolume(OsStr::new(WORK)).is_some() => {
                return Err(Error::Refused(format!(
                    "{}/{WORK} is there, but not begun.json; delete it",
                    shown(&destination.path).display()
                )));
            }
            None => {}
        }
        Receiving::begin_afresh(destination, begin)
    }

    /// Begins at the stream's first byte.
    pub fn begin_afresh(
        destination: &'a Destination,
        begin: Begin,
    ) -> Result<Receiving<'a>, Error> {
        let mut begun = BegunReplica { begin, work: None, note: None, checkpoint: None };
        begun.save(&destination.path)?;
        let work = destination.path.join(WORK);
        let io = |error| Error::io("making the subvolume", &work, error);
        match begun.begin.stream.parent {
            None => subvolume::create(&destination.folder, OsStr::new(WORK)).map_err(io)?,
            Some(parent) => {
                let (parent, _) = destination.find(parent)?;
                subvolume::snapshot(&parent, &destination.folder, OsStr::new(WORK), false)
                    .map_err(io)?;
            }
        }
        let (_, about) = subvolume::open(&work)?;
        begun.work = Some(about.uuid);
        Receiving::at(destination, begun, Progress::default())
    }

    /// Continues after the last command, or else at the last checkpoint.
    fn resume(
        destination: &'a Destination,
        mut begun: BegunReplica,
    ) -> Result<Option<Receiving<'a>>, Error> {
        let here = Circumstances::of(&destination.folder);
        let work = destination.subvolume(OsStr::new(WORK));
        let is_ours = work.is_some_and(|(_, about)| Some(about.uuid) == begun.work);
        if is_ours && here.is_some() && begun.note == here {
            let note = Note::open(&BegunReplica::note_file(&destination.path)?)
                .map_err(|e| Error::io("mapping the note in", &destination.path, e))?;
            let progress = note.read();
            let mut receiving = Receiving::at(destination, begun, progress)?;
            receiving.applier.expect_repetition();
            return Ok(Some(receiving));
        }
        let Some(checkpoint) = begun.checkpoint.clone() else { return Ok(None) };
        let name = Checkpoint::name(checkpoint.number);
        let Ok((root, about)) = subvolume::open(&destination.path.join(FOLDER).join(&name)) else {
            return Ok(None);
        };
        if about.uuid != checkpoint.uuid {
            return Ok(None);
        }
        let made = begun.work.take();
        begun.note = None;
        begun.save(&destination.path)?;
        destination.delete_work(made)?;
        let work = destination.path.join(WORK);
        subvolume::snapshot(&root, &destination.folder, OsStr::new(WORK), false)
            .map_err(|e| Error::io("going back to the checkpoint of", &work, e))?;
        begun.work = Some(subvolume::open(&work)?.1.uuid);
        Receiving::at(destination, begun, checkpoint.progress).map(Some)
    }

    fn at(
        destination: &'a Destination,
        mut begun: BegunReplica,
        progress: Progress,
    ) -> Result<Self, Error> {
        let (root, _) = subvolume::open(&destination.path.join(WORK))?;
        let mut clone_sources = CloneSources::default();
        if let Some(parent) = begun.begin.stream.parent {
            clone_sources.0.push((parent, destination.find(parent)?.0));
        }
        let mut note = Note::open(&BegunReplica::note_file(&destination.path)?)
            .map_err(|e| Error::io("mapping the note in", &destination.path, e))?;
        note.store(progress);
        // Only now the note is this replica's.
        begun.note = Circumstances::of(&destination.folder);
        begun.save(&destination.path)?;
        let StreamId { uuid, kind, .. } = begun.begin.stream;
        let blocks = progress.blocks();
        Ok(Receiving {
            destination,
            applier: Applier::new(root, uuid, clone_sources),
            note,
            reader: match progress.position {
                0 => Reader::new(),
                position => Reader::resumed(kind.version, position),
            },
            progress,
            blocks,
            chain: progress.chain(),
            ahead: VecDeque::new(),
            skip: (progress.position - blocks * BLOCK as u64) as usize,
            checked_at: Instant::now(),
            ended: false,
            begun,
        })
    }

    /// Makes the state so far survive a crash of the system.
    pub fn checkpoint(&mut self) -> Result<(), Error> {
        self.checked_at = Instant::now();
        let before = self.begun.checkpoint.take();
        if before.as_ref().is_some_and(|checkpoint| checkpoint.progress == self.progress) {
            self.begun.checkpoint = before;
            return Ok(());
        }
        let number = before.as_ref().map_or(1, |checkpoint| checkpoint.number + 1);
        let name = Checkpoint::name(number);
        let path = self.destination.path.join(FOLDER).join(&name);
        subvolume::snapshot(self.applier.root(), &self.destination.inside, OsStr::new(&name), true)
            .map_err(|e| Error::io("making the checkpoint", &path, e))?;
        let uuid = subvolume::open(&path)?.1.uuid;
        self.begun.checkpoint = Some(Checkpoint { number, uuid, progress: self.progress });
        self.begun.save(&self.destination.path)?;
        self.destination.delete_checkpoints(Some(number))
    }

    /// The filesystem refused compressed data (another sector size, or an old
    /// kernel): from now on it is sent unpacked.
    fn want_plain(&self, error: Error) -> Result<Error, Error> {
        let Error::Io { error: reason, .. } = &error else { return Ok(error) };
        if !matches!(reason.raw_os_error(), Some(libc::EINVAL | libc::ENOTTY | libc::ENOSPC)) {
            return Ok(error);
        }
        // Or is it just full?
        super::Headroom::look(&self.destination.path)?;
        let path = self.destination.path.join(FOLDER).join(PLAIN_ONLY);
        File::create(&path).map_err(|e| Error::io("writing", &path, e))?;
        Ok(Error::Connection(format!("{error}; the next try sends without compression")))
    }
}

impl StreamSink for Receiving<'_> {
    fn has(&self) -> (u64, Chain) {
        (self.blocks, self.chain)
    }

    fn take(&mut self, block: &Block) -> Result<u64, Error> {
        let Block { bytes: block, chain } = block;
        if block.is_empty() || block.len() > BLOCK {
            return Err(Error::Remote(format!("a block of {} bytes came", block.len())));
        }
        self.blocks += 1;
        self.chain = chain.unwrap_or_else(|| self.chain.after(block));
        self.ahead.push_back(self.chain);
        let skip = std::mem::take(&mut self.skip).min(block.len());
        self.reader.feed(block.get(skip..).unwrap_or_default());
        while let Some(command) = self.reader.next_command()? {
            if self.ended {
                return Err(StreamError::Order.into());
            }
            match command {
                Command::Subvolume { uuid, .. } => check_stream(&self.begun, uuid, None)?,
                Command::Snapshot { uuid, parent, .. } => {
                    check_stream(&self.begun, uuid, Some(parent))?;
                }
                Command::End => {
                    self.ended = true;
                    // A process that continues after it wouldn't see it again, and would take the
                    // stream for truncated.
                    continue;
                }
                command => {
                    let outcome = self.applier.apply(&command);
                    if let Err(error) = outcome {
                        let compressed = matches!(command, Command::WriteCompressed { .. });
                        return Err(if compressed { self.want_plain(error)? } else { error });
                    }
                }
            }
            let before = self.progress.blocks();
            self.progress.position = self.reader.position();
            for _ in before..self.progress.blocks() {
                if let Some(chain) = self.ahead.pop_front() {
                    self.progress.chain = chain.bytes();
                }
            }
            self.note.store(self.progress);
        }
        if self.checked_at.elapsed() > CHECKPOINT_EVERY {
            self.checkpoint()?;
        }
        Ok(self.blocks)
    }

    fn restart(&mut self) -> Result<(), Error> {
        self.destination.clear(&self.begun)?;
        *self = Receiving::begin_afresh(self.destination, self.begun.begin.clone())?;
        Ok(())
    }

    fn finish(&mut self, blocks: u64, chain: [u8; 32]) -> Result<(), Error> {
        if !self.ended {
            return Err(StreamError::Truncated(self.progress.position).into());
        }
        if (self.blocks, self.chain.bytes()) != (blocks, chain) {
            return Err(Error::Differs("what came is not what was sent".to_owned()));
        }
        let Begin { stream, transaction, .. } = self.begun.begin;
        let io = |error| Error::io("completing", &self.destination.path.join(WORK), error);
        let root = self.applier.root();
        set_modified(root, self.begun.begin.modified).map_err(io)?;
        // First the data, then the mark that it is all there.
        rustix::fs::syncfs(root).map_err(|error| io(error.into()))?;
        subvolume::set_received(root, stream.uuid, transaction).map_err(io)?;
        self.destination.give_name(root, &self.begun)
    }
}

impl Destination {
    /// The subvolume in this folder that streams call `uuid`.
    fn find(&self, uuid: braid_pool::uuid::Uuid) -> Result<(File, Subvolume), Error> {
        let all = snapshots_in(&self.path)?;
        let received = all.iter().find(|(_, about)| about.received_uuid == Some(uuid));
        let found = received.or_else(|| all.iter().find(|(_, about)| about.uuid == uuid));
        match found {
            Some((name, _)) => subvolume::open(&self.path.join(name)),
            None => Err(StreamError::NoLender(uuid).into()),
        }
    }
}

/// The byte of its stream at which a replica can continue.
pub(super) fn reached(path: &Path, folder: &File, begun: &BegunReplica) -> u64 {
    let here = Circumstances::of(folder);
    if here.is_some() && begun.note == here {
        let note = BegunReplica::note_file(path).and_then(|file| {
            Note::open(&file).map_err(|e| Error::io("mapping the note in", path, e))
        });
        return note.map_or(0, |note| note.read().position);
    }
    begun.checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.progress.position)
}

/// Checks that a snapshot's name is a single component, and not one of ours.
pub(crate) fn check_plain_name(begin: &Begin) -> Result<(), Error> {
    let name = begin.name.as_name();
    let is_plain = Path::new(name).components().count() == 1
        && Path::new(name).file_name() == Some(name)
        && !name.as_bytes().starts_with(OWN);
    if !is_plain || name.len() > 255 {
        return Err(Error::Refused(format!("{name:?} can't be a snapshot's name")));
    }
    Ok(())
}

fn check_name(destination: &Destination, begin: &Begin) -> Result<(), Error> {
    check_plain_name(begin)?;
    let name = begin.name.as_name();
    let path = destination.path.join(name);
    match destination.subvolume(name) {
        Some((_, about)) if !about.read_only && about.received_uuid.is_none() => {
            Err(Error::Refused(format!(
                "{} is there, writable and not marked as received: it looks like what an \
                 interrupted `btrfs receive` leaves. Braid deletes only what it made; if nobody \
                 needs it: btrfs subvolume delete '{}'",
                shown(&path).display(),
                shown(&path).display()
            )))
        }
        _ if path.symlink_metadata().is_ok() => Err(Error::Refused(format!(
            "{} is there already, and is no replica of this snapshot; move it away",
            shown(&path).display()
        ))),
        _ => Ok(()),
    }
}

fn check_stream(
    begun: &BegunReplica,
    uuid: braid_pool::uuid::Uuid,
    parent: Option<braid_pool::uuid::Uuid>,
) -> Result<(), Error> {
    let expected = begun.begin.stream;
    if (uuid, parent) == (expected.uuid, expected.parent) {
        return Ok(());
    }
    Err(Error::Remote("the stream is of another snapshot than was said".to_owned()))
}

fn set_modified(file: &File, (seconds, nanos): (i64, i64)) -> io::Result<()> {
    let accessed = Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_OMIT };
    let modified = Timespec { tv_sec: seconds, tv_nsec: nanos };
    let times = Timestamps { last_access: accessed, last_modification: modified };
    Ok(rustix::fs::futimens(file, &times)?)
}
