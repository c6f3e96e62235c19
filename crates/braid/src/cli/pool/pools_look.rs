//! What a look at the pools leaves for the page, which may not ask disks itself.

use super::examined::Examined;
use crate::cli::failure::Failure;
use braid_page::{DiskLine, FindingLine, PoolLine, PoolsLook};
use braid_pool::disk::{Disk, Health};
use braid_pool::doctor::{Finding, Severity};
use braid_pool::observed::ObservedPool;
use braid_pool::summary::Summary;
use braid_pool::untrusted::one_line;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Writes it.
pub fn write(file: &Path, examined: &Examined) -> Result<(), Failure> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let whole = examined.disks.iter().filter(|disk| disk.partition.is_none());
    let look = PoolsLook {
        looked_unix: i64::try_from(now.as_secs()).unwrap_or(i64::MAX),
        pools: examined.pools.iter().map(pool).collect(),
        disks: whole.map(disk).collect(),
        findings: examined.findings.iter().map(finding).collect(),
    };
    look.write(file).map_err(|error| Failure::io(&format!("writing {}", file.display()), &error))
}

fn pool(pool: &ObservedPool) -> PoolLine {
    let summary = Summary::of(pool);
    PoolLine {
        name: one_line(&summary.name),
        layout: summary.layout,
        state: summary.state.to_string(),
        disks: summary.disks,
        lacking: summary.lacking,
        size_bytes: summary.size_bytes,
        used_bytes: summary.used_bytes,
        mounted_at: summary.mounted_at,
        activity: summary.activity.map(|activity| activity.to_string()),
    }
}

fn disk(disk: &Disk) -> DiskLine {
    DiskLine {
        path: disk.path.clone(),
        model: disk.identity.model.clone(),
        serial: disk.identity.serial.clone(),
        size_bytes: disk.size_bytes,
        kind: disk.kind.to_string(),
        health: match &disk.health {
            Health::Good => "good".to_owned(),
            Health::Doubtful { why } => format!("doubtful: {why}"),
            Health::Failing { why } => format!("failing: {why}"),
            Health::Unknown => "–".to_owned(),
        },
    }
}

fn finding(finding: &Finding) -> FindingLine {
    let severity = match finding.severity {
        Severity::Note => "note",
        Severity::Attention => "attention",
        Severity::Danger => "danger",
        Severity::Lost => "lost",
    };
    FindingLine {
        severity: severity.to_owned(),
        pool: finding.pool.as_deref().map(one_line),
        what: one_line(&finding.what),
        mend: one_line(&finding.mend),
    }
}
