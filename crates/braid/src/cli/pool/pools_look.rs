//! The pools' state for the page, which may not query disks itself.

use super::examined::Examined;
use crate::cli::failure::Failure;
use braid_page::{DiskLine, FindingLine, PoolLine, PoolsLook};
use braid_pool::disk::{Disk, Health};
use braid_pool::doctor::{Finding, Severity};
use braid_pool::layout::Layout;
use braid_pool::observed::ObservedPool;
use braid_pool::summary::Summary;
use braid_pool::survival::survival;
use braid_pool::untrusted::one_line;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Writes it.
pub fn write(file: &Path, examined: &Examined) -> Result<(), Failure> {
    let written = look(examined).write(file);
    written.map_err(|error| Failure::io(&format!("writing {}", file.display()), &error))
}

/// What the page shows.
pub fn look(examined: &Examined) -> PoolsLook {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let whole = examined.disks.iter().filter(|disk| disk.partition.is_none());
    PoolsLook {
        looked_unix: i64::try_from(now.as_secs()).unwrap_or(i64::MAX),
        pools: examined.pools.iter().map(pool).chain(examined.locked.iter().map(locked)).collect(),
        disks: whole.map(disk).collect(),
        findings: examined.findings.iter().map(finding).collect(),
    }
}

/// Only the name and disks of a locked pool are known.
fn locked(summary: &Summary) -> PoolLine {
    line(summary.clone(), None)
}

fn pool(pool: &ObservedPool) -> PoolLine {
    let summary = Summary::of(pool);
    // Nothing can be promised if several profiles are mixed.
    let layout = summary.layout.parse::<Layout>().ok();
    let survives = layout.map(|layout| survives(layout, summary.disks, summary.lacking));
    line(summary, survives)
}

fn line(summary: Summary, survives: Option<String>) -> PoolLine {
    PoolLine {
        name: one_line(&summary.name),
        layout: summary.layout,
        state: summary.state.to_string(),
        disks: summary.disks,
        lacking: summary.lacking,
        size_bytes: summary.size_bytes,
        used_bytes: summary.used_bytes,
        mounted_at: summary.mounted_at,
        done: summary.activity.as_ref().and_then(|activity| activity.done),
        activity: summary.activity.map(|activity| activity.name),
        left_s: None,
        survives,
    }
}

/// What a pool survives, in words.
fn survives(layout: Layout, disks: usize, lacking: usize) -> String {
    let can = survival(layout, disks);
    let left = |losses: usize| losses.saturating_sub(lacking);
    match (left(can.data), left(can.data_maybe)) {
        (0, 0) => "no further disk may fail".to_owned(),
        (0, maybe) => format!("{maybe} more may fail if they are the right ones"),
        (1, 1) => "any one disk may fail".to_owned(),
        (all, maybe) if all == maybe => format!("any {all} disks may fail"),
        (all, maybe) => format!("any {all} may fail, {maybe} if they are the right ones"),
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
        temperature_c: disk.temperature_c,
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
