//! Clones a whole btrfs system to another filesystem, bootable there.
//!
//! All subvolumes are transferred by snapshot, send and receive, so what they share stays shared;
//! then they are put in their places, the default subvolume is set, and references to the old
//! filesystem's UUID are rewritten in the system that will boot. The old system isn't changed, and
//! the two filesystems never have the same UUID. The old one may be on another computer: everything
//! is written here.

mod beside;
mod boot;
mod forget;
mod fstab;
mod layout;
mod mount;
mod nest;
mod old;
mod transfer;

pub use crate::old_system::{Asked, CloneWork, OldSystem};
pub use beside::OldBeside;
pub use boot::{BootStep, Identity};
pub use forget::{Forgotten, forget};
pub use layout::{Layout, Part};
pub use mount::mount_privately;
pub(crate) use old::serve;

use crate::error::Error;
use crate::exact_path::ExactPath;
use crate::replicate::{Connector, Place, while_it_gets_on};
use crate::source::SendOptions;
use crate::subvolume;
use braid_pool::uuid::Uuid;
use mount::{Beside, TopLevel};
use old::Old;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What is cloned to where.
pub struct SystemClone {
    /// Any path on the old filesystem: `/`; here or on another computer.
    pub from: Place,
    /// How that is reached.
    pub connector: Connector,
    /// How often in a row a broken connection is re-established without progress.
    pub retries: u32,
    /// Where the new filesystem, an empty btrfs, is mounted, or its device.
    pub to: PathBuf,
    /// The subvolume that holds the system, by its path from the top level, if
    /// it can't be found out.
    pub root: Option<PathBuf>,
    /// Subvolumes to leave out, with everything below them.
    pub skip: Vec<PathBuf>,
    /// Filesystems of other kinds that belong to the system (the ESP, `/boot`), old and new: the
    /// mount point or device of each, at its end.
    pub beside: Vec<(PathBuf, PathBuf)>,
    /// The disk that a BIOS should be able to boot.
    pub boot_disk: Option<PathBuf>,
    /// Whether to run what makes the new system boot, inside it.
    pub finish: bool,
    /// How fast, and who watches.
    pub options: SendOptions,
}

/// What a clone contains, or will contain.
#[derive(Clone, Debug, Serialize)]
pub struct Plan {
    /// The old filesystem.
    pub from: Uuid,
    /// The new one.
    pub to: Uuid,
    /// The subvolumes to transfer, parents first.
    pub parts: Vec<Part>,
    /// The one that holds the system.
    pub root: ExactPath,
    /// The one that is mounted when none is named.
    pub default: ExactPath,
    /// What has to be run in the new system once everything is there.
    pub boot: Vec<BootStep>,
    /// The old filesystem is on an encrypted device. Whether the new one is depends on its device.
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
    /// Examines both sides.
    ///
    /// # Errors
    /// One isn't btrfs, both are the same, the new one isn't empty, or the
    /// system's subvolume can't be found.
    pub fn plan(&self) -> Result<Plan, Error> {
        let to = TopLevel::mount(&self.to)?;
        self.plan_between(self.old()?.look(&self.asked(false))?, &to).map(|(plan, _)| plan)
    }

