//! What is backed up: a snapshot of it where the filesystem has them, else the live files.

use crate::Error;
use crate::courier::Courier;
use crate::target::Target;
use braid_replica::subvolume::{self, Subvolume};
use braid_replica::timestamp;
use ignore::WalkBuilder;
use rustic_core::repofile::{Node, NodeType};
use rustic_core::{
    Excludes, LocalSource, LocalSourceFilterOptions, LocalSourceSaveOptions, ReadSource,
    ReadSourceEntry, ReadSourceOpen, RusticResult,
};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::iter;
use std::option;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// What the backup is read from.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum From {
    /// A snapshot taken for this backup: all files are of the same moment.
    Snapshot,
    /// The source is read-only, so nothing can change meanwhile.
    ReadOnly,
    /// The live files, for this reason.
    Live(String),
}

/// The source while it is read. Dropping it removes the snapshot that was taken for it.
#[derive(Debug)]
pub struct Ground {
    /// The path it is backed up as.
    pub path: PathBuf,
    /// What it is read from.
    pub from: From,
    /// Nested subvolumes, which a snapshot doesn't contain: empty folders in the backup.
    pub without: Vec<PathBuf>,
    read: PathBuf,
    snapshot: Option<Snapshot>,
}

#[derive(Debug)]
struct Snapshot {
    /// The folder that holds it.
    holder: File,
    name: OsString,
    /// Locked, so that nobody takes the snapshot for a leftover.
    _held: File,
}

/// Beginning of a snapshot's name; the time follows.
const PREFIX: &str = ".braid-backup.";

impl Ground {
    /// Looks at `path` and takes a snapshot where that can be; `live` forbids it.
    ///
    /// # Errors
    /// It isn't there, or the snapshot can't be taken.
    pub fn prepare(path: &Path, live: bool, now: SystemTime) -> Result<Ground, Error> {
        let path = fs::canonicalize(path).map_err(|error| Error::io("finding", path, error))?;
        if !path.is_dir() {
            return Err(Error::Refused(format!("{} is no folder", path.display())));
        }
        if path.to_str().is_none() {
            let text = format!("{}: the path to a backup's source is to be UTF-8", path.display());
            return Err(Error::Refused(text));
        }
        let at = |from| Ground {
            path: path.clone(),
            read: path.clone(),
            from,
            without: vec![],
            snapshot: None,
        };
        if live {
            return Ok(at(From::Live("it was asked for".to_owned())));
        }
        let opened = subvolume::open_folder(&path).map_err(said)?;
        if !subvolume::is_btrfs(&opened) {
            return Ok(at(From::Live("this filesystem has no snapshots".to_owned())));
        }
        let Some((root, holder, about)) = subvolume_of(&path) else {
            return Ok(at(From::Live("its subvolume's root isn't mounted".to_owned())));
        };
        if about.read_only {
            return Ok(at(From::ReadOnly));
        }
        remove_left(&root, &holder);
        let without = inside(&holder, &root, &path)?;
        let name = free_name(&root, now);
        subvolume::snapshot(&holder, &holder, &name, true)
            .map_err(|error| Error::io("taking a snapshot of", &root, error))?;
        let at_snapshot = root.join(&name);
        let held = File::open(&at_snapshot)
            .and_then(|file| file.lock_shared().map(|()| file))
            .map_err(|error| Error::io("opening", &at_snapshot, error))?;
        let rest = path.strip_prefix(&root).unwrap_or(Path::new(""));
        Ok(Ground {
            read: at_snapshot.join(rest),
            path: path.clone(),
            from: From::Snapshot,
            without,
            snapshot: Some(Snapshot { holder, name, _held: held }),
        })
    }

    /// Refuses a target inside its own source: each backup would contain the earlier ones.
    ///
    /// # Errors
    /// It is one.
    pub fn refuse_itself(&self, target: &Target) -> Result<(), Error> {
        let Target::Folder(target) = target else { return Ok(()) };
        let Ok(target) = fs::canonicalize(target) else { return Ok(()) };
        let device = |path: &Path| fs::metadata(path).ok().map(|about| about.dev());
        // What is mounted inside is left out anyway, and so are other subvolumes.
        if target.starts_with(&self.path) && device(&target) == device(&self.path) {
            return Err(Error::Refused(format!(
                "{} lies within {}, and would have itself in each backup: name a place elsewhere",
                target.display(),
                self.path.display()
            )));
        }
        Ok(())
    }

    /// Where it is read.
    pub(crate) fn read(&self) -> &Path {
        &self.read
    }

    /// As the library reads it, until the courier has ended.
    pub(crate) fn source(&self, courier: &Courier) -> RusticResult<Whole> {
        // A pool is one filesystem; what is mounted inside is another's.
        let filter = LocalSourceFilterOptions::default().one_file_system(true);
        let mut excludes = Excludes::default();
        if matches!(self.from, From::Live(_)) {
            excludes = excludes.globs(vec![format!("!**/{PREFIX}*")]);
        }
        let save = LocalSourceSaveOptions::default();
        let inner = LocalSource::new(save, &excludes, &filter, &[&self.read])?;
        Ok(Whole {
            inner,
            root: self.read.clone(),
            name: self.path.file_name().map(OsStr::to_owned),
            courier: courier.clone(),
        })
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        if let Some(snapshot) = &self.snapshot {
            // What stays is removed by the next one.
            let _ = subvolume::delete(&snapshot.holder, &snapshot.name);
        }
    }
}

