//! What was measured, for people and for programs.

mod bars;
mod page;
mod speeds;
mod table;

pub use page::html;
pub use table::{row_of, rows};

use crate::measure::{Findings, Measurement, Subject};
use braid_pool::disk::{Disk, DiskKind};
use braid_pool::layout::Layout;
use braid_pool::speed::{DiskSpeed, MeasuredDisk, Speeds, speed};
use braid_pool::wish::Candidate;
use braid_units::ByteSize;
use serde::Serialize;

/// A whole benchmark.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The kernel: `6.18.44`.
    pub kernel: String,
    /// How often each was measured.
    pub runs: u32,
    /// How long a run took, seconds.
    pub seconds: f64,
    /// The disks, alone.
    pub disks: Vec<DiskReport>,
    /// The layouts, in the order they were measured.
    pub layouts: Vec<LayoutReport>,
    /// The same as `braid pool plan --speeds` takes it.
    pub speeds: Speeds,
}

/// A disk.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DiskReport {
    /// Its node.
    pub path: String,
    /// What it is made of.
    pub kind: DiskKind,
    /// Whether it rotates: md spreads reads by that.
    pub rotational: bool,
    /// Its size.
    pub size_bytes: u64,
    /// What it does alone; `None` when that wasn't measured.
    pub alone: Option<DiskSpeed>,
}

/// A layout.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LayoutReport {
    /// Which one; `None` if it has no name here.
    pub layout: Option<Layout>,
    /// The pool, if it was there before.
    pub pool: Option<String>,
    /// Nodes of its disks.
    pub disks: Vec<String>,
    /// What came out.
    #[serde(flatten)]
    pub findings: Findings,
}

impl Report {
    /// Puts the model's figures beside those measured, and sums them up for `plan --speeds`.
    pub fn new(
        kernel: String,
        runs: u32,
        seconds: f64,
        disks: Vec<DiskReport>,
        layouts: Vec<LayoutReport>,
    ) -> Report {
        let alone = Speeds { disks: speeds::disks(&disks), layouts: Vec::new() };
        let mut report =
            Report { kernel, runs, seconds, disks, layouts, speeds: Speeds::default() };
        for layout in &mut report.layouts {
            layout.put_model(&report.disks, &alone);
        }
        let layouts = speeds::layouts(&report);
        report.speeds = Speeds { layouts, ..alone };
        report
    }
}

impl LayoutReport {
    /// `btrfs-raid1`, and the pool's name if it was there before.
    pub fn name(&self) -> String {
        match (&self.layout, &self.pool) {
            (Some(layout), None) => layout.to_string(),
            (Some(layout), Some(pool)) => format!("{pool} ({layout})"),
            (None, Some(pool)) => pool.clone(),
            (None, None) => "?".to_owned(),
        }
    }

    fn put_model(&mut self, disks: &[DiskReport], speeds: &Speeds) {
        let Some(layout) = self.layout else { return };
        let members: Vec<Candidate> = self
            .disks
            .iter()
            .filter_map(|path| disks.iter().find(|disk| disk.path == *path))
            .map(DiskReport::candidate)
            .collect();
        if members.len() != self.disks.len() || members.is_empty() {
            return;
        }
        let smallest = members.iter().map(|disk| disk.size_bytes).min().unwrap_or(0);
        let modelled = speed(layout, &members, smallest, speeds);
        for measurement in &mut self.findings.measurements {
            if let Subject::Files(workload) = measurement.subject {
                measurement.model = workload.modelled(&modelled);
            }
        }
    }

    fn median(&self, subject: Subject) -> Option<f64> {
        let is_it = |each: &&Measurement| each.subject == subject;
        self.findings.measurements.iter().find(is_it).map(|each| each.figure.median)
    }
}

impl DiskReport {
    /// Of a disk that wasn't measured alone yet.
    pub fn of(disk: &Disk) -> DiskReport {
        DiskReport {
            path: disk.path.clone(),
            kind: disk.kind,
            rotational: disk.rotational,
            size_bytes: disk.size_bytes,
            alone: None,
        }
    }

    fn candidate(&self) -> Candidate {
        Candidate {
            name: self.path.clone(),
            size_bytes: self.size_bytes,
            kind: self.kind,
            rotational: self.rotational,
            physical_disk: None,
        }
    }

    /// For people: `/dev/sda (hdd, 4.00TB)`.
    pub fn describe(&self) -> String {
        format!("{} ({}, {})", self.path, self.kind, ByteSize::from_bytes(self.size_bytes))
    }
}

impl From<&DiskReport> for Option<MeasuredDisk> {
    fn from(disk: &DiskReport) -> Self {
        let speed = disk.alone?;
        Some(MeasuredDisk { disk: Some(disk.path.clone()), kind: disk.kind, speed })
    }
}

#[cfg(test)]
mod tests;
