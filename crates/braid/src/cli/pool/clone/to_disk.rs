//! A clone onto its own disk: a plan whose last step is this command once more.

use super::Clone;
use crate::cli::Global;
use crate::cli::failure::Failure;
use crate::cli::pool::carry_out::carry_out;
use crate::cli::pool::random_uuid::random_uuid;
use crate::cli::pool::seen::Seen;
use braid_pool::planner::{self, CopyArg, NewPartition, NewSystemDisk, PartitionKind};
use braid_replica::clone::OldBeside;
use braid_replica::replicate::Place;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::Arc;

const MIB: u64 = 1 << 20;
/// The size that GRUB needs.
const BIOS_BOOT: u64 = MIB;
/// Room for several kernels, in case they are stored on it.
const ESP: u64 = 512 * MIB;

pub fn run(clone: &Clone, disk: &str, global: &Global) -> Result<(), Failure> {
    let mut seen = Seen::now(&clone.consent.place.config());
    let mut disks = seen.disks(&[disk.to_owned()])?;
    let erase = seen.permission(&clone.erase, &disks)?;
    let Some(disk) = disks.pop() else { return Ok(()) };
    let old = clone.system_clone(PathBuf::new(), Arc::default())?.old_side()?;
    if old.encrypted && !clone.unencrypted {
        return Err(Failure::failed(
            "the old system is on an encrypted device, but the new disk would not be encrypted: \
             make an encrypted btrfs there yourself and clone to it, or add --unencrypted",
        ));
    }
    let mut warnings = old.warnings;
    if old.encrypted {
        warnings.push("the new disk is NOT encrypted, unlike the old one".to_owned());
    }
    if !clone.finish {
        warnings.push(
            "without --finish boot loader and initramfs are copied as they are, and a BIOS can't \
             start the disk"
                .to_owned(),
        );
    }
    let (partitions, beside) = partitions(&old.found)?;
    let copy = copy(clone, &beside, partitions.len())?;
    let mut forget: Vec<String> =
        ["pool", "clone", "--yes", "--forget"].map(str::to_owned).to_vec();
    forget.push(source(clone)?);
    forget.extend(clone.reach.words());
    let plan = planner::system_disk(&NewSystemDisk {
        disk,
        erase,
        table: random_uuid()?,
        partitions,
        needs_bytes: old.used_bytes,
        warnings,
        from: clone.from.to_string(),
        copy,
        forget,
    })?;
    carry_out(plan, &clone.consent, global)
}

/// A part of the old system outside its btrfs, and the number of the partition that takes it.
type Taken<'a> = (&'a OldBeside, usize);

/// The disk's partitions: for EFI and for BIOS, so that it boots in any computer; then for the old
/// system's parts.
fn partitions(old: &[OldBeside]) -> Result<(Vec<NewPartition>, Vec<Taken<'_>>), Failure> {
    let mut partitions = vec![];
    let mut add = |kind, size_bytes| -> Result<usize, Failure> {
        let (id, filesystem) = (random_uuid()?, random_uuid()?);
        partitions.push(NewPartition { kind, size_bytes, id, filesystem });
        Ok(partitions.len())
    };
    add(PartitionKind::BiosBoot, Some(BIOS_BOOT))?;
    let is_fat = |one: &&OldBeside| one.kind == "vfat";
    let fat_size = old.iter().find(is_fat).map_or(0, |one| one.size_bytes.next_multiple_of(MIB));
    let esp = add(PartitionKind::Esp, Some(fat_size.max(ESP)))?;
    let mut beside = vec![];
    for one in old {
        match one.kind.as_str() {
            "vfat" if !beside.iter().any(|(_, number)| *number == esp) => beside.push((one, esp)),
            "ext2" | "ext3" | "ext4" | "xfs" => {
                let size = one.size_bytes.next_multiple_of(MIB);
                beside.push((one, add(PartitionKind::Ext4, Some(size))?));
            }
            other => {
                return Err(Failure::failed(format!(
                    "the old system has a {other} at {}, which --to-disk can't recreate: prepare \
                     the disk yourself, and name both with --beside",
                    one.at
                )));
            }
        }
    }
    add(PartitionKind::Btrfs, None)?;
    Ok((partitions, beside))
}

/// An absolute path to the old system, independent of where the plan is carried out.
fn source(clone: &Clone) -> Result<String, Failure> {
    let Place::Local(path) = &clone.from else { return Ok(clone.from.to_string()) };
    let real = std::fs::canonicalize(path)
        .map_err(|error| Failure::io(&path.display().to_string(), &error))?;
    let text = real.to_str().map(str::to_owned);
    text.ok_or_else(|| Failure::failed(format!("{real:?} can't be stored in a plan")))
}

/// This same command, with devices as source and target.
fn copy(
    clone: &Clone,
    beside: &[Taken<'_>],
    system: usize,
) -> Result<(String, Vec<CopyArg>), Failure> {
    let text = |text: &OsStr| match text.to_str() {
        Some(text) => Ok(CopyArg::Text(text.to_owned())),
        None => Err(Failure::failed(format!("{text:?} can't be stored in a plan"))),
    };
    let word = |word: &str| CopyArg::Text(word.to_owned());
    let mut args = ["pool", "clone", "--yes"].map(word).to_vec();
    args.extend([CopyArg::Text(source(clone)?), CopyArg::Partition(system)]);
    args.extend(clone.reach.words().into_iter().map(CopyArg::Text));
    for (old, number) in beside {
        args.push(word("--beside"));
        args.extend([text(old.device.as_os_str())?, CopyArg::Partition(*number)]);
    }
    for (option, value) in clone
        .root
        .iter()
        .map(|root| ("--root", root))
        .chain(clone.skip.iter().map(|skip| ("--skip", skip)))
    {
        args.extend([word(option), text(value.as_os_str())?]);
    }
    if let Some(limit) = clone.limit {
        args.extend([word("--limit"), word(&limit.to_string())]);
    }
    if clone.finish {
        args.extend([word("--finish"), word("--boot-disk"), CopyArg::Disk]);
    }
    // In a chroot or after an update the path that the kernel reports may not exist.
    let this = std::env::current_exe().ok().filter(|path| path.exists());
    Ok((this.map_or("braid".to_owned(), |path| path.display().to_string()), args))
}
