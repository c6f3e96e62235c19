//! After a reboot: making the kernel aware again of what an unfinished plan is about, and mounting
//! it.

use super::{Host, file_condition, probe};
use crate::system::{LeftBehind, System, SystemError, Waking};
use braid_disks::{HostRoot, luks};
use braid_pool::disk::Content;
use braid_pool::observed::{ObservedMd, ObservedPool};
use braid_pool::planner::{self, BootMount};
use braid_pool::step::{Action, Argv, Condition, Plan};
use braid_pool::uuid::Uuid;
use std::path::Path;
use std::time::{Duration, Instant};

/// Assembles the plan's arrays whose members are present, lets them continue what they were doing,
/// and tells the kernel of all btrfs devices: udev does so at boot, but not everywhere, and not for
/// an array that isn't in mdadm.conf yet. Then mounts what was mounted by hand.
pub fn wake(host: &mut Host, plan: &Plan, waking: Waking) -> Result<(), SystemError> {
    clear_passing(host, plan)?;
    open_volumes(host, plan)?;
    let seen = probe::observe();
    let arrays = seen.pools.iter().filter_map(|pool| match pool {
        ObservedPool::Md(md) => Some(md),
        ObservedPool::Btrfs(_) => None,
    });
    let mut awake = Vec::new();
    for md in arrays.filter(|md| arrays_of(plan).contains(&md.uuid)) {
        let node = md.path().unwrap_or_else(|| format!("/dev/md/{}", md.short_name()));
        if !md.runs() {
            assemble(host, md, &node)?;
        }
        awake.push(md.uuid);
        // After assembly it is "auto-read-only" until the first write, and meanwhile no recovery or
        // reshape continues (md(4)).
        attempt(host, &Argv::new("mdadm", ["--readwrite", &node]))?;
    }
    if seen.pools.iter().any(|pool| matches!(pool, ObservedPool::Btrfs(_))) {
        host.run(&Argv::new("btrfs", ["device", "scan"]), &mut |_| {})?;
    }
    // Otherwise what is to be undone would be in use.
    if waking == Waking::GoOn && !awake.is_empty() {
        mount_as_at_boot(host, &awake)?;
    }
    let needed = mounts_of(plan);
    if needed.is_empty() {
        return Ok(());
    }
    let seen = probe::observe();
    for (uuid, at) in needed {
        mount_again(host, plan, &seen.pools, uuid, at)?;
    }
    Ok(())
}

/// How long a cryptsetup that outlived us may keep working.
const PASSES_WITHIN: Duration = Duration::from_secs(30);

/// A killed cryptsetup may have left a mapping that keeps the disk busy.
fn clear_passing(host: &mut Host, plan: &Plan) -> Result<(), SystemError> {
    let root = HostRoot::real();
    let until = Instant::now() + PASSES_WITHIN;
    for claim in &plan.claims {
        let Ok(node) = std::fs::canonicalize(claim.path()) else { continue };
        loop {
            let found = luks::passing(&root, &node.to_string_lossy());
            for left in found.iter().filter(|passing| !passing.is_used) {
                attempt(host, &Argv::new("cryptsetup", ["close", &left.name]))?;
            }
            if !found.iter().any(|passing| passing.is_used) || Instant::now() > until {
                break;
            }
            if !host.settle(0) {
                return Err(SystemError::Stopped);
            }
        }
    }
    Ok(())
}

/// Opens again what a step of the plan opened and a reboot closed, if the disk is already
/// encrypted.
fn open_volumes(host: &mut Host, plan: &Plan) -> Result<(), SystemError> {
    let seen = probe::observe();
    for step in &plan.steps {
        let (Action::Run(argv), [open @ Condition::Open { uuid, .. }]) =
            (&step.action, step.after.as_slice())
        else {
            continue;
        };
        let is_it = |content: &Content| match content {
            Content::Filesystem { uuid: Some(found), .. } => found.parse() == Ok(*uuid),
            _ => false,
        };
        let is_there = seen.disks.iter().any(|disk| disk.contents.iter().any(is_it));
        let is_open = seen.check(open, &LeftBehind::Nothing).is_some_and(|found| found.holds());
        if is_there && !is_open {
            attempt(host, argv)?;
        }
    }
    Ok(())
}

/// Assembles an array that doesn't run. md doesn't start one that lacks members by itself; and a
/// raid5 or raid6 that lacks some and was being written to when the power failed starts only by
/// force: what was being written may be damaged, but there is no other way to bring it back. As
/// long as enough members have missed no write, forcing takes none that has.
fn assemble(host: &mut Host, md: &ObservedMd, node: &str) -> Result<(), SystemError> {
    if md.device.is_some() {
        attempt(host, &Argv::new("mdadm", ["--stop", node]))?;
    }
    let uuid = format!("--uuid={}", md.uuid.in_mdadm_form());
    let mut args = vec!["--assemble", node, uuid.as_str()];
    let survives = md.layout.map_or(0, |layout| layout.losses_survived(md.wants_disks));
    if (1..=survives).contains(&md.degraded) {
        args.extend(["--force", "--run"]);
    }
    attempt(host, &Argv::new("mdadm", args))
}

