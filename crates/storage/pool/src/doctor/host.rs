//! What is wrong with the host rather than with one pool.

use super::{Code, Finding, NEW, Severity, Ward};
use crate::absent_mounts;
use crate::observed::{ObservedHost, ObservedPool};
use crate::step::quoted;
use crate::summary::Summary;
use crate::untrusted::Untrusted;
use braid_units::ByteSize;

pub(super) fn not_mounted(ward: &Ward<'_>, pool: &ObservedPool) -> Option<Finding> {
    // That an array isn't assembled is reported elsewhere.
    if matches!(pool, ObservedPool::Md(md) if md.device.is_none()) {
        return None;
    }
    let absent = absent_mounts::of_pool(pool, &ward.host.fstab);
    if absent.is_empty() {
        return None;
    }
    let lacks = matches!(pool, ObservedPool::Btrfs(btrfs) if btrfs.missing().next().is_some());
    let (how, until) = match lacks {
        // If written to while degraded, it would get chunks with one copy.
        true => ("mount -o ro,degraded", ", and lacks a member"),
        false => ("mount", ""),
    };
    let places: Vec<String> = absent.iter().map(|at| Untrusted(at).to_string()).collect();
    let what = format!(
        "fstab mounts it at {}, and it isn't mounted{until}: what is written there lands on the disk below",
        places.join(", ")
    );
    let mounts: Vec<String> = absent.iter().map(|at| format!("{how} {}", quoted(at))).collect();
    Some(ward.finding(Code::NotMounted, Severity::Danger, what, mounts.join(" && ")))
}

/// Percent of its room at which a pool counts as full.
const FULL: u64 = 95;

pub(super) fn full(ward: &Ward<'_>, pool: &ObservedPool) -> Option<Finding> {
    let summary = Summary::of(pool);
    let (size, used) = (summary.size_bytes?, summary.used_bytes?);
    let percent = used.saturating_mul(100).checked_div(size)?;
    if percent < FULL {
        return None;
    }
    let left = ByteSize::from_bytes(size.saturating_sub(used));
    let what = format!("{percent} % of its room is used: {left} are left");
    let mend = format!("braid pool add {} {NEW}", quoted(&ward.word));
    Some(ward.finding(Code::Full, Severity::Attention, what, mend))
}

pub(super) fn examine(pools: &[ObservedPool], host: &ObservedHost, findings: &mut Vec<Finding>) {
    let has_md = pools.iter().any(|pool| matches!(pool, ObservedPool::Md(_)));
    let has_btrfs = pools.iter().any(|pool| matches!(pool, ObservedPool::Btrfs(_)));
    if has_md && host.initramfs_stale == Some(true) {
        let command = host.initramfs_command.as_ref();
        findings.push(Finding {
            code: Code::StaleInitramfs,
            severity: Severity::Attention,
            pool: None,
            what: "the initramfs is older than mdadm.conf: at boot, arrays get the names of the old one"
                .to_owned(),
            mend: command.map_or("update-initramfs -u".to_owned(), |words| words.join(" ")),
        });
    }
    let sends_v2 = host.send_stream_version.is_some_and(|version| version >= 2);
    if let (true, true, Some(version)) = (has_btrfs, sends_v2, host.btrfs_progs)
        && version < (6, 0)
    {
        findings.push(Finding {
            code: Code::OldBtrfsProgs,
            severity: Severity::Note,
            pool: None,
            what: format!(
                "btrfs-progs {}.{} can't receive send protocol 2 (6.0 can), so compressed data is sent unpacked",
                version.0, version.1
            ),
            mend: "apt-get install --only-upgrade btrfs-progs".to_owned(),
        });
    }
}