    fn old(&self) -> Result<Old<'_>, Error> {
        Old::at(&self.from, &self.connector)
    }

    fn asked(&self, find_beside: bool) -> Asked {
        let exact = |path: &PathBuf| ExactPath::from(path.as_path());
        Asked {
            from: self.from.path().into(),
            root: self.root.as_ref().map(exact),
            skip: self.skip.iter().map(exact).collect(),
            beside: self.beside.iter().map(|(old, _)| exact(old)).collect(),
            find_beside,
            boot_disk: self.boot_disk.as_ref().map(exact),
        }
    }

    fn plan_between(&self, old: OldSystem, to: &TopLevel) -> Result<(Plan, OldSystem), Error> {
        if old.filesystem == to.filesystem {
            return Err(Error::Refused(format!(
                "{} and {} are the same filesystem {}; if one is a copy of the other's disk, give \
                 it its own UUID first: btrfstune -u",
                self.from,
                self.to.display(),
                old.filesystem
            )));
        }
        let there = Layout::read(to, &[])?;
        let is_ours = |part: &Part| part.path.as_path().starts_with(layout::STAGING);
        if let Some(part) = there.parts.iter().find(|part| !is_ours(part) && part.id != 5) {
            let same = old.parts.iter().any(|ours| ours.path == part.path);
            if !same || !to.path().join(layout::STAGING).exists() {
                return Err(Error::Refused(format!(
                    "{} isn't empty: the subvolume {} is there",
                    self.to.display(),
                    part.path
                )));
            }
        }
        let plan = Plan {
            from: old.filesystem,
            to: to.filesystem,
            parts: old.parts.clone(),
            root: old.root.clone(),
            default: old.default.clone(),
            boot: old.boot.clone(),
            encrypted: old.encrypted,
        };
        Ok((plan, old))
    }

    /// What belongs to the old system besides its btrfs, how many bytes are in it, and so on.
    ///
    /// # Errors
    /// It isn't btrfs, can't be reached, or the system's subvolume can't be found.
    pub fn old_side(&self) -> Result<OldSystem, Error> {
        self.old()?.look(&self.asked(true))
    }

    /// Does it; after an interruption, doing it again continues. `broke` is called for each broken
    /// connection before it is re-established.
    ///
    /// # Errors
    /// As of [`SystemClone::plan`]; something can't be read or written; a command that makes it
    /// boot fails.
    pub fn carry_out(&self, mut broke: impl FnMut(&Error, Duration)) -> Result<Cloned, Error> {
        let (old, to) = (self.old()?, TopLevel::mount(&self.to)?);
        let (plan, system) = self.plan_between(old.look(&self.asked(false))?, &to)?;
        let mut beside = vec![];
        for (_, new) in &self.beside {
            beside.push(Beside::open(new)?);
        }
        let staging = to.path().join(layout::STAGING);
        let stream_bytes =
            old.send(&plan.parts, &staging, &self.options, self.retries, &mut broke)?;
        let ids = nest::nest(&to, &plan.parts)?;
        let new_id = |path: &ExactPath| {
            let part = plan.parts.iter().find(|part| part.path == *path);
            part.and_then(|part| ids.get(&part.id)).copied().unwrap_or(subvolume::TOP_LEVEL)
        };
        subvolume::set_default(to.file(), new_id(&plan.default))
            .map_err(|e| Error::io("setting the default subvolume of", &self.to, e))?;
        let root = to.path().join(plan.root.as_path());
        let places = beside::places(&root, &system.beside, &beside)?;
        let mut changes = boot::Changes::new(plan.from, plan.to, ids);
        changes.note_partitions(system.partition, Identity::of(&to.device()?)?.partition);
        for (((path, _), id), new) in self.beside.iter().zip(&system.beside).zip(&beside) {
            // Starts over when the connection breaks.
            while_it_gets_on(self.retries, &self.options.watch, true, &mut broke, || {
                old.copy_beside(path, new)
            })?;
            changes.note_beside(path, id, new)?;
        }
        changes.rewrite_system(&root)?;
        for part in plan.parts.iter().filter(|part| part.is_for_boot(plan.root.as_path())) {
            changes.rewrite_boot(&to.path().join(part.path.as_path()))?;
        }
        for new in &beside {
            changes.rewrite_boot(new.path())?;
            boot::be_found(new.path())?;
        }
        if self.finish {
            let mounted: Vec<(&Path, &Path)> =
                beside.iter().zip(&places).map(|(new, at)| (new.path(), at.as_path())).collect();
            let mut devices = vec![(plan.to.to_string(), to.device()?)];
            for new in &beside {
                let uuid = Identity::of(new.path())?.filesystem;
                devices.extend(uuid.zip(boot::device_at(new.path())?));
            }
            boot::finish(&root, &devices, &mounted, &plan.boot)?;
        }
        nest::make_read_only(&to, &plan.parts)?;
        subvolume::sync(to.file()).map_err(|e| Error::io("writing out", to.path(), e))?;
        for new in &beside {
            new.sync()?;
        }
        // What was staged tells a second try that the first one began: it goes last.
        while_it_gets_on(self.retries, &self.options.watch, true, &mut broke, || old.clean())?;
        transfer::clean(&to)?;
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