/// The subvolume that holds `path`, if its root can be reached.
fn subvolume_of(path: &Path) -> Option<(PathBuf, File, Subvolume)> {
    path.ancestors().find_map(|ancestor| {
        let file = subvolume::open_folder(ancestor).ok()?;
        if !subvolume::is_btrfs(&file) {
            return None;
        }
        let about = Subvolume::of(&file).ok()?;
        Some((ancestor.to_owned(), file, about))
    })
}

/// Those of a run that was killed.
fn remove_left(root: &Path, holder: &File) {
    let Ok(entries) = fs::read_dir(root) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let ours = name.as_bytes().starts_with(PREFIX.as_bytes());
        if !ours || !subvolume::is_subvolume(&entry.path()) {
            continue;
        }
        let is_free = File::open(entry.path()).is_ok_and(|file| file.try_lock().is_ok());
        if is_free {
            // It is tried again the next time.
            let _ = subvolume::delete(holder, &name);
        }
    }
}

fn free_name(root: &Path, now: SystemTime) -> OsString {
    let stem = format!("{PREFIX}{}", timestamp::format(now));
    let numbered = (2..1000).map(|number| format!("{stem}-{number}"));
    let mut names = std::iter::once(stem.clone()).chain(numbered);
    names.find(|name| root.join(name).symlink_metadata().is_err()).unwrap_or(stem).into()
}

/// Subvolumes below `path`, but for those of other runs.
fn inside(holder: &File, root: &Path, path: &Path) -> Result<Vec<PathBuf>, Error> {
    let about = Subvolume::of(holder).map_err(|error| Error::io("asking about", root, error))?;
    let io = |error| Error::io("listing the subvolumes of", root, error);
    let own = subvolume::path_of(holder, about.id).map_err(io)?;
    let all = subvolume::list(holder).map_err(io)?;
    let mut found = vec![];
    for listed in all {
        let Ok(rest) = listed.path.strip_prefix(&own) else { continue };
        let at = root.join(rest);
        let ours = at.file_name().is_some_and(|it| it.as_bytes().starts_with(PREFIX.as_bytes()));
        if at != path && at.starts_with(path) && !ours && !rest.as_os_str().is_empty() {
            found.push(at);
        }
    }
    found.sort();
    Ok(found)
}

fn said(error: braid_replica::Error) -> Error {
    Error::Refused(error.to_string())
}

/// Adds what the library's own source lacks: the top folder itself with its mode and owner, and an
/// early end, so that nothing more is read once the target is full.
pub(crate) struct Whole {
    inner: LocalSource,
    root: PathBuf,
    /// Of the folder, in the backup; none for `/`.
    name: Option<OsString>,
    courier: Courier,
}

type InnerOpener = <LocalSource as ReadSource>::Open;

impl ReadSource for Whole {
    type Open = Opener;
    type Iter = Entries;

    fn size(&self) -> RusticResult<Option<u64>> {
        let walk =
            WalkBuilder::new(&self.root).standard_filters(false).same_file_system(true).build();
        let mut all = 0;
        // What can't be looked at is told when it is to be read.
        for about in walk.filter_map(|entry| entry.ok()?.metadata().ok()) {
            if self.courier.has_ended() {
                return Ok(None);
            }
            all += if about.is_dir() { 0 } else { about.len() };
        }
        Ok(Some(all))
    }

    fn entries(&self) -> Entries {
        let all = self.root_entry().into_iter().chain(self.inner.entries());
        Entries { all, courier: self.courier.clone() }
    }
}

impl Whole {
    fn root_entry(&self) -> Option<RusticResult<ReadSourceEntry<InnerOpener>>> {
        let name = self.name.as_ref()?;
        let entry = WalkBuilder::new(&self.root).max_depth(Some(0)).build().next()?.ok()?;
        let mut entry = LocalSourceSaveOptions::default().map_entry(entry).ok()?;
        entry.node = Node::new_node(name, NodeType::Dir, entry.node.meta);
        entry.open = None;
        Some(Ok(entry))
    }
}

pub(crate) struct Entries {
    all: iter::Chain<
        option::IntoIter<RusticResult<ReadSourceEntry<InnerOpener>>>,
        <LocalSource as ReadSource>::Iter,
    >,
    courier: Courier,
}

impl Iterator for Entries {
    type Item = RusticResult<ReadSourceEntry<Opener>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.courier.has_ended() {
            return None;
        }
        let entry = self.all.next()?;
        Some(entry.map(|ReadSourceEntry { path, node, open }| {
            let open = open.map(|inner| Opener { inner, courier: self.courier.clone() });
            ReadSourceEntry { path, node, open }
        }))
    }
}

pub(crate) struct Opener {
    inner: InnerOpener,
    courier: Courier,
}

impl ReadSourceOpen for Opener {
    type Reader = UntilTheEnd;

    fn open(self) -> RusticResult<UntilTheEnd> {
        Ok(UntilTheEnd { inner: self.inner.open()?, courier: self.courier })
    }
}

/// A file that stops being readable once the courier has ended.
pub(crate) struct UntilTheEnd {
    inner: <InnerOpener as ReadSourceOpen>::Reader,
    courier: Courier,
}

impl io::Read for UntilTheEnd {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.courier.has_ended() {
            return Err(io::Error::other("the backup has ended"));
        }
        self.inner.read(into)
    }
}
