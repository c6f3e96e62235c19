use crate::disk::DiskImage;
use rustix::fs::FallocateFlags;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

/// Kind, inode number, offset, length: eight bytes each, little-endian.
const HEAD: usize = 32;

/// Everything that a machine wrote to its disks, in order: it can reproduce the disks' contents at
/// any moment, as a power cut would have left them.
#[derive(Debug)]
pub struct Recording {
    file: File,
    events: Vec<DiskEvent>,
}

/// Something that happened to a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskEvent {
    /// The disk's number, from 0.
    pub disk: usize,
    /// What happened.
    pub kind: DiskEventKind,
    /// In bytes.
    offset: u64,
    /// In bytes.
    length: u64,
    /// Offset of the data in the record.
    at: u64,
}

/// What happened to a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskEventKind {
    /// Data was written.
    Written,
    /// A range was discarded or zeroed.
    Emptied,
}

impl DiskEvent {
    /// Where it begins on the disk, in bytes.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Whether something was discarded or zeroed, and nothing written.
    pub fn is_emptying(&self) -> bool {
        self.kind == DiskEventKind::Emptied
    }
}

impl Recording {
    /// Reads the file of [`Vm::record`](crate::Vm::record) from a machine with these disks.
    ///
    /// # Errors
    /// It can't be read, or isn't one.
    pub fn read(path: &Path, disks: &[DiskImage]) -> io::Result<Recording> {
        let inode = |disk: &DiskImage| Ok(fs::metadata(disk.path())?.ino());
        let inodes = disks.iter().map(inode).collect::<io::Result<Vec<u64>>>()?;
        let file = File::open(path)?;
        let end = file.metadata()?.len();
        let mut events = Vec::new();
        let mut position = 0;
        while position < end {
            let mut head = [0; HEAD];
            file.read_exact_at(&mut head, position)?;
            let word = |index: usize| {
                let bytes = head[index * 8..][..8].try_into().unwrap_or_default();
                u64::from_le_bytes(bytes)
            };
            let kind = match word(0) {
                0 => DiskEventKind::Written,
                1 => DiskEventKind::Emptied,
                _ => return Err(io::ErrorKind::InvalidData.into()),
            };
            let (offset, length, at) = (word(2), word(3), position + HEAD as u64);
            position = at + if kind == DiskEventKind::Written { length } else { 0 };
            // Other files that the machine wrote to belong to the host.
            if let Some(disk) = inodes.iter().position(|inode| *inode == word(1)) {
                events.push(DiskEvent { disk, kind, offset, length, at });
            }
        }
        Ok(Recording { file, events })
    }

    /// All events, in order.
    pub fn events(&self) -> &[DiskEvent] {
        &self.events
    }

    /// The data that an event wrote; empty if it emptied something.
    ///
    /// # Errors
    /// The record can't be read.
    pub fn data(&self, event: &DiskEvent) -> io::Result<Vec<u8>> {
        if event.kind != DiskEventKind::Written {
            return Ok(Vec::new());
        }
        let mut data = vec![0; usize::try_from(event.length).map_err(io::Error::other)?];
        self.file.read_exact_at(&mut data, event.at)?;
        Ok(data)
    }

    /// Replays on `disks`, which must be empty and of the same sizes, everything before the event
    /// with this number.
    ///
    /// # Errors
    /// The record can't be read, or a disk can't be written.
    pub fn replay(&self, disks: &[DiskImage], until: usize) -> io::Result<()> {
        let open = |disk: &DiskImage| OpenOptions::new().write(true).open(disk.path());
        let files = disks.iter().map(open).collect::<io::Result<Vec<File>>>()?;
        for event in self.events.iter().take(until) {
            let Some(file) = files.get(event.disk) else { continue };
            match event.kind {
                DiskEventKind::Written => file.write_all_at(&self.data(event)?, event.offset)?,
                DiskEventKind::Emptied => punch_hole(file, event.offset, event.length)?,
            }
        }
        Ok(())
    }
}

fn punch_hole(file: &File, offset: u64, length: u64) -> io::Result<()> {
    let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    Ok(rustix::fs::fallocate(file, how, offset, length)?)
}
