//! Snapshots of all subvolumes over to the new filesystem.

use super::layout::Part;
use super::mount::TopLevel;
use crate::error::Error;
use crate::replicate::inside_this_process;
use crate::source::{self, Choice, Manner, Snapshot};
use crate::subvolume::{self, Subvolume};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

/// The folder, on both filesystems, that holds the snapshots on their way.
pub const STAGING: &str = ".braid-clone";

/// Where the snapshot of a subvolume is staged.
pub fn staged(top: &TopLevel, part: &Part) -> PathBuf {
    top.path().join(STAGING).join(part.id.to_string())
}

/// Sends all; returns the bytes of the streams.
pub fn transfer(
    from: &TopLevel,
    to: &TopLevel,
    parts: &[Part],
    manner: &Manner,
) -> Result<u64, Error> {
    let folder = from.path().join(STAGING);
    fs::create_dir_all(&folder).map_err(|e| Error::io("making the folder", &folder, e))?;
    let into = subvolume::open_folder(&folder)?;
    let mut originals = vec![];
    for part in parts {
        originals.push((part, subvolume::open(&from.path().join(part.path.as_path()))?));
    }
    let family = |about: &Subvolume| {
        let (mut found, mut parent) = (about.uuid, about.parent_uuid);
        // A filesystem has no circles of parents; a list has an end anyway.
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
        // What a first try took is what was begun with.
        if !subvolume::is_subvolume(&path) {
            // Writable first: that takes away a Received UUID, by which the
            // stream would be taken for the original's.
            subvolume::snapshot(root, &into, &name, false).map_err(io)?;
        }
        let (taken, of_snapshot) = subvolume::open(&path)?;
        subvolume::set_read_only(&taken, true).map_err(io)?;
        // Whatever descends from one subvolume shares data: each is sent as the
        // difference to the nearest relative.
        let (parent_uuid, made_in) = (Some(family(about)), about.made_in);
        let about = Subvolume { parent_uuid, made_in, ..of_snapshot };
        wanted.push(Snapshot { name, path, about, stored: None });
    }
    wanted.sort_by_key(|snapshot| snapshot.about.made_in);
    let choice = Choice { folder, nearby: wanted.clone(), wanted };
    let report = inside_this_process(&to.path().join(STAGING), |link| {
        source::serve_chosen(link, choice, manner)
    })?;
    Ok(report.snapshots.iter().map(|sent| sent.stream_bytes).sum())
}

/// Deletes what was staged.
pub fn clean(from: &TopLevel, to: &TopLevel) -> Result<(), Error> {
    for top in [from, to] {
        let folder = top.path().join(STAGING);
        let entries: BTreeSet<OsString> = match fs::read_dir(&folder) {
            Ok(entries) => entries.flatten().map(|entry| entry.file_name()).collect(),
            Err(_) => continue,
        };
        let inside = subvolume::open_folder(&folder)?;
        for name in entries {
            let path = folder.join(&name);
            if is_number(&name) && subvolume::is_subvolume(&path) {
                subvolume::delete(&inside, &name)
                    .map_err(|e| Error::io("deleting the snapshot", &path, e))?;
            }
        }
        remove(&folder)?;
    }
    Ok(())
}

fn is_number(name: &OsString) -> bool {
    name.to_str().is_some_and(|name| name.parse::<u64>().is_ok())
}

fn remove(folder: &Path) -> Result<(), Error> {
    fs::remove_dir_all(folder).map_err(|e| Error::io("removing", folder, e))
}
