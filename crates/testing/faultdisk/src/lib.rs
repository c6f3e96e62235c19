//! Disks that fail when a test says so: loop devices over a file that a small FUSE server of ours
//! serves from memory. It can rot (wrong bytes until they are written again), refuse writes, and be
//! gone.

#![forbid(unsafe_code)]

mod server;

use fuser::{BackgroundSession, Config, MountOption};
use server::Server;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// A file that fails on demand; gone with its mount when dropped.
#[derive(Debug)]
pub struct FaultyFile {
    path: PathBuf,
    state: Arc<Mutex<State>>,
    _session: BackgroundSession,
}

/// What the server serves, and how badly.
#[derive(Debug, Default)]
struct State {
    bytes: Vec<u8>,
    gone: bool,
    writes_to_fail: usize,
    writes_failed: usize,
    takes_bytes: Option<usize>,
}

/// Rot comes in pieces of this size.
pub const BLOCK: usize = 4096;

impl FaultyFile {
    /// A file of this size full of zeroes, served at `folder`, an empty folder. Needs root and
    /// `/dev/fuse`.
    ///
    /// # Errors
    /// When it can't be mounted there.
    pub fn serve(folder: &Path, size: usize) -> io::Result<FaultyFile> {
        let state = Arc::new(Mutex::new(State { bytes: vec![0; size], ..State::default() }));
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("braid-faultdisk".to_owned())];
        let session = fuser::spawn_mount(Server::new(Arc::clone(&state)), folder, &config)?;
        Ok(FaultyFile { path: folder.join(server::NAME), state, _session: session })
    }

    /// The file, to be given to `losetup`.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Turns a bit in every block for which `which` says so, as it lies on the medium; how many.
    pub fn rot(&self, which: impl Fn(&[u8]) -> bool) -> usize {
        self.with(|state| {
            let blocks = state.bytes.chunks_mut(BLOCK).filter(|block| which(block));
            blocks.map(|block| block[BLOCK / 2] ^= 0x10).count()
        })
    }

    /// The next so many writes fail with EIO; what they would have written is lost.
    pub fn fail_writes(&self, count: usize) {
        self.with(|state| state.writes_to_fail = count);
    }

    /// Writes behind so many bytes fail with EIO from now on: the disk is smaller than it said.
    pub fn take_only(&self, bytes: usize) {
        self.with(|state| state.takes_bytes = Some(bytes));
    }

    /// How many writes have failed so far.
    pub fn writes_failed(&self) -> usize {
        self.with(|state| state.writes_failed)
    }

    /// Every request fails with EIO, or no more: then it is back as it was when it went.
    pub fn set_gone(&self, gone: bool) {
        self.with(|state| state.gone = gone);
    }

    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        work(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
