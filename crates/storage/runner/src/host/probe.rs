//! The current state of the host's disks and pools.

use super::condition::Observation;
use super::{ConfigRoot, Host, exclusive, filesystem_size};
use crate::system::{Answer, LeftBehind, SystemError};
use braid_disks::superblock::luks::{self, LuksSuper};
use braid_disks::tool::ask;
use braid_disks::{AskSmart, HostRoot, Inventory};
use braid_pool::disk::{Claim, Content, Disk};
use braid_pool::observed::{ObservedHost, ObservedPool};
use braid_pool::step::Condition;
use braid_pool::uuid::Uuid;
use std::io;
use std::path::Path;
use std::time::Duration;

/// The share of a device that may be left over: filesystems grow by whole groups.
const UNFILLED_PERCENT: u64 = 2;

/// Observes everything but the disks' health.
pub fn observe() -> Observation {
    let host = HostRoot::real();
    let inventory = Inventory::take(&host, AskSmart::No);
    let pools = braid_disks::pools::observe(&host, &inventory);
    Observation { disks: inventory.disks, pools }
}

/// The state of the host around the pools; its configuration is below `config`.
pub fn observe_host(config: &ConfigRoot) -> ObservedHost {
    observe_host_of(config, &Inventory::default())
}

/// The same, given its disks.
pub fn observe_host_of(config: &ConfigRoot, inventory: &Inventory) -> ObservedHost {
    let real = braid_disks::host::observe(&HostRoot::real(), inventory);
    if config.is_host() {
        return real;
    }
    let there = HostRoot::at(config.folder());
    let configured = braid_disks::host::observe(&there, &Inventory::default());
    ObservedHost {
        fstab: configured.fstab,
        crypttab: configured.crypttab,
        mdadm_conf: configured.mdadm_conf,
        initramfs_stale: configured.initramfs_stale,
        initramfs_command: configured.initramfs_command,
        systemd: configured.systemd,
        ..real
    }
}

/// Answers a condition on disks and pools.
pub fn check(
    host: &mut Host,
    condition: &Condition,
    left: &LeftBehind,
) -> Result<Answer, SystemError> {
    match condition {
        Condition::AsClaimed(claim) => claimed(claim, condition, left),
        Condition::FilesystemFillsDevice { uuid, at } => {
            fills_device(host.observation(), *uuid, at)
        }
        Condition::LuksKey { device, uuid, key_file } => luks_key(device, *uuid, key_file),
        Condition::Luks { device, uuid } => {
            let found = header(device)?.is_some_and(|found| found.uuid == *uuid);
            Ok(Answer::when(found, || "it has none, or another one".to_owned()))
        }
        Condition::LuksToken { device, kind } => {
            let slots = header(device)?.map_or_else(Vec::new, |found| found.slots);
            let found = slots.iter().any(|slot| slot.token.as_deref() == Some(kind));
            Ok(Answer::when(found, || "it has none".to_owned()))
        }
        Condition::HeaderBackedUp { device, file } => header_backed_up(device, file),
        Condition::Tagged { device, tag, value } => tagged(device, tag, value),
        Condition::Empty { .. } => {
            observe().check(condition, left).ok_or_else(|| unknown(condition))
        }
        other => host.observation().check(other, left).ok_or_else(|| unknown(other)),
    }
}

/// The disk is examined, and checked to be empty if it was, while it is held, so that nobody can
/// change it meanwhile.
fn claimed(claim: &Claim, condition: &Condition, left: &LeftBehind) -> Result<Answer, SystemError> {
    let held = exclusive::hold(claim.path()).ok().flatten();
    let is_claimed = |disk: &Disk| disk.id() == *claim.id();
    let host = HostRoot::real();
    let mut inventory = Inventory::take(&host, AskSmart::No);
    if held.is_some() {
        let ours = inventory.disks.iter_mut().filter(|disk| is_claimed(disk));
        ours.for_each(|disk| disk.contents.retain(|content| *content != Content::Busy));
    }
    // What an interrupted step left isn't blank, and can't be distinguished from other bytes.
    if *left == LeftBehind::Nothing {
        inventory.examine(is_claimed);
    }
    let seen = Observation { disks: inventory.disks, pools: Vec::new() };
    let answer = seen.check(condition, left).ok_or_else(|| unknown(condition))?;
    drop(held);
    Ok(answer)
}

