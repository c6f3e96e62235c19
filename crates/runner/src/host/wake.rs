//! After a reboot: making the kernel know again what an unfinished plan is about.

use super::{Host, probe};
use crate::system::SystemError;
use braid_pool::observed::ObservedPool;
use braid_pool::step::{Argv, Condition, Plan};
use braid_pool::uuid::Uuid;

/// Assembles the plan's arrays whose members are there and lets them go on with what they were at,
/// and tells the kernel of all btrfs devices: udev does so at boot, but not everywhere, and not
/// for an array that mdadm.conf doesn't know yet.
pub fn wake(host: &mut Host, plan: &Plan) -> Result<(), SystemError> {
    let seen = probe::observe();
    let arrays = seen.pools.iter().filter_map(|pool| match pool {
        ObservedPool::Md(md) => Some(md),
        ObservedPool::Btrfs(_) => None,
    });
    for md in arrays.filter(|md| arrays_of(plan).contains(&md.uuid)) {
        let node = md.path().unwrap_or_else(|| format!("/dev/md/{}", md.short_name()));
        if md.device.is_none() {
            let uuid = format!("--uuid={}", md.uuid.in_mdadm_form());
            attempt(host, &Argv::new("mdadm", ["--assemble", &node, &uuid]))?;
        }
        // After assembling it is "auto-read-only" until the first write, and as long as it is, no
        // recovery or reshape goes on (md(4)).
        attempt(host, &Argv::new("mdadm", ["--readwrite", &node]))?;
    }
    if seen.pools.iter().any(|pool| matches!(pool, ObservedPool::Btrfs(_))) {
        host.run(&Argv::new("btrfs", ["device", "scan"]), &mut |_| {})?;
    }
    Ok(())
}

/// Runs what needn't work: an array that was half made can't be assembled (the step that makes it
/// clears that away), and one that is read-write already can't become so.
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
