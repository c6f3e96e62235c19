//! What is wrong with the disks below a pool, whatever its engine.

use super::{Code, Finding, Severity, Ward};
use crate::disk::{Disk, DiskId, Health};
use crate::observed::{ObservedPool, Scrub};
use crate::step::quoted;
use std::time::Duration;

pub(super) fn examine(ward: &Ward<'_>, pool: &ObservedPool, findings: &mut Vec<Finding>) {
    let members = members(ward, pool);
    shared(ward, &members, findings);
    for disk in &members {
        findings.extend(misaligned(ward, disk));
        findings.extend(failing(ward, disk));
    }
    let mut physical: Vec<&str> = members.iter().map(|disk| disk.physical_disk()).collect();
    physical.sort_unstable();
    physical.dedup();
    if is_redundant(pool) {
        findings.extend(physical.into_iter().filter_map(|disk| timeout(ward, disk)));
    }
}

/// A finding, if no scrub ended within the limit.
pub(super) fn overdue(ward: &Ward<'_>, scrub: &Scrub) -> Option<Finding> {
    if scrub.running || scrub.ended_ago.is_some_and(|ago| ago <= ward.limits.scrub_within) {
        return None;
    }
    if scrub.may_not_be_read {
        // Reported once for everything that this user may not see.
        return None;
    }
    if scrub.ended_ago.is_none()
        && scrub.pool_age.is_some_and(|age| age <= ward.limits.scrub_within)
    {
        let what = "no scrub is known, and the pool is new: the first is due within a month";
        return Some(ward.finding(Code::ScrubOverdue, Severity::Note, what, ward.scrub()));
    }
    let what = match scrub.ended_ago {
        Some(ago) => format!("the last scrub was {} days ago", ago.as_secs() / 86_400),
        None => "no scrub is known".to_owned(),
    };
    let what = format!("{what}: what went bad since then is found only when it is needed");
    Some(ward.finding(Code::ScrubOverdue, Severity::Attention, what, ward.scrub()))
}

fn members<'a>(ward: &Ward<'a>, pool: &ObservedPool) -> Vec<&'a Disk> {
    let ids: Vec<&DiskId> = match pool {
        ObservedPool::Btrfs(pool) => pool.members.iter().filter_map(|m| m.disk.as_ref()).collect(),
        ObservedPool::Md(pool) => pool.members.iter().filter_map(|m| m.disk.as_ref()).collect(),
    };
    ward.disks.iter().filter(|disk| ids.contains(&&disk.id())).collect()
}

fn is_redundant(pool: &ObservedPool) -> bool {
    match pool {
        ObservedPool::Btrfs(pool) => {
            pool.meant_profiles().is_some_and(|(data, _)| data.losses_survived() > 0)
        }
        ObservedPool::Md(pool) => {
            pool.layout.is_some_and(|layout| layout.losses_survived(pool.wants_disks) > 0)
        }
    }
}

fn shared(ward: &Ward<'_>, members: &[&Disk], findings: &mut Vec<Finding>) {
    for (index, disk) in members.iter().enumerate() {
        let same = |other: &&&Disk| other.physical_disk() == disk.physical_disk();
        if let Some(other) = members.iter().take(index).find(same) {
            let what = format!(
                "{} and {} lie on one physical disk: both are lost with it",
                other.path, disk.path
            );
            let mend = ward.braid("replace", &[&disk.path, &ward.new_disk(disk.size_bytes)]);
            findings.push(ward.finding(Code::SamePhysicalDisk, Severity::Danger, what, mend));
        }
    }
}

fn misaligned(ward: &Ward<'_>, disk: &Disk) -> Option<Finding> {
    let partition = disk.partition.as_ref()?;
    // 4096 even if the disk claims less: many do, and flash prefers even more.
    let sector = u64::from(disk.physical_sector_bytes.max(4096));
    if partition.start_bytes.is_multiple_of(sector) {
        return None;
    }
    let what = format!(
        "{} begins at byte {}, within a physical sector of {sector}: every write there costs a read and two writes",
        disk.path, partition.start_bytes
    );
    let mend = ward.braid("replace", &[&disk.path, &ward.new_disk(disk.size_bytes)]);
    Some(ward.finding(Code::Misaligned, Severity::Attention, what, mend))
}

fn failing(ward: &Ward<'_>, disk: &Disk) -> Option<Finding> {
    let (severity, why) = match &disk.health {
        Health::Failing { why } => (Severity::Danger, why),
        Health::Doubtful { why } => (Severity::Attention, why),
        Health::Good | Health::Unknown => return None,
    };
    let what = format!("{} (serial {}) says of itself: {why}", disk.path, disk.id());
    let mend = ward.braid("replace", &[&disk.path, &ward.new_disk(disk.size_bytes)]);
    Some(ward.finding(Code::FailingDisk, severity, what, mend))
}

/// Longest error recovery of disks with no limit, or with it off: minutes. The kernel usually waits
/// 30 s.
const PATIENCE_WITHOUT_LIMIT: Duration = Duration::from_secs(180);

fn timeout(ward: &Ward<'_>, physical: &str) -> Option<Finding> {
    let timeout = ward.host.timeouts.iter().find(|timeout| timeout.disk == physical)?;
    let takes = timeout.error_recovery.unwrap_or(PATIENCE_WITHOUT_LIMIT);
    if takes < timeout.driver_timeout {
        return None;
    }
    let tries = match timeout.error_recovery {
        Some(takes) => format!("for {} s", takes.as_secs()),
        None => "without a limit".to_owned(),
    };
    let what = format!(
        "{physical} tries {tries} to read a bad sector, the kernel waits {} s: a disk that only needed time is thrown out",
        timeout.driver_timeout.as_secs()
    );
    let mend = if timeout.can_limit {
        format!("smartctl -l scterc,70,70 {}", quoted(physical))
    } else {
        let name = physical.rsplit('/').next().unwrap_or(physical);
        format!("echo {} > /sys/block/{name}/device/timeout", PATIENCE_WITHOUT_LIMIT.as_secs() + 1)
    };
    Some(ward.finding(Code::Timeout, Severity::Attention, what, mend))
}
