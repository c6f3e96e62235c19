//! A layout's speed on given disks: from a model, unless a benchmark measured it.

mod measured;
mod model;

pub use measured::{MeasuredDisk, MeasuredLayout, Speeds, SpeedsError};

use crate::disk::DiskKind;
use crate::layout::Layout;
use crate::wish::Candidate;
use serde::{Deserialize, Serialize};

/// Speeds of one disk alone.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct DiskSpeed {
    /// One sequential reader, bytes per second.
    pub read: f64,
    /// One sequential writer, bytes per second.
    pub write: f64,
    /// Reads of 4 KiB at random places, many at a time, per second.
    pub random_read: f64,
    /// Writes of 4 KiB at random places, many at a time, per second.
    pub random_write: f64,
}

/// Speeds of a layout.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LayoutSpeed {
    /// One sequential reader, bytes per second.
    pub read_one: f64,
    /// As many sequential readers as there are disks, and more; all together, bytes per second.
    pub read_many: f64,
    /// One sequential writer, bytes per second.
    pub write: f64,
    /// Reads of 4 KiB at random places, per second.
    pub random_read: f64,
    /// Writes of 4 KiB at random places, per second.
    pub random_write: f64,
    /// Seconds to rebuild a full lost member; `None` when it can't be rebuilt.
    pub rebuild_seconds: Option<f64>,
    /// Where these figures are from.
    pub from: SpeedSource,
}

/// Where speeds are from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SpeedSource {
    /// From the model, with a typical disk of each kind.
    Model,
    /// From the model, with the speeds of the disks measured one by one.
    ModelOfMeasuredDisks,
    /// This layout was measured on as many disks of these kinds.
    Measured,
}

/// Speed of `layout` on `disks`: measured where `speeds` has it, else by the model.
pub fn speed(
    layout: Layout,
    disks: &[Candidate],
    member_bytes: u64,
    speeds: &Speeds,
) -> LayoutSpeed {
    let found: Vec<(DiskSpeed, bool)> = disks.iter().map(|disk| speeds.of_disk(disk)).collect();
    let rotational = disks.iter().any(|disk| disk.rotational);
    let alone: Vec<DiskSpeed> = found.iter().map(|(speed, _)| *speed).collect();
    let mut speed = model::layout_speed(layout, &alone, rotational, member_bytes);
    if !found.is_empty() && found.iter().all(|(_, measured)| *measured) {
        speed.from = SpeedSource::ModelOfMeasuredDisks;
    }
    match speeds.of_layout(layout, disks) {
        Some(measured) => measured.over(speed),
        None => speed,
    }
}

impl DiskSpeed {
    /// A common disk of this kind. Sequential HDD and SSD: what the articles measured (160 and 500
    /// MB/s); the others are from data sheets of ordinary models, rounded down.
    pub const fn typical(kind: DiskKind) -> DiskSpeed {
        match kind {
            DiskKind::Hdd => {
                DiskSpeed { read: 160e6, write: 150e6, random_read: 120.0, random_write: 120.0 }
            }
            DiskKind::Ssd => {
                DiskSpeed { read: 500e6, write: 450e6, random_read: 80e3, random_write: 60e3 }
            }
            DiskKind::Nvme => {
                DiskSpeed { read: 3e9, write: 2e9, random_read: 400e3, random_write: 250e3 }
            }
            DiskKind::Other => {
                DiskSpeed { read: 200e6, write: 200e6, random_read: 2e3, random_write: 2e3 }
            }
        }
    }
}

#[cfg(test)]
mod tests;
