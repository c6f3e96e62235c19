//! Restoring from a snapshot.

use crate::archive;
use crate::error::Error;
use crate::exact_path::ExactPath;
use crate::files::{copy, rename_new};
use crate::replicate::inside_this_process;
use crate::sink::refuse_unmounted;
use crate::source::{self, SendOptions};
use crate::subvolume;
use crate::timestamp;
use braid_pool::place::Place;
use serde::Serialize;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// What to restore.
pub struct Restoration {
    /// A snapshot, or a file or folder inside one.
    pub from: PathBuf,
    /// Where to put it.
    pub to: PathBuf,
    /// What is at `to` is moved aside.
    pub replace: bool,
}

/// How it is restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// As a writable subvolume: instantly, and without using space.
    Subvolume,
    /// As a writable subvolume, made of stored streams.
    Streams,
    /// As a writable subvolume on another filesystem, filled with a copy.
    CopiedSubvolume,
    /// As a copy that shares its data with the snapshot where possible.
    Copy,
}

/// What was done, or would be.
#[derive(Clone, Debug, Serialize)]
pub struct Restored {
    /// How.
    pub method: Method,
    /// Where.
    pub to: ExactPath,
    /// Where the previous contents are now.
    pub moved_aside: Option<ExactPath>,
}

impl Restoration {
    /// Checks whether it can be done, and how.
    ///
    /// # Errors
    /// The source isn't there, or something is at the target and isn't to be
    /// replaced.
    pub fn plan(&self, now: SystemTime) -> Result<Restored, Error> {
        let stored = archive::entry_at(&self.from);
        if stored.is_none() {
            fs::symlink_metadata(&self.from).map_err(|error| self.not_found(error))?;
        }
        let (folder, name) = split(&self.to)?;
        refuse_unmounted(&folder)?;
        check_is_there(&folder)?;
        let moved_aside = match fs::symlink_metadata(&self.to) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(Error::io("looking at", &self.to, error)),
            Ok(_) if !self.replace => {
                return Err(Error::Refused(format!(
                    "{} is there already; with --replace it is moved aside",
                    self.to.display()
                )));
            }
            Ok(_) => {
                let mut aside = name.clone();
                aside.push(format!(".before-restore.{}", timestamp::format(now)));
                Some(folder.join(aside))
            }
        };
        let method = match stored {
            Some(_) if !subvolume::is_btrfs(&subvolume::open_folder(&folder)?) => {
                return Err(Error::Refused(format!(
                    "{} is not on btrfs, so a stored stream can't be carried out there",
                    folder.display()
                )));
            }
            Some(_) => Method::Streams,
            None if self.is_subvolume_of(&folder) => Method::Subvolume,
            None if subvolume::is_subvolume(&self.from)
                && subvolume::open_folder(&folder).is_ok_and(|into| subvolume::is_btrfs(&into)) =>
            {
                Method::CopiedSubvolume
            }
            None => Method::Copy,
        };
        Ok(Restored {
            method,
            to: self.to.as_path().into(),
            moved_aside: moved_aside.map(Into::into),
        })
    }

    /// Does it. What is being copied has another name until it is complete.
    ///
    /// # Errors
    /// As of [`Restoration::plan`]; the copy failed.
    pub fn carry_out(&self, now: SystemTime) -> Result<Restored, Error> {
        let plan = self.plan(now)?;
        let (folder, name) = split(&self.to)?;
        let mut unfinished = OsString::from(".");
        unfinished.push(&name);
        unfinished.push(".braid-restore");
        let unfinished = folder.join(unfinished);
        if unfinished.symlink_metadata().is_ok() {
            return Err(Error::Refused(format!(
                "{} is there: an interrupted restore left it; delete it",
                unfinished.display()
            )));
        }
        match plan.method {
            Method::Subvolume => {
                let (root, _) = subvolume::open(&self.from)?;
                let into = subvolume::open_folder(&folder)?;
                let part = unfinished.file_name().unwrap_or_default();
                subvolume::snapshot(&root, &into, part, false)
                    .map_err(|e| Error::io("making the subvolume", &unfinished, e))?;
            }
            Method::Streams => self.carry_out_streams(&folder, &unfinished)?,
            Method::CopiedSubvolume => {
                let into = subvolume::open_folder(&folder)?;
                subvolume::create(&into, unfinished.file_name().unwrap_or_default())
                    .map_err(|e| Error::io("making the subvolume", &unfinished, e))?;
                copy(&self.from, &unfinished)?;
            }
            Method::Copy => copy(&self.from, &unfinished)?,
        }
        if let Some(aside) = &plan.moved_aside {
            rename_new(&self.to, aside.as_path())?;
        }
        rename_new(&unfinished, &self.to)?;
        Ok(plan)
    }

    /// Receives the stream and those it builds on into a folder beside, of which the result is a
    /// snapshot; after an interruption this continues.
    fn carry_out_streams(&self, folder: &Path, unfinished: &Path) -> Result<(), Error> {
        let Some((archive, entry)) = archive::entry_at(&self.from) else {
            return Err(Error::Refused(format!("{} is no stored stream", self.from.display())));
        };
        let part = unfinished.file_name().unwrap_or_default();
        let mut staging = part.to_owned();
        staging.push(".streams");
        let staging = folder.join(staging);
        let choice = source::stored(archive, Some(&[entry.uuid()]))?;
        let names: Vec<OsString> = choice.wanted.iter().map(|one| one.name.clone()).collect();
        inside_this_process(&staging, |connection| {
            source::serve_chosen(
                connection,
                choice,
                &SendOptions { passing: true, ..SendOptions::default() },
            )
        })?;
        let (root, _) = subvolume::open(&staging.join(entry.begin.name.as_path()))?;
        let into = subvolume::open_folder(folder)?;
        subvolume::snapshot(&root, &into, part, false)
            .map_err(|e| Error::io("making the subvolume", unfinished, e))?;
        let inside = subvolume::open_folder(&staging)?;
        for name in names.iter().rev() {
            subvolume::delete(&inside, name)
                .map_err(|e| Error::io("deleting the subvolume", &staging.join(name), e))?;
        }
        fs::remove_dir_all(&staging).map_err(|e| Error::io("removing", &staging, e))
    }

    /// A place on another computer isn't a local path.
    fn not_found(&self, error: io::Error) -> Error {
        let place = self.from.to_str().and_then(|text| text.parse::<Place>().ok());
        match place {
            Some(place) if !matches!(place, Place::Local(_)) => Error::Refused(format!(
                "{place} is on another computer, and restore works on this one: fetch it first (braid pool replicate \
                 {place} FOLDER), then restore from there"
            )),
            _ => Error::io("looking at", &self.from, error),
        }
    }

    fn is_subvolume_of(&self, folder: &Path) -> bool {
        let filesystem = |path: &Path| {
            let file = fs::File::open(path).ok()?;
            subvolume::filesystem(&file).ok()
        };
        subvolume::is_subvolume(&self.from)
            && filesystem(&self.from).is_some_and(|ours| filesystem(folder) == Some(ours))
    }
}

/// A typo must not create folders.
fn check_is_there(folder: &Path) -> Result<(), Error> {
    match fs::metadata(folder) {
        Ok(about) if about.is_dir() => Ok(()),
        Ok(_) => Err(Error::Refused(format!("{} is no folder", folder.display()))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let word = braid_pool::step::quoted(&folder.display().to_string());
            let folder = folder.display();
            Err(Error::Refused(format!("the folder {folder} isn't there: `mkdir -p {word}`")))
        }
        Err(error) => Err(Error::io("looking at", folder, error)),
    }
}

fn split(to: &Path) -> Result<(PathBuf, OsString), Error> {
    let to = std::path::absolute(to).map_err(|e| Error::io("finding", to, e))?;
    match (to.parent(), to.file_name()) {
        (Some(folder), Some(name)) => Ok((folder.to_owned(), name.to_owned())),
        _ => Err(Error::Refused(format!("{} can't be restored to", to.display()))),
    }
}
