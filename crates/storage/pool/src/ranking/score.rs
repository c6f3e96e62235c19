//! A weighted sum, so that every rank can be explained by four figures between 0 and 1: speed for
//! this use and room, both relative to the best layout on these disks; losses survived; and how
//! well the engine suits the use.

use super::{Offer, OfferedSpeed, Wish};
use crate::growth::Growth;
use crate::layout::{Layout, Profile};
use crate::wish::{Use, Want};

/// How much each of the four counts.
struct Weights {
    speed: f64,
    space: f64,
    safety: f64,
    fit: f64,
    /// Subtracted from a layout that loses data with the first disk.
    frailty: f64,
}

pub(super) fn give_scores(wish: Wish, total_bytes: u64, offers: &mut [Offer]) {
    let weights = weights(wish);
    let fastest: Vec<f64> = (0..ASPECTS)
        .map(|aspect| offers.iter().map(|o| aspects(&o.speed)[aspect]).fold(1.0, f64::max))
        .collect();
    for offer in offers.iter_mut() {
        let shares = speed_shares(wish.for_use);
        let speed: f64 = (aspects(&offer.speed).iter().zip(&fastest).zip(shares))
            .map(|((speed, fastest), share)| speed / fastest * share)
            .sum();
        let space = offer.usable_bytes as f64 / total_bytes.max(1) as f64;
        let frailty = match (offer.losses_survived, offer.layout) {
            // What lies on the other disks can still be read.
            (0, Layout::Btrfs(Profile::Single)) => weights.frailty * 0.8,
            (0, _) => weights.frailty,
            _ => 0.0,
        };
        let sum = weights.speed * speed
            + weights.space * space
            + weights.safety * safety(offer)
            + weights.fit * fit(wish.for_use, offer)
            - frailty;
        offer.score = (sum * 1000.0).round().max(0.0) / 10.0;
    }
}

fn weights(wish: Wish) -> Weights {
    let (speed, space, safety, fit, frailty) = match wish.want {
        Want::Speed => (0.7, 0.1, 0.15, 0.05, 0.4),
        Want::Balanced => (0.2, 0.35, 0.35, 0.1, 0.5),
        Want::Safety => (0.1, 0.1, 0.6, 0.2, 0.5),
        Want::Space => (0.1, 0.7, 0.1, 0.1, 0.25),
    };
    match wish.for_use {
        // Data that can be made again needs no second copy.
        Use::Scratch if wish.want != Want::Safety => {
            Weights { speed, space, safety: 0.0, fit, frailty: 0.0 }
        }
        _ => Weights { speed, space, safety, fit, frailty },
    }
}

const ASPECTS: usize = 5;

fn aspects(speed: &OfferedSpeed) -> [f64; ASPECTS] {
    let OfferedSpeed { read_one, read_many, write, random_read, random_write, .. } = *speed;
    [read_one, read_many, write, random_read, random_write].map(|figure| figure as f64)
}

/// How much of the use is one reader, many readers, writing, random reads, random writes.
fn speed_shares(for_use: Use) -> [f64; ASPECTS] {
    match for_use {
        Use::Nas => [0.35, 0.25, 0.2, 0.1, 0.1],
        Use::Media => [0.65, 0.15, 0.2, 0.0, 0.0],
        Use::Vm => [0.1, 0.1, 0.1, 0.3, 0.4],
        Use::Database => [0.05, 0.05, 0.05, 0.25, 0.6],
        Use::Scratch => [0.35, 0.1, 0.45, 0.05, 0.05],
    }
}

/// The first loss counts most; the metadata's and those that may be survived count a little; as
/// does btrfs's ability to find wrong bytes by checksums and repair them from the other copy.
fn safety(offer: &Offer) -> f64 {
    let sure = match offer.losses_survived {
        0 => 0.0,
        1 => 0.6,
        2 => 0.8,
        _ => 0.84,
    };
    let metadata = if offer.metadata_losses_survived > 0 { 0.02 } else { 0.0 };
    let maybe = if offer.losses_maybe_survived > offer.losses_survived { 0.03 } else { 0.0 };
    let heals = match offer.layout {
        Layout::Btrfs(_) if offer.losses_survived > 0 => 0.11,
        _ => 0.0,
    };
    sure + metadata + maybe + heals
}

/// What figures don't show: snapshots and disks of any size for files; no copy on write under
/// databases and images.
fn fit(for_use: Use, offer: &Offer) -> f64 {
    let btrfs = matches!(offer.layout, Layout::Btrfs(_));
    let engine = match for_use {
        Use::Nas if btrfs => 0.6,
        Use::Media if btrfs => 0.4,
        Use::Nas | Use::Media => 0.2,
        Use::Vm | Use::Database if btrfs => 0.0,
        Use::Vm | Use::Database => 0.7,
        Use::Scratch => 0.4,
    };
    let grows = match offer.growth {
        Growth::AnyDisk => 0.3,
        Growth::Reshape => 0.15,
        Growth::CopiesOnly | Growth::Never => 0.0,
    };
    engine + grows
}
