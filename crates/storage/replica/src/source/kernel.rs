use crate::chain::BLOCK;
use crate::error::Error;
use crate::files::open_own;
use crate::folder::Snapshot;
use crate::stream::{Command, Reader};
use crate::subvolume::{self, SendOrder};
use crate::wire::Block;
use crate::wire::Entry;
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::thread::{self, JoinHandle};

/// Estimated length of a stream: the lengths of everything it would carry, without reading the
/// data.
pub(super) fn estimate(snapshot: &Snapshot, order: &SendOrder) -> Result<u64, Error> {
    if snapshot.stored.is_some() {
        let about = std::fs::metadata(&snapshot.path);
        return about
            .map(|about| about.len())
            .map_err(|e| Error::io("looking at", &snapshot.path, e));
    }
    let kind = subvolume::SendKind { version: 1, compressed: false };
    let order = SendOrder { without_data: true, kind, ..*order };
    let mut stream = StreamOf::begin(snapshot, &order)?;
    let mut reader = Reader::new();
    let mut data = 0;
    while let Some(block) = stream.next_block()? {
        reader.feed(&block);
        while let Some(command) = reader.next_command()? {
            if let Command::Extent { length } = command {
                data += length;
            }
        }
    }
    Ok(reader.position() + data)
}

/// An incoming stream: from the kernel, or stored.
pub(crate) struct StreamOf {
    pipe: Option<File>,
    writer: Option<JoinHandle<io::Result<()>>>,
    /// A stored one's manifest, and the hash of what was read of it.
    stored: Option<(Entry, blake3::Hasher)>,
}

impl StreamOf {
    pub fn begin(snapshot: &Snapshot, order: &SendOrder) -> Result<StreamOf, Error> {
        let Some(entry) = &snapshot.stored else {
            return StreamOf::subvolume(&snapshot.path, order);
        };
        let io = |error| Error::io("opening", &snapshot.path, error);
        let file = open_own(&snapshot.path, File::options().read(true)).map_err(io)?;
        if file.metadata().map_err(io)?.len() != entry.bytes {
            return Err(rotten(entry));
        }
        let stored = Some((entry.as_ref().clone(), blake3::Hasher::new()));
        Ok(StreamOf { pipe: Some(file), writer: None, stored })
    }

    /// Of the read-only subvolume at `path`.
    pub fn subvolume(path: &Path, order: &SendOrder) -> Result<StreamOf, Error> {
        let io = |error| Error::io("sending", path, error);
        let (root, _) = subvolume::open(path)?;
        let (reader, writer) = pipe().map_err(io)?;
        let order = *order;
        let writer = thread::Builder::new()
            .name("send".to_owned())
            .spawn(move || subvolume::send(&root, &order, &writer))
            .map_err(io)?;
        Ok(StreamOf { pipe: Some(File::from(reader)), writer: Some(writer), stored: None })
    }

    /// The next block; only the last is shorter than others.
    pub fn next_block(&mut self) -> Result<Option<Vec<u8>>, Error> {
        let Some(pipe) = &mut self.pipe else { return Ok(None) };
        let mut block = Block::memory();
        pipe.take(BLOCK as u64)
            .read_to_end(&mut block)
            .map_err(|error| Error::Io { doing: "reading the send stream".to_owned(), error })?;
        if let Some((_, hasher)) = &mut self.stored {
            hasher.update(&block);
        }
        Ok((!block.is_empty()).then_some(block))
    }

    /// Checks, at the end of the pipe, that the kernel wrote everything, or that everything stored
    /// was read.
    pub fn check(&mut self) -> Result<(), Error> {
        if let Some((entry, hasher)) = &self.stored
            && hasher.finalize().to_hex().as_str() != entry.blake3
        {
            return Err(rotten(entry));
        }
        let outcome = match self.writer.take().map(JoinHandle::join) {
            Some(Ok(outcome)) => outcome,
            None => Ok(()),
            Some(Err(_)) => Err(io::Error::other("the sending thread died")),
        };
        outcome.map_err(|error| Error::Io {
            doing: "making the send stream (btrfs send)".to_owned(),
            error,
        })
    }
}

fn rotten(entry: &Entry) -> Error {
    Error::Differs(format!(
        "the stored stream of {} isn't what was stored any more (length or BLAKE3 differ from its manifest): look with \
         braid pool verify FOLDER",
        entry.begin.name
    ))
}

impl Drop for StreamOf {
    fn drop(&mut self) {
        // Without a reader the kernel stops writing.
        self.pipe = None;
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}

/// Larger than the default: fewer wakeups.
const PIPE_SIZE: usize = 1 << 20;

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
    // If it is refused the pipe stays as it is.
    let _ = fcntl_setpipe_size(&write, PIPE_SIZE);
    Ok((read, write))
}
