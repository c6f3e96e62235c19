//! What fio is asked to do, and which of its figures counts.

use crate::fio_answer::FioAnswer;
use crate::profile::Profile;
use braid_pool::speed::LayoutSpeed;
use serde::{Deserialize, Serialize};
use std::fmt;

/// One thing to measure with files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Workload {
    /// One program reads one file from its beginning to its end.
    ReadOne,
    /// As many programs as there are disks (at least two) read a file each.
    ReadMany,
    /// One program writes one file.
    WriteOne,
    /// As many as there are disks (at least two) write a file each.
    WriteMany,
    /// Many reads of 4 KiB at a time, at random places.
    RandomRead,
    /// Many writes of 4 KiB at a time, at random places.
    RandomWrite,
    /// One write of 4 KiB after the other, each followed by fsync.
    Fsync,
}

/// What a figure counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Bytes per second.
    BytesPerSecond,
    /// Requests per second.
    PerSecond,
    /// Seconds.
    Seconds,
}

/// What `cp` and the like request. How far the kernel reads ahead of that depends on it and the
/// layout.
const READ: &str = "1M";
/// A writer doesn't wait for its data, so several blocks are in flight.
const WRITE: &str = "1M";
const WRITES: u32 = 4;
/// Concurrent random requests: as many as SATA's queue holds.
const MANY: u32 = 32;

impl Workload {
    /// Those of a profile, in the order in which they are measured: reads come first, while the
    /// files are as they were written.
    pub const fn of(profile: Profile) -> &'static [Workload] {
        match profile {
            Profile::Sequential => {
                &[Workload::ReadOne, Workload::ReadMany, Workload::WriteOne, Workload::WriteMany]
            }
            Profile::Random => &[Workload::RandomRead, Workload::RandomWrite, Workload::Fsync],
            Profile::Database => &[],
        }
    }

    /// What its figure counts.
    pub const fn unit(self) -> Unit {
        match self {
            Workload::ReadOne | Workload::ReadMany | Workload::WriteOne | Workload::WriteMany => {
                Unit::BytesPerSecond
            }
            Workload::RandomRead | Workload::RandomWrite => Unit::PerSecond,
            Workload::Fsync => Unit::Seconds,
        }
    }

    /// Whether it reads.
    pub const fn reads(self) -> bool {
        matches!(self, Workload::ReadOne | Workload::ReadMany | Workload::RandomRead)
    }

    /// How many programs do it at the same time on this many disks.
    pub fn programs(self, disks: usize) -> usize {
        match self {
            Workload::ReadMany | Workload::WriteMany => disks.max(2),
            _ => 1,
        }
    }

    /// fio's options for it.
    pub(crate) fn options(self) -> Vec<String> {
        let (kind, piece, depth, engine) = match self {
            Workload::ReadOne | Workload::ReadMany => ("read", READ, 1, "psync"),
            Workload::WriteOne | Workload::WriteMany => ("write", WRITE, WRITES, "libaio"),
            Workload::RandomRead => ("randread", "4k", MANY, "libaio"),
            Workload::RandomWrite => ("randwrite", "4k", MANY, "libaio"),
            Workload::Fsync => ("randwrite", "4k", 1, "psync"),
        };
        let mut options = vec![
            format!("--rw={kind}"),
            format!("--bs={piece}"),
            format!("--iodepth={depth}"),
            format!("--ioengine={engine}"),
        ];
        match self {
            Workload::Fsync => options.push("--fsync=1".to_owned()),
            // Whole files are read through the page cache as programs do, since read-ahead decides
            // which disks work at the same time: with requests of our own choice md would read near
            // copies from both disks. The cache is emptied before, and nothing is read twice.
            Workload::ReadOne | Workload::ReadMany => {
                options.extend(["--direct=0", "--invalidate=1"].map(str::to_owned));
            }
            // What is still in a cache at the end counts too.
            _ if !self.reads() => options.push("--end_fsync=1".to_owned()),
            _ => {}
        }
        if !matches!(self, Workload::ReadOne | Workload::ReadMany) {
            options.extend(["--direct=1", "--time_based"].map(str::to_owned));
        }
        options
    }

    /// Its figure.
    pub(crate) fn figure(self, answer: &FioAnswer) -> Option<f64> {
        let moved = if self.reads() { answer.read } else { answer.written };
        match self.unit() {
            Unit::BytesPerSecond => moved.bytes_per_second(),
            Unit::PerSecond => moved.requests_per_second(),
            Unit::Seconds => answer.fsync.map(|fsync| fsync.mean_seconds),
        }
    }

    /// The model's figure for it, where it has one.
    pub fn modelled(self, speed: &LayoutSpeed) -> Option<f64> {
        match self {
            Workload::ReadOne => Some(speed.read_one),
            Workload::ReadMany => Some(speed.read_many),
            Workload::WriteOne => Some(speed.write),
            Workload::RandomRead => Some(speed.random_read),
            Workload::RandomWrite => Some(speed.random_write),
            Workload::WriteMany | Workload::Fsync => None,
        }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Workload::ReadOne => "read, one",
            Workload::ReadMany => "read, many",
            Workload::WriteOne => "write, one",
            Workload::WriteMany => "write, many",
            Workload::RandomRead => "random read 4k",
            Workload::RandomWrite => "random write 4k",
            Workload::Fsync => "fsync",
        })
    }
}