/// Mounts what these arrays carry as fstab says: at boot they weren't there.
fn mount_as_at_boot(host: &mut Host, arrays: &[Uuid]) -> Result<(), SystemError> {
    let configured = probe::observe_host(&host.config);
    let seen = probe::observe();
    for md in arrays.iter().filter_map(|array| seen.array(*array)) {
        let Some(on) = md.carries.as_ref().filter(|on| on.mounts.is_empty()) else { continue };
        let (Some(device), Some(uuid)) = (md.path(), on.uuid) else { continue };
        let Some(boot) = planner::boot_mount(&configured, uuid) else { continue };
        let BootMount { at, options } = boot;
        if !file_condition::is_mount_point(&at)? {
            let argv = Argv::new("mount", ["-t", &on.kind, "-o", &options, &device, &at]);
            attempt(host, &argv)?;
        }
    }
    Ok(())
}

/// Mounts a pool where it was when the plan was made, if fstab hasn't.
fn mount_again(
    host: &mut Host,
    plan: &Plan,
    pools: &[ObservedPool],
    uuid: Uuid,
    at: &str,
) -> Result<(), SystemError> {
    let Some((pool, device, kind)) = pools.iter().find_map(|pool| carrier(pool, uuid)) else {
        // The step that needs it will report it.
        return Ok(());
    };
    if pool.mounts().iter().any(|mount| mount.at == at) {
        return Ok(());
    }
    let stuck = |what: String| {
        let name = pool.name();
        Err(SystemError::Failed(format!("pool {name} was mounted at {at}, and now {what}")))
    };
    if file_condition::is_mount_point(at)? {
        return stuck("something else is mounted there: unmount it, and again".to_owned());
    }
    if !Path::new(at).is_dir() {
        return stuck(
            "there is no such folder: make it, or mount what it lies on, and again".to_owned(),
        );
    }
    let mut options = "noatime".to_owned();
    if let ObservedPool::Btrfs(btrfs) = pool {
        let leaving = leaving(plan, uuid);
        if let Some(member) = btrfs.missing().find(|member| !leaving.contains(&member.devid)) {
            return stuck(format!(
                "its member {} isn't there: attach that disk, and again; or, if it is dead, first \
                 `mount -o degraded,noatime {device} {at}`",
                member.devid
            ));
        }
        if btrfs.missing().next().is_some() {
            options.push_str(",degraded");
        }
        for path in btrfs.present().filter_map(|member| member.path.as_deref()) {
            options.push_str(&format!(",device={path}"));
        }
    }
    host.run(&Argv::new("mount", ["-t", &kind, "-o", &options, &device, at]), &mut |_| {})
}

/// The pool that is or carries the filesystem, one of its devices, and its kind.
fn carrier(pool: &ObservedPool, uuid: Uuid) -> Option<(&ObservedPool, String, String)> {
    match pool {
        ObservedPool::Btrfs(btrfs) if btrfs.uuid == uuid => {
            let device = btrfs.present().find_map(|member| member.path.clone())?;
            Some((pool, device, "btrfs".to_owned()))
        }
        ObservedPool::Md(md) => {
            let on = md.carries.as_ref().filter(|on| on.uuid == Some(uuid))?;
            Some((pool, md.path()?, on.kind.clone()))
        }
        ObservedPool::Btrfs(_) => None,
    }
}

/// What must be mounted, and where, that no step of the plan mounts.
fn mounts_of(plan: &Plan) -> Vec<(Uuid, &str)> {
    fn place(condition: &Condition) -> Option<(Uuid, &str)> {
        match condition {
            Condition::Mounted { uuid, at } => Some((*uuid, at)),
            _ => None,
        }
    }
    let made: Vec<(Uuid, &str)> =
        plan.steps.iter().flat_map(|step| &step.after).filter_map(place).collect();
    let mut needed: Vec<(Uuid, &str)> =
        plan.steps.iter().flat_map(|step| &step.before).filter_map(place).collect();
    needed.retain(|each| !made.contains(each));
    needed.sort_unstable();
    needed.dedup();
    needed
}

/// Numbers of the devices that the plan removes from the btrfs: these may be missing.
fn leaving(plan: &Plan, btrfs: Uuid) -> Vec<u64> {
    let conditions = plan.steps.iter().flat_map(|step| step.before.iter().chain(&step.after));
    conditions
        .filter_map(|condition| match condition {
            Condition::BtrfsDevid { uuid, devid } => Some((*uuid, *devid)),
            Condition::Not(inner) => match **inner {
                Condition::BtrfsDevid { uuid, devid } => Some((uuid, devid)),
                _ => None,
            },
            _ => None,
        })
        .filter_map(|(uuid, devid)| (uuid == btrfs).then_some(devid))
        .collect()
}

/// Runs a command that may fail: a half-made array can't be assembled (the step that makes it
/// clears it away), and one that is already read-write can't be made so.
fn attempt(host: &mut Host, argv: &Argv) -> Result<(), SystemError> {
    match host.run(argv, &mut |_| {}) {
        Err(SystemError::Stopped) => Err(SystemError::Stopped),
        _ => Ok(()),
    }
}

fn arrays_of(plan: &Plan) -> Vec<Uuid> {
    let conditions = plan.steps.iter().flat_map(|step| step.before.iter().chain(&step.after));
    conditions
        .filter_map(|condition| match condition {
            Condition::ArrayIs { uuid, .. }
            | Condition::ArrayMember { uuid, .. }
            | Condition::ArrayComplete { uuid } => Some(*uuid),
            _ => None,
        })
        .collect()
}
