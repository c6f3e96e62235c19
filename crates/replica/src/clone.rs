//! A whole btrfs system to another filesystem, bootable there.
//!
//! All subvolumes go over by snapshot, send and receive, so what they share
//! stays shared; then they are put where they were, the default subvolume is
//! set, and what names the old filesystem's UUID is rewritten in the system
//! that will boot. The old system isn't changed, and the two filesystems never
//! have the same UUID.

mod beside;
mod boot;
mod fstab;
mod layout;
mod mount;
mod nest;
mod transfer;

pub use beside::OldBeside;
pub use boot::BootStep;
pub use layout::{Layout, Part};
pub use mount::mount_privately;

use crate::error::Error;
use crate::exact_path::ExactPath;
use crate::source::Manner;
use crate::subvolume;
use braid_pool::uuid::Uuid;
use mount::{Beside, TopLevel, is_encrypted};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// What is cloned to where.
pub struct SystemClone {
    /// Any path on the old filesystem: `/`.
    pub from: PathBuf,
    /// Where the new filesystem, an empty btrfs, is mounted, or its device.
    pub to: PathBuf,
    /// The subvolume that holds the system, by its path from the top level, if
    /// it can't be found out.
    pub root: Option<PathBuf>,
    /// Subvolumes that stay behind, with all below them.
    pub skip: Vec<PathBuf>,
    /// Filesystems of other kinds that belong to the system (the ESP, `/boot`), old and new: where
    /// they are mounted, or their devices.
    pub beside: Vec<(PathBuf, PathBuf)>,
    /// The disk that a BIOS shall be able to start.
    pub boot_disk: Option<PathBuf>,
    /// Whether to run what makes the new system boot, inside it.
    pub finish: bool,
    /// How fast, and who watches.
    pub manner: Manner,
}

/// What a clone is, or will be.
#[derive(Clone, Debug, Serialize)]
pub struct Plan {
    /// The old filesystem.
    pub from: Uuid,
    /// The new one.
    pub to: Uuid,
    /// The subvolumes that go over, holders first.
    pub parts: Vec<Part>,
    /// The one that holds the system.
    pub root: ExactPath,
    /// The one that is mounted when none is named.
    pub default: ExactPath,
    /// What has to be run in the new system, once all is there.
    pub boot: Vec<BootStep>,
    /// The old filesystem is on an encrypted device. The new one is what its device is.
    pub encrypted: bool,
}

/// What a system needs of a new disk.
#[derive(Clone, Debug)]
pub struct OldSide {
    /// Its filesystems of other kinds that take part in booting.
    pub beside: Vec<OldBeside>,
    /// What its fstab names and that doesn't go over.
    pub warnings: Vec<String>,
    /// How full the btrfs is.
    pub used_bytes: u64,
    /// The btrfs is on an encrypted device.
    pub encrypted: bool,
}

/// What was done.
#[derive(Clone, Debug, Serialize)]
pub struct Cloned {
    /// What was planned.
    #[serde(flatten)]
    pub plan: Plan,
    /// Bytes of all streams.
    pub stream_bytes: u64,
    /// The files in the new system that name the new filesystem now.
    pub rewritten: Vec<ExactPath>,
    /// What a person should look at.
    pub warnings: Vec<String>,
}

impl SystemClone {
    /// Looks at both sides.
    ///
    /// # Errors
    /// One isn't btrfs, both are the same, the new one isn't empty, or the
    /// system's subvolume can't be found.
    pub fn plan(&self) -> Result<Plan, Error> {
        let (from, to) = (TopLevel::mount(&self.from)?, TopLevel::mount(&self.to)?);
        self.plan_between(&from, &to)
    }

