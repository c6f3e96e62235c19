//! A replica's progress, in memory that outlives the process.
//!
//! After each command the position is stored in a page of a file that is mapped into memory. When
//! the process is killed, the kernel still has both the page and the commands' effects, so the next
//! process continues after the last command. After a kernel crash neither can be trusted: the note
//! records the boot and mount in which it was made, and is ignored in any other.

#![allow(unsafe_code)]

use crate::chain::{BLOCK, Chain};
use rustix::fs::{AtFlags, StatxFlags, statx};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// How far a stream was applied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Where the next command begins.
    pub position: u64,
    /// The chain over the whole blocks before `position`.
    pub chain: [u8; 32],
}

impl Progress {
    /// The whole blocks before the position.
    pub fn blocks(&self) -> u64 {
        self.position / BLOCK as u64
    }

    /// The chain over these.
    pub fn chain(&self) -> Chain {
        Chain::from_bytes(self.chain)
    }
}

/// When and where a note was written; in any other it is meaningless.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Circumstances {
    boot: String,
    mount: u64,
}

impl Circumstances {
    /// This boot, and the mount that `file` is on. `None` where the kernel
    /// (before 6.8) can't tell mounts apart for sure.
    pub fn of(file: &File) -> Option<Circumstances> {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        Some(Circumstances { boot: boot.trim().to_owned(), mount: mount_id(file)? })
    }
}

/// A note that is being written.
pub struct Note {
    page: NonNull<Page>,
}

#[repr(C)]
struct Page {
    /// Which slot is valid: its lowest bit.
    turn: AtomicU64,
    slots: [Progress; 2],
}

const SIZE: usize = 4096;
const _: () = assert!(size_of::<Page>() <= SIZE);

// SAFETY: the mapping belongs to this value alone and isn't tied to a thread.
unsafe impl Send for Note {}

impl Note {
    /// Maps `file`, which nobody else may shorten while the note lives.
    ///
    /// # Errors
    /// It can't be mapped.
    pub fn open(file: &File) -> io::Result<Note> {
        file.set_len(SIZE as u64)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping of a file that has SIZE bytes.
        let page = unsafe { mmap(ptr::null_mut(), SIZE, access, MapFlags::SHARED, file, 0) }?;
        let page = NonNull::new(page.cast::<Page>()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Note { page })
    }

    /// What was stored last.
    pub fn read(&self) -> Progress {
        // SAFETY: the mapping is valid, aligned, and any bits are a `Page`.
        let page = unsafe { self.page.as_ref() };
        let [even, odd] = page.slots;
        if page.turn.load(Ordering::Acquire) & 1 == 0 { even } else { odd }
    }

    /// Stores the progress. A process killed in the middle of this leaves the previous one.
    pub fn store(&mut self, progress: Progress) {
        // SAFETY: the mapping is valid and aligned, and this is its only user.
        let page = unsafe { self.page.as_mut() };
        let turn = page.turn.load(Ordering::Relaxed).wrapping_add(1);
        let [even, odd] = &mut page.slots;
        *(if turn & 1 == 0 { even } else { odd }) = progress;
        fence(Ordering::Release);
        page.turn.store(turn, Ordering::Release);
    }
}

impl Drop for Note {
    fn drop(&mut self) {
        // SAFETY: the mapping was made with this size and isn't used any more.
        let _ = unsafe { munmap(self.page.as_ptr().cast(), SIZE) };
    }
}

/// `STATX_MNT_ID_UNIQUE`: never used again while the system runs (Linux 6.8).
const MOUNT_ID_UNIQUE: StatxFlags = StatxFlags::from_bits_retain(0x4000);

fn mount_id(file: &File) -> Option<u64> {
    let about = statx(file, "", AtFlags::EMPTY_PATH, MOUNT_ID_UNIQUE).ok()?;
    let known = StatxFlags::from_bits_retain(about.stx_mask);
    known.contains(MOUNT_ID_UNIQUE).then_some(about.stx_mnt_id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_that_was_stored_is_read_by_the_next_who_opens_it() {
        let file = tempfile::tempfile().unwrap();
        let mut note = Note::open(&file).unwrap();
        assert_eq!(note.read(), Progress::default());
        for position in 1..10 {
            note.store(Progress { position, chain: [position as u8; 32] });
        }
        drop(note);
        let read = Note::open(&file).unwrap().read();
        assert_eq!(read, Progress { position: 9, chain: [9; 32] });
    }
}
