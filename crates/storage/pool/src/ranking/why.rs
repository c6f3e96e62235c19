use super::{Offer, Wish};
use crate::growth::Growth;
use crate::layout::{Layout, MdLayout, Profile, Spread};
use crate::wish::{Candidate, Use, Want};
use braid_units::ByteSize;

/// Why `offer` ranks where it does among `all`.
pub(super) fn why(wish: Wish, offer: &Offer, all: &[Offer], disks: &[Candidate]) -> String {
    let rotational = disks.iter().any(|disk| disk.rotational);
    let mut clauses = vec![losses(offer, disks.len())];
    clauses.extend(speed(wish, offer, all, rotational));
    clauses.extend(room(offer, disks));
    clauses.extend(engine(wish, offer));
    if offer.growth == Growth::Never {
        clauses.push("can never be reshaped".to_owned());
    }
    clauses.join("; ")
}

/// What holds for all layouts on these disks.
pub(super) fn notes(wish: Wish, disks: &[Candidate]) -> Vec<String> {
    let mut notes = Vec::new();
    for (index, disk) in disks.iter().enumerate() {
        let same = |other: &&Candidate| {
            disk.physical_disk.is_some() && other.physical_disk == disk.physical_disk
        };
        if let Some(other) = disks.iter().take(index).find(same) {
            notes.push(format!(
                "{} and {} lie on one physical disk: they are lost together, so no layout survives what it says",
                other.name, disk.name
            ));
        }
    }
    if disks.iter().any(|disk| disk.rotational) && disks.iter().any(|disk| !disk.rotational) {
        notes.push(
            "rotating disks and flash in one pool: it is as slow as the rotating ones".to_owned(),
        );
    }
    if matches!(wish.for_use, Use::Database | Use::Vm) {
        notes.push(
            "leave copy on write on in a redundant btrfs: without it a member that missed writes gives stale data, \
             silently; take md with ext4 instead if it is too slow"
                .to_owned(),
        );
    }
    if wish.want == Want::Safety {
        notes.push("no layout replaces a backup: see `braid pool replicate`".to_owned());
    }
    notes
}

fn losses(offer: &Offer, disks: usize) -> String {
    let plural = |n: usize| if n == 1 { "loss" } else { "losses" };
    match (offer.losses_survived, offer.metadata_losses_survived, offer.losses_maybe_survived) {
        (0, _, _) if disks == 1 => "one disk: its loss is the pool's".to_owned(),
        (0, ..) if offer.layout == Layout::Btrfs(Profile::Single) => {
            "a lost disk takes the files on it; the others can still be read".to_owned()
        }
        (0, metadata, _) if metadata > 0 => {
            "a lost disk leaves holes in every larger file".to_owned()
        }
        (0, ..) => "the first lost disk takes everything".to_owned(),
        (sure, _, maybe) if maybe > sure => {
            format!("survives {sure} {}, with luck {maybe}", plural(sure))
        }
        (sure, ..) => format!("survives {sure} {}", plural(sure)),
    }
}

fn speed(wish: Wish, offer: &Offer, all: &[Offer], rotational: bool) -> Option<String> {
    let best = all.iter().map(|one| one.speed.read_one).max().unwrap_or(0);
    let fast = offer.speed.read_one >= best / 100 * 95;
    Some(match offer.layout {
        Layout::Md(MdLayout::Raid10 { spread: Spread::Far, .. }) if rotational => {
            "one reader gets all disks at once, as from raid0".to_owned()
        }
        Layout::Md(MdLayout::Raid10 { spread: Spread::Near, copies })
            if rotational && offer.wasted_bytes.len() <= usize::from(copies) =>
        {
            "one reader gets one disk, because md stays with the nearer heads".to_owned()
        }
        Layout::Md(MdLayout::Raid10 { spread: Spread::Offset, .. }) if rotational => {
            "one reader gets half, since the heads pass over the copies between".to_owned()
        }
        Layout::Btrfs(Profile::Single | Profile::Raid1 | Profile::Raid1c3 | Profile::Raid1c4)
        | Layout::Md(MdLayout::Raid1)
            if offer.wasted_bytes.len() > 1 =>
        {
            "one reader gets one disk, several get several".to_owned()
        }
        Layout::Md(MdLayout::Raid5 | MdLayout::Raid6)
            if matches!(wish.for_use, Use::Database | Use::Vm) =>
        {
            "every small write costs reads and writes of parity".to_owned()
        }
        _ if fast && all.len() > 1 => "one reader gets the most there is".to_owned(),
        _ => return None,
    })
}

fn room(offer: &Offer, disks: &[Candidate]) -> Option<String> {
    let total: u64 = disks.iter().map(|disk| disk.size_bytes).sum();
    let wasted: u64 = offer.wasted_bytes.iter().sum();
    let share = offer.usable_bytes as f64 * 100.0 / total.max(1) as f64;
    let mut text = format!("{share:.0} % of all for data");
    if wasted > total / 200 {
        text.push_str(&format!(
            ", {} unused since the disks are unequal",
            ByteSize::from_bytes(wasted)
        ));
    }
    Some(text)
}

fn engine(wish: Wish, offer: &Offer) -> Option<String> {
    let text = match (offer.layout, wish.for_use) {
        (Layout::Btrfs(_), Use::Database) => {
            "copy on write slows small synchronous writes by about a third"
        }
        (Layout::Btrfs(_), Use::Vm) => "copy on write scatters disk images",
        (Layout::Btrfs(_), _) if offer.losses_survived > 0 => {
            "finds wrong bytes by checksums and mends them; snapshots"
        }
        (Layout::Btrfs(_), _) => "finds wrong bytes by checksums; snapshots",
        (Layout::Md(_), Use::Nas | Use::Media) if offer.losses_survived > 0 => {
            "no checksums: a wrong byte is found by nobody"
        }
        _ => return None,
    };
    Some(text.to_owned())
}
