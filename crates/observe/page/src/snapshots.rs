//! Snapshots, for the page; the program reads them.
//!
//! Encoded names and paths survive queries and forms: bytes that aren't UTF-8, control characters
//! and `%` are written as `%XX`.

use braid_control::request::Refusal;
use std::fs::File;

/// Folders of snapshots. Its methods may block for as long as a disk takes.
pub trait Snapshots: Send + Sync {
    /// All known folders, with their snapshots.
    fn folders(&self) -> Vec<Folder>;

    /// Other places with copies, such as backup targets: they are reached over a network, so they
    /// are only read on request.
    fn targets(&self) -> Vec<String> {
        Vec::new()
    }

    /// The snapshots at a target.
    ///
    /// # Errors
    /// It is unknown, or can't be reached.
    fn target(&self, _target: &str) -> Result<Folder, Refusal> {
        Err(Refusal::NotFound("this host knows of no backups".into()))
    }

    /// The contents of a folder in a snapshot.
    ///
    /// # Errors
    /// There is no such folder, or it can't be read.
    fn entries(&self, place: &SnapshotPath) -> Result<Listing, Refusal>;

    /// A regular file, opened, and its size in bytes.
    ///
    /// # Errors
    /// There is no such file, or it can't be read.
    fn file(&self, place: &SnapshotPath) -> Result<(File, u64), Refusal>;

    /// The differences between two snapshots in a folder.
    ///
    /// # Errors
    /// There are no such snapshots, or they can't be read.
    fn changes(&self, folder: &str, older: &str, newer: &str) -> Result<Changes, Refusal>;

    /// What [`Snapshots::restore`] will do.
    ///
    /// # Errors
    /// Why it can't be done.
    fn plan_restore(&self, wish: &RestoreWish) -> Result<RestorePlan, Refusal>;

    /// Restores something. Existing files are moved aside, never overwritten.
    ///
    /// # Errors
    /// Why it can't be done.
    fn restore(&self, wish: &RestoreWish) -> Result<RestorePlan, Refusal>;
}

/// A folder with snapshots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Folder {
    /// Its path.
    pub path: String,
    /// Oldest first.
    pub snapshots: Vec<SnapshotLine>,
    /// Why it can't be read.
    pub trouble: Option<String>,
}

/// A snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotLine {
    /// Its encoded name.
    pub name: String,
    /// The name for display.
    pub shown: String,
    /// The part of the name that snapshots of one subvolume share.
    pub series: String,
    /// When it was taken, Unix seconds.
    pub taken_unix: i64,
}

/// Something in a snapshot, as a query names it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotPath {
    /// The folder of snapshots.
    pub folder: String,
    /// The snapshot's name.
    pub snapshot: String,
    /// The path in it; empty for all of it.
    pub path: String,
}

/// The contents of a folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// Folders first.
    pub entries: Vec<EntryLine>,
    /// Whether there is more.
    pub cut_short: bool,
}

/// An entry of a folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EntryLine {
    /// Its encoded name.
    pub name: String,
    /// The name for display.
    pub shown: String,
    /// `folder`, `file`, `link`, `other`.
    pub kind: &'static str,
    /// The size of a file.
    pub bytes: Option<u64>,
    /// When it changed, Unix seconds.
    pub modified_unix: i64,
}

/// The differences between two snapshots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Sorted by path.
    pub changes: Vec<ChangeLine>,
    /// Whether there is more.
    pub cut_short: bool,
}

/// A difference.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangeLine {
    /// The encoded path.
    pub path: String,
    /// The path for display.
    pub shown: String,
    /// `added`, `removed`, `changed`, `permissions`.
    pub what: &'static str,
    /// `folder`, `file`, `link`, `other`.
    pub kind: &'static str,
    /// The size of a file.
    pub bytes: Option<u64>,
}

/// What to restore, and where to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RestoreWish {
    /// What to restore.
    pub place: SnapshotPath,
    /// The path to restore it to.
    pub to: String,
    /// Whether to move an existing file aside.
    pub replace: bool,
}

/// What a restore does, or did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RestorePlan {
    /// Where it will be.
    pub to: String,
    /// `a copy`, `a writable subvolume` …
    pub way: &'static str,
    /// Where the existing file will be.
    pub moved_aside: Option<String>,
}
