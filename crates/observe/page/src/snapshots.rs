//! Snapshots as the page shows them; who reads them is the program.
//!
//! Names and paths "as they are asked for" are text that survives queries and forms: what isn't
//! UTF-8, controls and `%` are written as `%XX`.

use braid_control::request::Refusal;
use std::fs::File;

/// Folders of snapshots. Its methods may block for as long as a disk takes.
pub trait Snapshots: Send + Sync {
    /// All that are known, with what is in them.
    fn folders(&self) -> Vec<Folder>;

    /// Where else copies are, as backups are: by a network, so that only who asks is told what is
    /// there.
    fn targets(&self) -> Vec<String> {
        Vec::new()
    }

    /// What is at one of them.
    ///
    /// # Errors
    /// It isn't known, or can't be reached.
    fn target(&self, _target: &str) -> Result<Folder, Refusal> {
        Err(Refusal::NotFound("this host knows of no backups".into()))
    }

    /// What is in a folder of a snapshot.
    ///
    /// # Errors
    /// There is no such folder, or it can't be read.
    fn entries(&self, place: &SnapshotPath) -> Result<Listing, Refusal>;

    /// A regular file, opened, and its size in bytes.
    ///
    /// # Errors
    /// There is no such file, or it can't be read.
    fn file(&self, place: &SnapshotPath) -> Result<(File, u64), Refusal>;

    /// What differs between two snapshots of a folder.
    ///
    /// # Errors
    /// There are no such snapshots, or they can't be read.
    fn changes(&self, folder: &str, older: &str, newer: &str) -> Result<Changes, Refusal>;

    /// What [`Snapshots::restore`] will do.
    ///
    /// # Errors
    /// Why it can't be done.
    fn plan_restore(&self, wish: &RestoreWish) -> Result<RestorePlan, Refusal>;

    /// Copies something back. What is in its place is moved aside, never overwritten.
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
    /// Why nothing can be said of it.
    pub trouble: Option<String>,
}

/// A snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotLine {
    /// Its name, as it is asked for.
    pub name: String,
    /// As people see it.
    pub shown: String,
    /// What snapshots of one subvolume share.
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

/// What is in a folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// Folders first.
    pub entries: Vec<EntryLine>,
    /// There is more.
    pub cut_short: bool,
}

/// Something in a folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EntryLine {
    /// Its name, as it is asked for.
    pub name: String,
    /// As people see it.
    pub shown: String,
    /// `folder`, `file`, `link`, `other`.
    pub kind: &'static str,
    /// Of a file.
    pub bytes: Option<u64>,
    /// When it changed, Unix seconds.
    pub modified_unix: i64,
}

/// What differs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// By path.
    pub changes: Vec<ChangeLine>,
    /// There is more.
    pub cut_short: bool,
}

/// A difference.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangeLine {
    /// Where, as it is asked for.
    pub path: String,
    /// As people see it.
    pub shown: String,
    /// `added`, `removed`, `changed`, `permissions`.
    pub what: &'static str,
    /// `folder`, `file`, `link`, `other`.
    pub kind: &'static str,
    /// Of a file.
    pub bytes: Option<u64>,
}

/// What shall be restored, and where to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RestoreWish {
    /// What.
    pub place: SnapshotPath,
    /// The path at which it shall be.
    pub to: String,
    /// What is there is moved aside.
    pub replace: bool,
}

/// What a restore does, or did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RestorePlan {
    /// Where it will be.
    pub to: String,
    /// `a copy`, `a writable subvolume` …
    pub way: &'static str,
    /// Where what is there now will be.
    pub moved_aside: Option<String>,
}
