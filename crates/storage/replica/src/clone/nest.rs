//! Puts what was received in its place.

use super::layout::{Part, STAGING};
use super::mount::TopLevel;
use super::transfer::staged;
use crate::error::Error;
use crate::files::copy;
use crate::subvolume::{self, TOP_LEVEL};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Puts each subvolume, writable for now, where its original was; returns the
/// new numbers by the old ones.
pub fn nest(to: &TopLevel, parts: &[Part]) -> Result<BTreeMap<u64, u64>, Error> {
    let mut ids = BTreeMap::new();
    for part in parts {
        let came = staged(to, part);
        if part.id == TOP_LEVEL {
            fill_top_level(&came, to.path())?;
            ids.insert(TOP_LEVEL, TOP_LEVEL);
            continue;
        }
        let path = to.path().join(part.path.as_path());
        if !subvolume::is_subvolume(&path) {
            let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { continue };
            fs::create_dir_all(folder).map_err(|e| Error::io("making the folder", folder, e))?;
            let (root, _) = subvolume::open(&came)?;
            let into = subvolume::open_folder(folder)?;
            subvolume::snapshot(&root, &into, name, false)
                .map_err(|e| Error::io("making the subvolume", &path, e))?;
        }
        ids.insert(part.id, subvolume::open(&path)?.1.id);
    }
    Ok(ids)
}

/// Makes those with read-only originals read-only, once everything is in its place.
pub fn make_read_only(to: &TopLevel, parts: &[Part]) -> Result<(), Error> {
    for part in parts.iter().filter(|part| part.read_only) {
        let path = to.path().join(part.path.as_path());
        let (root, _) = subvolume::open(&path)?;
        subvolume::set_read_only(&root, true)
            .map_err(|e| Error::io("making read-only", &path, e))?;
    }
    Ok(())
}

/// The top level can't be replaced, only filled; usually it holds little but subvolumes.
fn fill_top_level(came: &Path, top: &Path) -> Result<(), Error> {
    let entries = fs::read_dir(came).map_err(|e| Error::io("reading the folder", came, e))?;
    for entry in entries {
        let entry = entry.map_err(|e| Error::io("reading the folder", came, e))?;
        let there = top.join(entry.file_name());
        if entry.file_name() == STAGING || there.symlink_metadata().is_ok() {
            continue;
        }
        copy(&entry.path(), &there)?;
    }
    Ok(())
}
