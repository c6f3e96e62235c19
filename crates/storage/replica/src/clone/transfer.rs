//! Snapshots of all subvolumes, on their way to the new filesystem.

use super::layout::{Part, STAGING};
use super::mount::TopLevel;
use crate::error::Error;
use crate::source::{Choice, Snapshot};
use crate::subvolume::{self, Subvolume};
use braid_pool::uuid::Uuid;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

/// Where the snapshot of a subvolume is staged.
pub fn staged(top: &TopLevel, part: &Part) -> PathBuf {
    top.path().join(STAGING).join(part.id.to_string())
}

/// Takes snapshots of all, to be sent. Those of a first attempt are reused.
pub fn stage(from: &TopLevel, parts: &[Part]) -> Result<Choice, Error> {
    let folder = from.path().join(STAGING);
    fs::create_dir_all(&folder).map_err(|e| Error::io("making the folder", &folder, e))?;
    let into = subvolume::open_folder(&folder)?;
    let mut originals = vec![];
    for part in parts {
        originals.push((part, subvolume::open(&from.path().join(part.path.as_path()))?));
    }
    let family = |about: &Subvolume| {
        let (mut found, mut parent) = (about.uuid, about.parent_uuid);
        // Parents form no cycles; the bound makes sure that this ends anyway.
        for _ in 0..originals.len() {
            let Some(uuid) = parent else { break };
            found = uuid;
            let known = originals.iter().find(|(_, (_, other))| other.uuid == uuid);
            parent = known.and_then(|(_, (_, other))| other.parent_uuid);
        }
        found
    };
    let mut wanted = vec![];
    for (part, (root, about)) in &originals {
        let name = OsString::from(part.id.to_string());
        let path = folder.join(&name);
        let io = |error| Error::io("taking a snapshot as", &path, error);
        if !subvolume::is_subvolume(&path) {
            // Writable first: that removes a Received UUID, with which the stream would be taken
            // for the original's.
            subvolume::snapshot(root, &into, &name, false).map_err(io)?;
        }
        let (taken, of_snapshot) = subvolume::open(&path)?;
        subvolume::set_read_only(&taken, true).map_err(io)?;
        // Descendants of one subvolume share data: each is sent as a difference from its nearest
        // relative.
        let (parent_uuid, made_in) = (Some(family(about)), about.made_in);
        let about = Subvolume { parent_uuid, made_in, ..of_snapshot };
        wanted.push(Snapshot { name, path, about, stored: None });
    }
    wanted.sort_by_key(|snapshot| snapshot.about.made_in);
    Ok(Choice { folder, nearby: wanted.clone(), wanted })
}

/// Deletes what was staged on a filesystem.
pub fn clean(top: &TopLevel) -> Result<(), Error> {
    let folder = top.path().join(STAGING);
    let Some(staged) = numbered(&folder) else { return Ok(()) };
    let inside = subvolume::open_folder(&folder)?;
    for name in staged {
        subvolume::delete(&inside, &name)
            .map_err(|e| Error::io("deleting the snapshot", &folder.join(&name), e))?;
    }
    fs::remove_dir_all(&folder).map_err(|e| Error::io("removing", &folder, e))
}

/// The UUIDs of what was staged there, if a clone was begun and isn't complete.
pub fn staged_uuids(top: &TopLevel) -> Result<Option<Vec<Uuid>>, Error> {
    let folder = top.path().join(STAGING);
    let Some(staged) = numbered(&folder) else { return Ok(None) };
    let uuid = |name: OsString| Ok(subvolume::open(&folder.join(name))?.1.uuid);
    staged.into_iter().map(uuid).collect::<Result<_, Error>>().map(Some)
}

/// The subvolumes that are named by a number; nothing where there is no such folder.
fn numbered(folder: &Path) -> Option<Vec<OsString>> {
    let entries = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.file_name());
    let is_staged =
        |name: &OsString| is_number(name) && subvolume::is_subvolume(&folder.join(name));
    Some(entries.filter(is_staged).collect())
}

fn is_number(name: &OsString) -> bool {
    name.to_str().is_some_and(|name| name.parse::<u64>().is_ok())
}
