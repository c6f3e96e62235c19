//! Which layouts disks could have, best for the wish first, each with what it gives and why it
//! ranks there.

mod score;
mod why;

use crate::capacity::{capacity, member_bytes};
use crate::growth::{Growth, growth, growth_says};
use crate::layout::{Layout, MdFilesystem, Profile};
use crate::speed::{LayoutSpeed, Speeds, speed};
use crate::survival::{Survival, survival};
use crate::wish::{Candidate, Use, Want};
use serde::Serialize;

/// What the user wishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Wish {
    /// What the pool is for.
    #[serde(rename = "use")]
    pub for_use: Use,
    /// What matters most.
    pub want: Want,
}

/// Layouts, the best first.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ranking {
    /// The wish.
    pub wish: Wish,
    /// The disks, in the order of each layout's `wasted_bytes`.
    pub disks: Vec<Candidate>,
    /// Those that the disks allow.
    pub layouts: Vec<Offer>,
    /// Those that the disks don't allow.
    pub impossible: Vec<Impossible>,
    /// Notes that apply to all of them.
    pub notes: Vec<String>,
}

/// A layout and what it would give.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Offer {
    /// The layout.
    pub layout: Layout,
    /// Room before the filesystem's metadata.
    pub usable_bytes: u64,
    /// Estimate of what a fill with large files reaches.
    pub fill_bytes: u64,
    /// Unused bytes of each disk.
    pub wasted_bytes: Vec<u64>,
    /// Losses of disks that the data surely survives.
    pub losses_survived: usize,
    /// Losses that the metadata surely survives.
    pub metadata_losses_survived: usize,
    /// Losses that the data survives if the right disks fail.
    pub losses_maybe_survived: usize,
    /// The metadata's profile, for btrfs.
    pub metadata: Option<Profile>,
    /// What it carries, for md.
    pub filesystem: Option<MdFilesystem>,
    /// Speeds.
    #[serde(flatten)]
    pub speed: OfferedSpeed,
    /// What adding a disk takes.
    pub growth: Growth,
    /// The same in words.
    pub growth_says: &'static str,
    /// 0 to 100, to compare layouts for this wish on these disks only.
    pub score: f64,
    /// Why it ranks where it does.
    pub why: String,
}

/// As [`LayoutSpeed`], with self-explanatory JSON names.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct OfferedSpeed {
    /// One sequential reader, bytes per second.
    pub read_one: u64,
    /// Many sequential readers together, bytes per second.
    pub read_many: u64,
    /// One sequential writer, bytes per second.
    pub write: u64,
    /// Random reads of 4 KiB per second.
    pub random_read: u64,
    /// Random writes of 4 KiB per second.
    pub random_write: u64,
    /// Seconds to rebuild a full lost member.
    pub rebuild_seconds: Option<u64>,
    /// Where these figures are from.
    pub speeds_from: crate::speed::SpeedSource,
}

/// A layout that isn't possible.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Impossible {
    /// The layout.
    pub layout: Layout,
    /// Why not.
    pub why: String,
}

/// Ranks all layouts for `disks`.
pub fn rank(wish: Wish, disks: &[Candidate], speeds: &Speeds) -> Ranking {
    let mut offers = Vec::new();
    let mut impossible = Vec::new();
    for layout in Layout::ALL {
        match offer(wish, layout, disks, speeds) {
            Some(offer) => offers.push(offer),
            None if disks.len() < layout.min_disks() => impossible
                .push(Impossible { layout, why: format!("needs {} disks", layout.min_disks()) }),
            None => impossible
                .push(Impossible { layout, why: "the smallest disk is too small".to_owned() }),
        }
    }
    let total: u64 = disks.iter().map(|disk| disk.size_bytes).sum();
    score::give_scores(wish, total, &mut offers);
    // Equal scores keep the order of `Layout::ALL`.
    offers.sort_by(|a, b| b.score.total_cmp(&a.score));
    let reasons: Vec<String> =
        offers.iter().map(|one| why::why(wish, one, &offers, disks)).collect();
    for (offer, why) in offers.iter_mut().zip(reasons) {
        offer.why = why;
    }
    Ranking {
        wish,
        disks: disks.to_vec(),
        layouts: offers,
        impossible,
        notes: why::notes(wish, disks),
    }
}

/// What carries files on an array for this use.
pub fn filesystem_for(for_use: Use) -> MdFilesystem {
    match for_use {
        Use::Media | Use::Scratch => MdFilesystem::Xfs,
        Use::Nas | Use::Vm | Use::Database => MdFilesystem::Ext4,
    }
}

fn offer(wish: Wish, layout: Layout, disks: &[Candidate], speeds: &Speeds) -> Option<Offer> {
    let sizes: Vec<u64> = disks.iter().map(|disk| disk.size_bytes).collect();
    let filesystem = filesystem_for(wish.for_use);
    let capacity = capacity(layout, filesystem, &sizes)?;
    let Survival { data, metadata, data_maybe } = survival(layout, disks.len());
    let largest_use = match layout {
        // The fullest member decides how long a replacement takes.
        Layout::Btrfs(_) => {
            sizes.iter().zip(&capacity.wasted_bytes).map(|(size, wasted)| size - wasted).max()?
        }
        Layout::Md(md) => member_bytes(md, sizes.iter().copied().min()?),
    };
    Some(Offer {
        layout,
        usable_bytes: capacity.usable_bytes,
        fill_bytes: capacity.fill_bytes,
        wasted_bytes: capacity.wasted_bytes,
        losses_survived: data,
        metadata_losses_survived: metadata,
        losses_maybe_survived: data_maybe,
        metadata: match layout {
            Layout::Btrfs(profile) => Some(profile.metadata_beside(disks.len())),
            Layout::Md(_) => None,
        },
        filesystem: matches!(layout, Layout::Md(_)).then_some(filesystem),
        speed: speed(layout, disks, largest_use, speeds).into(),
        growth: growth(layout),
        growth_says: growth_says(layout),
        score: 0.0,
        why: String::new(),
    })
}

impl From<LayoutSpeed> for OfferedSpeed {
    fn from(speed: LayoutSpeed) -> Self {
        OfferedSpeed {
            read_one: speed.read_one as u64,
            read_many: speed.read_many as u64,
            write: speed.write as u64,
            random_read: speed.random_read as u64,
            random_write: speed.random_write as u64,
            rebuild_seconds: speed.rebuild_seconds.map(|seconds| seconds.ceil() as u64),
            speeds_from: speed.from,
        }
    }
}

#[cfg(test)]
mod tests;
