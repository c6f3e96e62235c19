//! Path affinity: bulk data stays on one path for a while where the CPU is the
//! bottleneck and not the links. Which of them takes the next bytes makes no
//! difference then, but each change cuts a batch short and costs a call to send, one
//! to receive and a report. Where a path's link is one too the pacer ends it.

use super::scheduler::{Arrival, Choice, Item, Scheduler};
use crate::config::Mode;
use crate::peer::paths::PathSet;
use braid_units::Time;
use std::time::Duration;

/// The paths are compared again after this. Ours; not measured apart.
const COMPARED_EVERY: Duration = Duration::from_millis(200);
/// Minimum gain in arrival time before switching paths: more than batches and reports
/// take on a busy machine, less than a receiver notices. It also bounds how much is
/// queued to a path that stalls. Ours; not measured apart.
const LEAST_GAIN: Duration = Duration::from_millis(2);

/// The path that bulk data stays on for now, if it does.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Affinity(Option<Stay>);

#[derive(Clone, Copy, Debug)]
struct Stay {
    path: usize,
    /// The best of the others when it began.
    rival: usize,
    until: Time,
}

impl Affinity {
    /// Paths have other places now.
    pub fn on_paths_closed(&mut self) {
        self.0 = None;
    }

    /// The path for what is next in the queue, and who comes after it. `cpu_bound`: the
    /// CPU is the bottleneck, not the links.
    pub fn choose(
        &mut self,
        scheduler: &Scheduler,
        paths: &PathSet,
        item: Item,
        bytes: u64,
        cpu_bound: bool,
        now: Time,
    ) -> Option<Choice> {
        if !matches!(item, Item::Bulk { .. }) || scheduler.mode == Mode::Overflow {
            return scheduler.choose(paths, item, bytes, None, now);
        }
        if !cpu_bound {
            self.0 = None;
            return scheduler.choose(paths, item, bytes, None, now);
        }
        let prefer = |path, rival| prefer(scheduler, paths, (path, rival), item, bytes, now);
        let stay = self.0;
        if let Some(stay) = stay.filter(|stay| now < stay.until)
            && let Some(choice) = prefer(stay.path, stay.rival)
        {
            return Some(choice);
        }
        let best = scheduler.choose(paths, item, bytes, None, now)?;
        let holder = stay.filter(|stay| stay.path != best.path);
        let kept = holder.and_then(|stay| prefer(stay.path, best.path));
        let begun = Choice { rival: best.rival.handicapped(LEAST_GAIN), ..best };
        let held = kept.unwrap_or(begun);
        self.0 =
            Some(Stay { path: held.path, rival: held.rival.place, until: now + COMPARED_EVERY });
        Some(held)
    }
}

/// The path of this place, unless its rival is better by [`LEAST_GAIN`].
fn prefer(
    scheduler: &Scheduler,
    paths: &PathSet,
    (path, rival): (usize, usize),
    item: Item,
    bytes: u64,
    now: Time,
) -> Option<Choice> {
    let rival = match paths.get(rival) {
        Some(path) => Arrival { us: path.arrival_us(bytes, now), place: rival },
        None => Arrival::NEVER,
    };
    let choice = Choice { path, rival: rival.handicapped(LEAST_GAIN) };
    scheduler.remains(paths, choice, item, bytes, now).then_some(choice)
}