/// How long a disk may take to answer.
const BLKID_LIMIT: Duration = Duration::from_secs(30);

fn tagged(device: &str, tag: &str, value: &str) -> Result<Answer, SystemError> {
    let arguments = ["-p", "-s", tag, "-o", "value", device];
    let answer = ask("blkid", &arguments, BLKID_LIMIT)
        .map_err(|error| SystemError::Failed(error.to_string()))?;
    let found = answer.out.trim();
    Ok(Answer::when(found.eq_ignore_ascii_case(value), || match found {
        "" => format!("{device} has none, or isn't there"),
        other => format!("it is {other}"),
    }))
}

/// The device's LUKS header; nothing if there is no device, or no header on it.
fn header(device: &str) -> Result<Option<LuksSuper>, SystemError> {
    match luks::read(Path::new(device)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        found => found.map_err(|error| SystemError::Failed(format!("{device}: {error}"))),
    }
}

/// How long cryptsetup may take to stretch a key: argon2 on a slow computer.
const KEY_LIMIT: Duration = Duration::from_secs(120);

fn luks_key(device: &str, uuid: Uuid, key_file: &str) -> Result<Answer, SystemError> {
    if header(device)?.is_none_or(|found| found.uuid != uuid) {
        return Ok(Answer::Fails("there is no such volume".to_owned()));
    }
    let arguments = ["open", "--test-passphrase", "--key-file", key_file, device];
    let answer = ask("cryptsetup", &arguments, KEY_LIMIT)
        .map_err(|error| SystemError::Failed(error.to_string()))?;
    Ok(Answer::when(answer.status == Some(0), || "it does not".to_owned()))
}

fn header_backed_up(device: &str, file: &str) -> Result<Answer, SystemError> {
    let now = header(device)?;
    let kept = header(file)?;
    let is_of = |kept: &LuksSuper| {
        now.as_ref().is_some_and(|now| (now.uuid, now.fingerprint) == (kept.uuid, kept.fingerprint))
    };
    Ok(Answer::when(kept.as_ref().is_some_and(is_of), || match kept {
        Some(_) => "it is of another state of it".to_owned(),
        None => "there is none".to_owned(),
    }))
}

fn fills_device(seen: &Observation, uuid: Uuid, at: &str) -> Result<Answer, SystemError> {
    let found = seen.pools.iter().find_map(|pool| match pool {
        ObservedPool::Md(md) => {
            let on = md.carries.as_ref().filter(|on| on.uuid == Some(uuid))?;
            Some((md.path()?, md.size_bytes, on.kind.clone()))
        }
        ObservedPool::Btrfs(_) => None,
    });
    let Some((device, size_bytes, kind)) = found else {
        return Ok(Answer::Fails(format!("there is no filesystem {uuid} on an array")));
    };
    let used = match kind.as_str() {
        "xfs" => filesystem_size::xfs(Path::new(at)),
        _ => filesystem_size::ext4(Path::new(&device)),
    };
    let used = used.map_err(|error| SystemError::Failed(format!("{at}: {error}")))?;
    let unfilled = size_bytes.saturating_sub(used);
    Ok(Answer::when(unfilled <= size_bytes / 100 * UNFILLED_PERCENT, || {
        format!("{} of its device are unused", braid_units::ByteSize::from_bytes(unfilled))
    }))
}

fn unknown(condition: &Condition) -> SystemError {
    SystemError::Failed(format!("nothing here can tell whether {condition}"))
}
