//! What follows from the paths as they are: how long packets may wait, and how
//! large they are made.

use super::Ingress;
use crate::path::{Controller, Path};
use crate::peer::paths::PathSet;
use crate::peer::reliability::LOSSY;
use braid_units::Rate;
use std::time::Duration;

/// Segments are joined to packets that take the paths so long: a packet comes
/// out when all of it is there, and should not wait for itself. Ours; not measured apart.
const JOINED_TIME: Duration = Duration::from_millis(4);
/// The longest IP packet.
const MAX_JOINED: usize = 65_535;
/// Round trips that a packet may wait for while capacities are being found. Ours
/// (docs/design/006-heuristics.md, startup-patience).
const PATIENCE_IN_STARTUP: u32 = 3;
/// A path whose delay changes by more than this from round to round has a
/// capacity that changes as quickly: a flow needs a longer queue to use it.
/// Ours; not measured apart.
const UNSTEADY: Duration = Duration::from_millis(15);
/// CoDel's target as a part or multiple of the slowest path's round trip: where paths
/// neither lose nor change a loss-based sender's window has to fall by half before they
/// run dry; where they lose, repairs hold a flow up for about a round trip at a time,
/// and where they change for as long and some of the changes (long-queues in
/// docs/design/006-heuristics.md).
const STEADY_DIVISOR: u32 = 2;
const LOSSY_ROUND_TRIPS: (u32, u32) = (5, 2);
const UNSTEADY_ROUND_TRIPS: u32 = 2;
const UNSTEADY_CHANGES: u32 = 10;
/// CoDel's interval: at least RFC 8289's, section 4.4, and so many round trips, in which
/// a sender hears of a signal and has taken it back.
const LEAST_INTERVAL: Duration = Duration::from_millis(100);
const INTERVAL_ROUND_TRIPS: u32 = 4;
/// Of several flows no more may wait than the paths bring in this time, after which the most
/// impatient senders take it for lost (`TCP_RTO_MIN` of Linux), or in so many round trips, where
/// those are long; but so many packets, or a link of some hundred kbit/s would idle.
const LONGEST_WAIT: Duration = Duration::from_millis(200);
const WAIT_ROUND_TRIPS: u32 = 2;
const LEAST_ROOM: u64 = 6 * 1500;
/// The least of a queue's targets (RFC 8289, section 4.3).
const LEAST_TARGET: Duration = Duration::from_millis(5);

impl Ingress {
    /// Takes over what follows from the paths now.
    pub fn follow(&mut self, paths: &PathSet) {
        let primary = || paths.up().filter(|p| !p.policy.standby);
        let round_trip = primary().map(|p| p.rtt.base()).max().unwrap_or_default();
        let known = primary().filter(|p| p.rtt.is_known()).map(|p| p.rtt.base()).max();
        self.acks.set_round_trip(known.unwrap_or_default());
        // While a path's capacity is still being found the queue is ours, not the
        // sender's fault: a signal would halve it long before the links are full.
        let finding = |p: &Path| p.congestion.in_startup() && p.sent.in_flight_bytes() > 0;
        let patient = self.heuristics.startup_patience && paths.up().any(finding);
        let patience = match patient {
            true => round_trip * PATIENCE_IN_STARTUP,
            false => Duration::ZERO,
        };
        self.parameters.target = self.steady_target.max(patience);
    }

    /// Takes over what changes slowly.
    pub fn tune(&mut self, paths: &PathSet, capacity: Rate) {
        let slowest = paths.slowest_round_trip();
        let loss = paths.up().map(Path::loss_share).fold(0.0, f64::max);
        // A loss-based sender needs a queue of some part of the round trip to
        // keep the paths busy while its window recovers from a signal. Where
        // paths lose, repairs hold the flow up for about a round trip at a
        // time and its acknowledgements come in bursts: the queue has to bridge
        // the pauses between them.
        let unsteady = paths.iter().any(|p| p.congestion.queue_innovation() > UNSTEADY);
        let steady = slowest / STEADY_DIVISOR;
        let bridged = match (unsteady, loss > LOSSY) {
            _ if !self.heuristics.long_queues => steady,
            (true, _) => slowest * UNSTEADY_ROUND_TRIPS + UNSTEADY * UNSTEADY_CHANGES,
            (false, true) => slowest * LOSSY_ROUND_TRIPS.0 / LOSSY_ROUND_TRIPS.1,
            (false, false) => steady,
        };
        self.steady_target = bridged.max(LEAST_TARGET);
        self.parameters.floor = steady.max(LEAST_TARGET);
        self.parameters.interval = (slowest * INTERVAL_ROUND_TRIPS).max(LEAST_INTERVAL);
        let found = |p: &Path| !p.congestion.in_startup();
        self.capacity_known = paths.up().next().is_some() && paths.up().all(found);
        self.parameters.room = match self.capacity_known && self.heuristics.bounded_wait {
            true => {
                let wait = (slowest * WAIT_ROUND_TRIPS).max(LONGEST_WAIT);
                capacity.bytes_in(wait).max(LEAST_ROOM)
            }
            false => u64::MAX,
        };
        let joined = usize::try_from(capacity.bytes_in(JOINED_TIME));
        let joined = if self.heuristics.segment_joining { joined } else { Ok(0) };
        self.join_limit = joined.unwrap_or(MAX_JOINED).min(MAX_JOINED);
    }
}