    fn plan_between(&self, from: &TopLevel, to: &TopLevel) -> Result<Plan, Error> {
        if from.filesystem == to.filesystem {
            return Err(Error::Refused(format!(
                "{} and {} are the same filesystem {}; if one is a copy of the other's disk, give \
                 it its own UUID first: btrfstune -u",
                self.from.display(),
                self.to.display(),
                from.filesystem
            )));
        }
        let layout = Layout::read(from, &self.skip)?;
        let there = Layout::read(to, &[])?;
        let is_ours = |part: &Part| part.path.as_path().starts_with(transfer::STAGING);
        if let Some(part) = there.parts.iter().find(|part| !is_ours(part) && part.id != 5) {
            let same = layout.parts.iter().any(|ours| ours.path == part.path);
            if !same || !to.path().join(transfer::STAGING).exists() {
                return Err(Error::Refused(format!(
                    "{} isn't empty: the subvolume {} is there",
                    self.to.display(),
                    part.path
                )));
            }
        }
        let root = layout.root(from, self.root.as_deref())?;
        let has_esp = !self.beside.is_empty();
        let system = from.path().join(root.as_path());
        let boot = boot::steps(&system, has_esp, self.boot_disk.as_deref());
        let default = layout.default_path();
        Ok(Plan {
            from: from.filesystem,
            to: to.filesystem,
            parts: layout.parts,
            root,
            default,
            boot,
            encrypted: is_encrypted(from.filesystem),
        })
    }

    /// What the system in the old filesystem has beside it, and how many bytes are in it.
    ///
    /// # Errors
    /// It isn't btrfs, or the system's subvolume can't be found.
    pub fn old_side(&self) -> Result<OldSide, Error> {
        let from = TopLevel::mount(&self.from)?;
        let root = Layout::read(&from, &self.skip)?.root(&from, self.root.as_deref())?;
        let system = from.path().join(root.as_path());
        Ok(OldSide {
            beside: beside::of_system(&system)?,
            warnings: beside::left_behind(&system, from.filesystem)?,
            used_bytes: beside::used_bytes(from.path())?,
            encrypted: is_encrypted(from.filesystem),
        })
    }

    /// Does it; interrupted, it goes on when it is done again.
    ///
    /// # Errors
    /// As of [`SystemClone::plan`]; something can't be read or written; a command that makes it
    /// boot fails.
    pub fn carry_out(&self) -> Result<Cloned, Error> {
        let (from, to) = (TopLevel::mount(&self.from)?, TopLevel::mount(&self.to)?);
        let plan = self.plan_between(&from, &to)?;
        let mut beside = vec![];
        for (old, new) in &self.beside {
            beside.push((Beside::open(old)?, Beside::open(new)?));
        }
        let stream_bytes = transfer::transfer(&from, &to, &plan.parts, &self.manner)?;
        let ids = nest::nest(&to, &plan.parts)?;
        let new_id = |path: &ExactPath| {
            let part = plan.parts.iter().find(|part| part.path == *path);
            part.and_then(|part| ids.get(&part.id)).copied().unwrap_or(subvolume::TOP_LEVEL)
        };
        subvolume::set_default(to.file(), new_id(&plan.default))
            .map_err(|e| Error::io("setting the default subvolume of", &self.to, e))?;
        let system = to.path().join(plan.root.as_path());
        let places = beside::places(&system, &beside)?;
        let mut changes = boot::Changes::new(plan.from, plan.to, ids);
        changes.note_partitions(&from.device()?, &to.device()?)?;
        for (old, new) in &beside {
            changes.copy_beside(old, new)?;
        }
        changes.rewrite_system(&system)?;
        for part in plan.parts.iter().filter(|part| part.is_for_boot(plan.root.as_path())) {
            changes.rewrite_boot(&to.path().join(part.path.as_path()))?;
        }
        for (_, new) in &beside {
            changes.rewrite_boot(new.path())?;
            boot::be_found(new.path())?;
        }
        if self.finish {
            let mounted: Vec<(&Path, &Path)> = beside
                .iter()
                .zip(&places)
                .map(|((_, new), at)| (new.path(), at.as_path()))
                .collect();
            boot::finish(&system, &mounted, &plan.boot)?;
        }
        nest::make_read_only(&to, &plan.parts)?;
        for top in [&from, &to] {
            subvolume::sync(top.file()).map_err(|e| Error::io("writing out", top.path(), e))?;
        }
        for (_, new) in &beside {
            new.sync()?;
        }
        // What was staged tells a second try that the first one began: it goes last.
        transfer::clean(&from, &to)?;
        let top = to.path().to_owned();
        let shown = |path: &Path| ExactPath::from(path.strip_prefix(&top).unwrap_or(path));
        Ok(Cloned {
            rewritten: changes.rewritten.iter().map(|path| shown(path)).collect(),
            warnings: changes.warnings,
            stream_bytes,
            plan,
        })
    }
}
