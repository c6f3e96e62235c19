//! What is wrong with the host rather than with one pool.

use super::{Code, Finding, Severity};
use crate::observed::{ObservedHost, ObservedPool};

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
