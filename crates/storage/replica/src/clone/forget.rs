//! Removes what an interrupted clone left.

use super::layout::STAGING;
use super::mount::TopLevel;
use super::old::Old;
use super::transfer;
use crate::error::Error;
use crate::exact_path::ExactPath;
use crate::replicate::{Connector, Place};
use crate::sink;
use crate::subvolume::{self, TOP_LEVEL};
use serde::Serialize;
use std::fs;
use std::path::{Path, PathBuf};

/// What was deleted, or would be.
#[derive(Clone, Debug, Serialize)]
pub struct Forgotten {
    /// Subvolumes of the new filesystem.
    pub deleted: Vec<ExactPath>,
}

/// Deletes the snapshots that a clone took of the system at `from`, and what it put into the new
/// filesystem `to`, unless it is complete. Of the latter only subvolumes: files that were copied
/// into its top level stay. Without `carry_out` nothing is deleted.
///
/// # Errors
/// One of them can't be reached, or something can't be deleted.
pub fn forget(
    from: &Place,
    to: Option<&Path>,
    connector: &Connector,
    carry_out: bool,
) -> Result<Forgotten, Error> {
    let mut deleted = vec![];
    if let Some(to) = to {
        let top = TopLevel::mount(to)?;
        if let Some(ours) = made_by_the_clone(&top)? {
            if carry_out {
                take_back(&top, &ours)?;
            }
            deleted = ours.into_iter().map(ExactPath::from).collect();
        }
    }
    if carry_out {
        Old::at(from, connector)?.clean()?;
    }
    Ok(Forgotten { deleted })
}

/// Descendants of what was staged, innermost first; `None` if no clone was begun.
fn made_by_the_clone(top: &TopLevel) -> Result<Option<Vec<PathBuf>>, Error> {
    let Some(staged) = transfer::staged_uuids(top)? else { return Ok(None) };
    let listed = subvolume::list(top.file())
        .map_err(|e| Error::io("listing the subvolumes of", top.path(), e))?;
    let mut ours = vec![];
    for one in listed.into_iter().filter(|one| !one.path.starts_with(STAGING)) {
        let (_, about) = subvolume::open(&top.path().join(&one.path))?;
        if about.parent_uuid.is_some_and(|parent| staged.contains(&parent)) {
            ours.push(one.path);
        }
    }
    ours.sort_by_key(|path| std::cmp::Reverse(path.components().count()));
    Ok(Some(ours))
}

fn take_back(top: &TopLevel, ours: &[PathBuf]) -> Result<(), Error> {
    // The default subvolume can't be deleted, nor anything inside a read-only one.
    subvolume::set_default(top.file(), TOP_LEVEL)
        .map_err(|e| Error::io("setting the default subvolume of", top.path(), e))?;
    for relative in ours {
        let path = top.path().join(relative);
        subvolume::set_read_only(&subvolume::open(&path)?.0, false)
            .map_err(|e| Error::io("making writable", &path, e))?;
    }
    for relative in ours {
        let path = top.path().join(relative);
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { continue };
        subvolume::delete(&subvolume::open_folder(folder)?, name)
            .map_err(|e| Error::io("deleting the subvolume", &path, e))?;
        // Folders that were made for it go with it; one that holds anything else stays.
        let made = relative.ancestors().skip(1).filter(|made| !made.as_os_str().is_empty());
        for folder in made {
            if fs::remove_dir(top.path().join(folder)).is_err() {
                break;
            }
        }
    }
    sink::abandon(&top.path().join(STAGING))?;
    transfer::clean(top)
}
