//! Disks that fail on demand: loop devices over a file that a small FUSE server serves from memory.
//! It can rot (return wrong bytes until they are rewritten), refuse writes, or disappear.

#![forbid(unsafe_code)]

mod server;

use fuser::{BackgroundSession, Config, MountOption};
use server::Server;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// A file that fails on demand; dropping it removes its mount.
#[derive(Debug)]
pub struct FaultyFile {
    path: PathBuf,
    state: Arc<Mutex<State>>,
    _session: BackgroundSession,
}

/// The served data and its current faults.
#[derive(Debug, Default)]
struct State {
    bytes: Vec<u8>,
    gone: bool,
    writes_to_fail: usize,
    writes_failed: usize,
    takes_bytes: Option<usize>,
}

/// The size of a rotten block.
pub const BLOCK: usize = 4096;

impl FaultyFile {
    /// Serves a file of this size, filled with zeroes, at `folder`, an empty folder. Needs root and
    /// `/dev/fuse`.
    ///
    /// # Errors
    /// If it can't be mounted there.
    pub fn serve(folder: &Path, size: usize) -> io::Result<FaultyFile> {
        let state = Arc::new(Mutex::new(State { bytes: vec![0; size], ..State::default() }));
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("braid-faultdisk".to_owned())];
        let session = fuser::spawn_mount(Server::new(Arc::clone(&state)), folder, &config)?;
        Ok(FaultyFile { path: folder.join(server::NAME), state, _session: session })
    }

    /// The file, for `losetup`.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Flips a bit in every block for which `which` returns `true`, given its contents; returns how
    /// many.
    pub fn rot(&self, which: impl Fn(&[u8]) -> bool) -> usize {
        self.with(|state| {
            let blocks = state.bytes.chunks_mut(BLOCK).filter(|block| which(block));
            blocks.map(|block| block[BLOCK / 2] ^= 0x10).count()
        })
    }

    /// Makes the next `count` writes fail with EIO; their data is lost.
    pub fn fail_writes(&self, count: usize) {
        self.with(|state| state.writes_to_fail = count);
    }

    /// Makes writes beyond this many bytes fail with EIO: the disk is smaller than it claimed.
    pub fn take_only(&self, bytes: usize) {
        self.with(|state| state.takes_bytes = Some(bytes));
    }

    /// Number of failed writes so far.
    pub fn writes_failed(&self) -> usize {
        self.with(|state| state.writes_failed)
    }

    /// Sets whether every request fails with EIO; when it returns, its contents are unchanged.
    pub fn set_gone(&self, gone: bool) {
        self.with(|state| state.gone = gone);
    }

    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        work(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
