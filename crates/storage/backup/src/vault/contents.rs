//! The files and folders in a backup.

use super::Vault;
use crate::Error;
use crate::error::one_line;
use crate::quiet::caught;
use braid_pool::step::quoted;
use rustic_core::repofile::{Node, NodeType, SnapshotFile};
use rustic_core::{IndexedFull, LsOptions, Repository};
use serde::Serialize;
use std::io::Write;
use std::path::{Path, PathBuf};

/// A file or folder in a backup.
#[derive(Clone, Debug, Serialize)]
pub struct Entry {
    /// Where it is, in what was looked at.
    #[serde(serialize_with = "as_shown")]
    pub path: PathBuf,
    /// `file`, `dir`, `symlink`, …
    pub kind: String,
    /// A file's.
    pub bytes: u64,
    /// When it was changed, since the Unix epoch.
    pub changed_s: Option<i64>,
}

impl Vault {
    /// What is in a folder of a backup; `which` is an id, its beginning, or `latest`, which is that
    /// of the folder.
    ///
    /// # Errors
    /// There is none such.
    pub fn entries(&self, which: &str, path: &Path, recursive: bool) -> Result<Vec<Entry>, Error> {
        let repository = self.told(self.repository(true)?.to_indexed())?;
        let snapshot = self.snapshot(&repository, which, Some(path))?;
        let node = self.node(&repository, &snapshot, path)?;
        let options = LsOptions::default().recursive(recursive);
        let listed = self.told(repository.ls(&node, &options))?;
        listed
            .map(|one| {
                let (path, node) = self.told(one)?;
                Ok(entry(path, &node))
            })
            .collect()
    }

    /// Writes a file of a backup; how long it is.
    ///
    /// # Errors
    /// There is none such, it comes damaged, or `into` can't be written.
    pub fn fetch(&self, which: &str, path: &Path, into: &mut impl Write) -> Result<u64, Error> {
        let repository = self.told(self.repository(true)?.to_indexed())?;
        let snapshot = self.snapshot(&repository, which, Some(path))?;
        let node = self.node(&repository, &snapshot, path)?;
        if !node.is_file() {
            return Err(Error::Refused(format!("{} is no file in the backup", path.display())));
        }
        match caught(|| repository.dump(&node, into)) {
            Ok(dumped) => self.told(dumped)?,
            Err(said) => return Err(self.courier.error_of(said)),
        }
        Ok(node.meta.size)
    }

    /// A file or folder of a backup, by its full path.
    pub(crate) fn node<S: IndexedFull>(
        &self,
        repository: &Repository<S>,
        snapshot: &SnapshotFile,
        path: &Path,
    ) -> Result<Node, Error> {
        let absent = || {
            let id: String = snapshot.id.to_hex().chars().take(8).collect();
            let list = format!("braid pool backup list {} {id}", quoted(&self.target.shown()));
            let text = format!("{} isn't in the backup {id}: `{list}`", path.display());
            Error::Refused(format!("{text}; paths in it are full ones"))
        };
        // The library finds by Unicode; names are whatever their filesystem had.
        let named = path.ancestors().find_map(Path::to_str).unwrap_or("/");
        let mut node =
            repository.node_from_snapshot_and_path(snapshot, named).map_err(|error| {
                let said = one_line(&error);
                match self.courier.failure().is_none() && said.contains("not found in tree") {
                    true => absent(),
                    false => self.courier.error_of(said),
                }
            })?;
        for name in path.strip_prefix(named).unwrap_or(Path::new("")) {
            if !node.is_dir() {
                return Err(absent());
            }
            let options = LsOptions::default().recursive(false);
            let mut found = None;
            for one in self.told(repository.ls(&node, &options))? {
                let (at, one) = self.told(one)?;
                if at.as_os_str() == name {
                    found = Some(one);
                }
            }
            node = found.ok_or_else(absent)?;
        }
        Ok(node)
    }
}

fn entry(path: PathBuf, node: &Node) -> Entry {
    let kind = match &node.node_type {
        NodeType::File => "file",
        NodeType::Dir => "dir",
        NodeType::Symlink { .. } => "symlink",
        NodeType::Dev { .. } => "block device",
        NodeType::Chardev { .. } => "character device",
        NodeType::Fifo => "fifo",
        NodeType::Socket => "socket",
    };
    Entry {
        path,
        kind: kind.to_owned(),
        bytes: node.meta.size,
        changed_s: node.meta.mtime.map(|time| time.as_second()),
    }
}

/// JSON has no other texts than Unicode.
pub(crate) fn as_shown<S: serde::Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(&path.display())
}
