use super::{Loss, Trace};
use braid_units::{ByteSize, Rate, Ratio};
use std::sync::Arc;
use std::time::Duration;

/// One direction of a link. A packet waits in the queue, is serialised at the
/// capacity, may then be lost, and arrives after delay and jitter. The faults are
/// those of tc-netem(8).
#[derive(Clone, Debug)]
pub struct DirectionModel {
    /// How fast packets are serialised. Sizes are those of IP packets, header
    /// included, without any link-layer framing.
    pub capacity: Capacity,
    /// One-way delay after serialisation.
    pub delay: Duration,
    /// Added to the delay, uniform from zero to this. It doesn't reorder packets, just as a link's
    /// queues don't: a delayed packet delays those behind it.
    pub jitter: Duration,
    /// Loss after serialisation: a lost packet has used its share of the capacity, like one lost in
    /// the air.
    pub loss: Loss,
    /// The size of the link's buffer, besides the packet being serialised; packets that don't fit
    /// are dropped at the tail.
    pub queue: ByteSize,
    /// Packets that others overtake.
    pub reorder: Reorder,
    /// Share of the packets that arrive twice. The copy is made after the bottleneck and uses none
    /// of its capacity; it has its own jitter.
    pub duplicate: Ratio,
    /// Share of the packets in which one bit is flipped.
    pub corrupt: Ratio,
}

/// Which packets are held back, so that those behind overtake them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reorder {
    /// Share of the packets.
    pub share: Ratio,
    /// Maximum additional delay; uniform from zero to this.
    pub by: Duration,
}

impl Reorder {
    /// All packets arrive in order.
    pub const NONE: Reorder = Reorder { share: Ratio::ZERO, by: Duration::ZERO };

    /// Whether any packet is overtaken.
    pub fn is_none(&self) -> bool {
        self.share == Ratio::ZERO || self.by.is_zero()
    }
}

impl DirectionModel {
    /// A direction that delivers everything at once.
    pub fn ideal() -> Self {
        DirectionModel {
            capacity: Capacity::Unlimited,
            delay: Duration::ZERO,
            jitter: Duration::ZERO,
            loss: Loss::None,
            queue: ByteSize::from_bytes(1_000_000),
            reorder: Reorder::NONE,
            duplicate: Ratio::ZERO,
            corrupt: Ratio::ZERO,
        }
    }

    /// A direction without faults, with a queue of 100 ms, at least 30 KB.
    pub fn clean(rate: Rate, delay: Duration) -> Self {
        let queue = rate.bytes_in(Duration::from_millis(100)).max(30_000);
        DirectionModel {
            capacity: Capacity::Rate(rate),
            delay,
            queue: ByteSize::from_bytes(queue),
            ..DirectionModel::ideal()
        }
    }

    /// Replaces what `change` names, and leaves the rest.
    pub fn apply(&mut self, change: &DirectionChange) {
        if let Some(capacity) = &change.capacity {
            self.capacity = capacity.clone();
        }
        if let Some(delay) = change.delay {
            self.delay = delay;
        }
        if let Some(jitter) = change.jitter {
            self.jitter = jitter;
        }
        if let Some(loss) = change.loss {
            self.loss = loss;
        }
        if let Some(queue) = change.queue {
            self.queue = queue;
        }
        if let Some(reorder) = change.reorder {
            self.reorder = reorder;
        }
        if let Some(duplicate) = change.duplicate {
            self.duplicate = duplicate;
        }
        if let Some(corrupt) = change.corrupt {
            self.corrupt = corrupt;
        }
    }
}

/// How fast a direction serialises packets.
#[derive(Clone, Debug, PartialEq)]
pub enum Capacity {
    /// At once.
    Unlimited,
    /// At a constant rate.
    Rate(Rate),
    /// At the opportunities of a recording.
    Trace {
        /// The recording; it repeats when it ends.
        trace: Arc<Trace>,
        /// Position in the recording where the emulation starts.
        offset: Duration,
    },
}

impl Capacity {
    /// Bytes that pass between two moments after the start if there is always something to send.
    pub fn bytes_between(&self, from: Duration, to: Duration) -> u64 {
        match self {
            Capacity::Unlimited => u64::MAX,
            Capacity::Rate(rate) => rate.bytes_in(to.saturating_sub(from)),
            Capacity::Trace { trace, offset } => {
                let until = |moment| trace.first_at(*offset + moment);
                let opportunities = until(to).saturating_sub(until(from));
                opportunities.saturating_mul(u64::from(Trace::OPPORTUNITY_BYTES))
            }
        }
    }

    /// The mean rate over a long time.
    pub fn mean_rate(&self) -> Rate {
        match self {
            Capacity::Unlimited => Rate::MAX,
            Capacity::Rate(rate) => *rate,
            Capacity::Trace { trace, .. } => trace.mean_rate(),
        }
    }
}

/// New figures for a direction; `None` means unchanged.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DirectionChange {
    /// See [`DirectionModel::capacity`]. A trace starts at its offset when the
    /// change is applied.
    pub capacity: Option<Capacity>,
    /// See [`DirectionModel::delay`].
    pub delay: Option<Duration>,
    /// See [`DirectionModel::jitter`].
    pub jitter: Option<Duration>,
    /// See [`DirectionModel::loss`].
    pub loss: Option<Loss>,
    /// See [`DirectionModel::queue`].
    pub queue: Option<ByteSize>,
    /// See [`DirectionModel::reorder`].
    pub reorder: Option<Reorder>,
    /// See [`DirectionModel::duplicate`].
    pub duplicate: Option<Ratio>,
    /// See [`DirectionModel::corrupt`].
    pub corrupt: Option<Ratio>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_leaves_what_it_does_not_name() {
        let mut model = DirectionModel::ideal();
        model.delay = Duration::from_millis(7);
        model.apply(&DirectionChange {
            jitter: Some(Duration::from_millis(3)),
            ..DirectionChange::default()
        });
        assert_eq!(model.delay, Duration::from_millis(7));
        assert_eq!(model.jitter, Duration::from_millis(3));
    }
}
