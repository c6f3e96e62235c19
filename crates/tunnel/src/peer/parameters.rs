//! What follows from the paths as they are: the entry queue's parameters, how
//! large packets are made, and what redundancy may cost.

use super::{Peer, REPAIR_REALTIME};
use crate::path::{Controller, Path};
use crate::redundancy::budget::{ErasureConditions, erasure_rate};
use braid_units::{Rate, Ratio, Time};
use std::time::Duration;

/// What changes slowly is worked out so often.
const INTERVAL: Duration = Duration::from_millis(500);

/// Segments are joined to packets that take the paths so long: a packet comes
/// out when all of it is there, and should not wait for itself.
const JOINED_TIME: Duration = Duration::from_millis(4);
/// The longest IP packet.
const MAX_JOINED: usize = 65_535;

/// A path that loses more than this holds flows up noticeably.
pub(super) const LOSSY: f64 = 0.0005;

/// Round trips that a packet may wait for while capacities are being found.
const PATIENCE_IN_STARTUP: u32 = 3;

/// A path whose delay changes by more than this from round to round has a
/// capacity that changes as quickly: a flow needs a longer queue to use it.
const UNSTEADY: Duration = Duration::from_millis(15);

/// The least of a queue's targets.
const LEAST_TARGET: Duration = Duration::from_millis(5);

impl Peer {
    /// Takes over what follows from the paths now.
    pub(super) fn follow_paths(&mut self, now: Time) {
        let capacity = self.capacity();
        self.earn_redundancy(capacity, now);
        let primary = || self.paths_up().filter(|p| !p.wish.standby);
        let round_trip = primary().map(|p| p.rtt.base()).max().unwrap_or_default();
        let known = primary().filter(|p| p.rtt.is_known()).map(|p| p.rtt.base()).max();
        self.acks.set_round_trip(known.unwrap_or_default());
        // While a path's capacity is still being found the queue is ours, not the
        // sender's fault: a signal would halve it long before the links are full.
        let finding = |p: &Path| p.congestion.in_startup() && p.sent.in_flight_bytes() > 0;
        let patience = match self.paths_up().any(finding) {
            true => round_trip * PATIENCE_IN_STARTUP,
            false => Duration::ZERO,
        };
        self.entry_parameters.target = self.steady_target.max(patience);
        if now >= self.parameters_at {
            self.parameters_at = now + INTERVAL;
            self.follow_slowly(capacity);
        }
    }

    /// The paths that work.
    pub(super) fn paths_up(&self) -> impl Iterator<Item = &Path> {
        self.paths.iter().filter(|path| path.liveness.is_up())
    }

    /// Of all paths that work.
    fn capacity(&self) -> Rate {
        let rates = self.paths_up().map(|p| p.congestion.bandwidth().bytes_per_sec());
        Rate::from_bytes_per_sec(rates.sum())
    }

    fn earn_redundancy(&mut self, capacity: Rate, now: Time) {
        let elapsed = (now - self.budget_at).min(Duration::from_secs(1));
        self.budget_at = now;
        self.budget.earn(capacity.bytes_in(elapsed));
    }

    fn follow_slowly(&mut self, capacity: Rate) {
        let slowest = self.paths_up().map(|p| p.rtt.base()).max().unwrap_or_default();
        let loss = self.paths_up().map(Path::loss_share).fold(0.0, f64::max);
        // A loss-based sender needs a queue of some part of the round trip to
        // keep the paths busy while its window recovers from a signal. Where
        // paths lose, repairs hold the flow up for about a round trip at a
        // time and its acknowledgements come in bursts: the queue has to bridge
        // the pauses between them.
        let unsteady = self.paths.iter().any(|p| p.congestion.queue_innovation() > UNSTEADY);
        let bridged = match (unsteady, loss > LOSSY) {
            (true, _) => slowest * 2 + UNSTEADY * 10,
            (false, true) => slowest * 5 / 2,
            (false, false) => slowest / 2,
        };
        self.steady_target = bridged.max(LEAST_TARGET);
        self.entry_parameters.floor = (slowest / 2).max(LEAST_TARGET);
        self.entry_parameters.interval = (slowest * 4).max(Duration::from_millis(100));
        let joined = usize::try_from(capacity.bytes_in(JOINED_TIME));
        self.join_limit = joined.unwrap_or(MAX_JOINED).min(MAX_JOINED);
        let size = erasure_rate(&ErasureConditions {
            loss: Ratio::from_fraction(loss),
            rtt: slowest,
            feedback_interval: self.feedback_interval(),
            deadline: REPAIR_REALTIME,
            share: self.budget.share(),
        });
        self.coding = size.is_some();
        self.encoder.set_size(size);
    }
}
