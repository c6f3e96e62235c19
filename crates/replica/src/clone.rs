//! A whole btrfs system to another filesystem, bootable there.
//!
//! All subvolumes go over by snapshot, send and receive, so what they share
//! stays shared; then they are put where they were, the default subvolume is
//! set, and what names the old filesystem's UUID is rewritten in the system
//! that will boot. The old system isn't changed, and the two filesystems never
//! have the same UUID.

mod boot;
mod fstab;
mod layout;
mod mount;
mod nest;
mod transfer;

pub use boot::BootStep;
pub use layout::{Layout, Part};

use crate::error::Error;
use crate::exact_path::ExactPath;
use crate::source::Manner;
use crate::subvolume;
use braid_pool::uuid::Uuid;
use mount::TopLevel;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// What is cloned to where.
pub struct SystemClone {
    /// Any path on the old filesystem: `/`.
    pub from: PathBuf,
    /// Where the new filesystem, an empty btrfs, is mounted.
    pub to: PathBuf,
    /// The subvolume that holds the system, by its path from the top level, if
    /// it can't be found out.
    pub root: Option<PathBuf>,
    /// Subvolumes that stay behind, with all below them.
    pub skip: Vec<PathBuf>,
    /// The old and the new EFI system partition, where they are mounted.
    pub esp: Option<(PathBuf, PathBuf)>,
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

    /// Runs what makes the new system boot, inside it.
    ///
    /// # Errors
    /// A command fails; the message has its output.
    pub fn finish(&self, plan: &Plan) -> Result<(), Error> {
        let to = TopLevel::mount(&self.to)?;
        let esp = self.esp.as_ref().map(|(_, new)| new.as_path());
        boot::finish(&to.path().join(plan.root.as_path()), esp, &plan.boot)
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
        let boot = boot::steps(&from.path().join(root.as_path()), self.esp.is_some());
        let default = layout.default_path();
        Ok(Plan {
            from: from.filesystem,
            to: to.filesystem,
            parts: layout.parts,
            root,
            default,
            boot,
        })
    }

    /// Does it; interrupted, it goes on when it is done again.
    ///
    /// # Errors
    /// As of [`SystemClone::plan`]; something can't be read or written.
    pub fn carry_out(&self) -> Result<Cloned, Error> {
        let (from, to) = (TopLevel::mount(&self.from)?, TopLevel::mount(&self.to)?);
        let plan = self.plan_between(&from, &to)?;
        let stream_bytes = transfer::transfer(&from, &to, &plan.parts, &self.manner)?;
        let ids = nest::nest(&to, &plan.parts)?;
        let new_id = |path: &ExactPath| {
            let part = plan.parts.iter().find(|part| part.path == *path);
            part.and_then(|part| ids.get(&part.id)).copied().unwrap_or(subvolume::TOP_LEVEL)
        };
        subvolume::set_default(to.file(), new_id(&plan.default))
            .map_err(|e| Error::io("setting the default subvolume of", &self.to, e))?;
        let mut changes = boot::Changes::new(plan.from, plan.to, ids);
        if let Some((old, new)) = &self.esp {
            changes.copy_esp(old, new)?;
        }
        let system = to.path().join(plan.root.as_path());
        changes.rewrite_system(&system)?;
        for part in plan.parts.iter().filter(|part| part.is_for_boot(plan.root.as_path())) {
            changes.rewrite_boot(&to.path().join(part.path.as_path()))?;
        }
        if let Some((_, new)) = &self.esp {
            changes.rewrite_boot(new)?;
        }
        nest::make_read_only(&to, &plan.parts)?;
        transfer::clean(&from, &to)?;
        subvolume::sync(to.file()).map_err(|e| Error::io("writing out", &self.to, e))?;
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
