use super::{DiskSpeed, LayoutSpeed, SpeedSource};
use crate::disk::DiskKind;
use crate::layout::Layout;
use crate::wish::Candidate;
use serde::{Deserialize, Serialize};

/// What a benchmark measured; `braid pool bench` writes it as JSON.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Speeds {
    /// Disks alone.
    #[serde(default)]
    pub disks: Vec<MeasuredDisk>,
    /// Layouts as a whole.
    #[serde(default)]
    pub layouts: Vec<MeasuredLayout>,
}

/// A disk alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasuredDisk {
    /// Its path as given to `plan`; without it this holds for all disks of the kind.
    #[serde(default)]
    pub disk: Option<String>,
    /// Its kind.
    pub kind: DiskKind,
    /// What it does.
    pub speed: DiskSpeed,
}

/// A layout on some disks. What wasn't measured is left out and filled in by the model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasuredLayout {
    /// Which.
    pub layout: Layout,
    /// Of how many disks.
    pub disks: usize,
    /// Of what kind.
    pub kind: DiskKind,
    /// As in [`LayoutSpeed`].
    pub read_one: f64,
    /// As in [`LayoutSpeed`].
    pub read_many: f64,
    /// As in [`LayoutSpeed`].
    pub write: f64,
    /// As in [`LayoutSpeed`].
    #[serde(default)]
    pub random_read: Option<f64>,
    /// As in [`LayoutSpeed`].
    #[serde(default)]
    pub random_write: Option<f64>,
    /// As in [`LayoutSpeed`].
    #[serde(default)]
    pub rebuild_seconds: Option<f64>,
}

/// A file of speeds that can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} can't be a speed: speeds are more than 0")]
pub struct SpeedsError(String);

impl Speeds {
    /// Checks that every figure is plausible.
    ///
    /// # Errors
    /// The first figure that isn't finite and above zero.
    pub fn check(&self) -> Result<(), SpeedsError> {
        let disks = self.disks.iter().flat_map(|disk| {
            let DiskSpeed { read, write, random_read, random_write } = disk.speed;
            [read, write, random_read, random_write]
        });
        let layouts = self.layouts.iter().flat_map(|layout| {
            let some = [layout.random_read, layout.random_write, layout.rebuild_seconds];
            let some = some.into_iter().flatten();
            [layout.read_one, layout.read_many, layout.write].into_iter().chain(some)
        });
        match disks.chain(layouts).find(|figure| !figure.is_finite() || *figure <= 0.0) {
            Some(wrong) => Err(SpeedsError(wrong.to_string())),
            None => Ok(()),
        }
    }

    /// What this disk does alone, and whether that was measured.
    pub(super) fn of_disk(&self, disk: &Candidate) -> (DiskSpeed, bool) {
        let this = self.disks.iter().find(|each| each.disk.as_deref() == Some(&disk.name));
        let kind = || self.disks.iter().find(|each| each.disk.is_none() && each.kind == disk.kind);
        match this.or_else(kind) {
            Some(measured) => (measured.speed, true),
            None => (DiskSpeed::typical(disk.kind), false),
        }
    }

    /// This layout, if it was measured on as many disks of one kind.
    pub(super) fn of_layout(&self, layout: Layout, disks: &[Candidate]) -> Option<&MeasuredLayout> {
        self.layouts.iter().find(|each| {
            each.layout == layout
                && each.disks == disks.len()
                && disks.iter().all(|disk| disk.kind == each.kind)
        })
    }
}

impl MeasuredLayout {
    /// The measured figures, and the model's where nothing was measured.
    pub(super) fn over(&self, model: LayoutSpeed) -> LayoutSpeed {
        LayoutSpeed {
            read_one: self.read_one,
            read_many: self.read_many,
            write: self.write,
            random_read: self.random_read.unwrap_or(model.random_read),
            random_write: self.random_write.unwrap_or(model.random_write),
            rebuild_seconds: model
                .rebuild_seconds
                .and(self.rebuild_seconds.or(model.rebuild_seconds)),
            from: SpeedSource::Measured,
        }
    }
}
