use super::Trace;
use braid_units::{ByteSize, Rate, Ratio};
use std::sync::Arc;
use std::time::Duration;

/// A link between the home and the provider, as the emulator plays it.
#[derive(Clone, Debug)]
pub struct LinkModel {
    /// The link's name in scenarios and reports.
    pub name: String,
    /// Towards the home.
    pub down: DirectionModel,
    /// Towards the concentrator.
    pub up: DirectionModel,
    /// The largest IP packet that passes, in bytes. Larger ones vanish silently,
    /// whether or not they may be fragmented: the hard case for a tunnel.
    pub mtu: u16,
    /// Whether the provider translates IPv4 addresses on the way.
    pub nat: bool,
}

/// One direction of a link. A packet waits in the queue, is serialised at the
/// capacity, may then be lost, and arrives after delay and jitter.
#[derive(Clone, Debug)]
pub struct DirectionModel {
    /// How fast packets are serialised. Sizes are those of IP packets, header
    /// included, without any link-layer framing.
    pub capacity: Capacity,
    /// One-way delay after serialisation.
    pub delay: Duration,
    /// Added to the delay, uniform in zero to this; packets are never reordered
    /// by it.
    pub jitter: Duration,
    /// Loss after serialisation: a lost packet has used its share of the
    /// capacity, as one lost in the air does.
    pub loss: Loss,
    /// What the link's buffer holds besides the packet being serialised; what
    /// doesn't fit is dropped at the tail.
    pub queue: ByteSize,
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
        /// Where in the recording the emulation starts.
        offset: Duration,
    },
}

impl Capacity {
    /// The mean rate over a long time.
    pub fn mean_rate(&self) -> Rate {
        match self {
            Capacity::Unlimited => Rate::MAX,
            Capacity::Rate(rate) => *rate,
            Capacity::Trace { trace, .. } => trace.mean_rate(),
        }
    }
}

/// Which packets are lost, apart from those that don't fit the queue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Loss {
    /// None.
    None,
    /// Each packet with this probability, independently.
    Random(Ratio),
    /// Losses in bursts: a channel with a good and a bad state that may change
    /// before each packet (E. O. Elliott, "Estimates of error rates for codes
    /// on burst-noise channels", Bell System Technical Journal 42, 1963).
    GilbertElliott {
        /// Probability to go from good to bad before a packet.
        p_good_to_bad: Ratio,
        /// Probability to go from bad to good before a packet.
        p_bad_to_good: Ratio,
        /// Loss while good.
        loss_good: Ratio,
        /// Loss while bad.
        loss_bad: Ratio,
    },
}

impl Loss {
    /// Bursts of `burst_packets` lost packets in the mean (at least 1), as many
    /// as make a loss of `mean` in the long run.
    pub fn bursty(mean: Ratio, burst_packets: f64) -> Self {
        let mean = mean.fraction();
        if mean <= 0.0 {
            return Loss::None;
        }
        let leave = 1.0 / if burst_packets >= 1.0 { burst_packets } else { 1.0 };
        let enter = leave * mean / (1.0 - mean);
        if enter.is_nan() || enter > 1.0 {
            // No such channel: the good state would have to be shorter than a packet.
            return Loss::Random(Ratio::from_fraction(mean));
        }
        Loss::GilbertElliott {
            p_good_to_bad: Ratio::from_fraction(enter),
            p_bad_to_good: Ratio::from_fraction(leave),
            loss_good: Ratio::ZERO,
            loss_bad: Ratio::from_fraction(1.0),
        }
    }

    /// The share of packets lost in the long run.
    pub fn mean(&self) -> Ratio {
        match *self {
            Loss::None => Ratio::ZERO,
            Loss::Random(ratio) => ratio,
            Loss::GilbertElliott { p_good_to_bad, p_bad_to_good, loss_good, loss_bad } => {
                let (enter, leave) = (p_good_to_bad.fraction(), p_bad_to_good.fraction());
                // A chain that never moves stays in the good state, where it starts.
                let bad = if enter + leave > 0.0 { enter / (enter + leave) } else { 0.0 };
                Ratio::from_fraction(bad * loss_bad.fraction() + (1.0 - bad) * loss_good.fraction())
            }
        }
    }
}

/// What happens to a link while it is emulated.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "a scenario has a handful of them")]
pub enum LinkChange {
    /// A silent blackout of both directions begins (`true`) or ends (`false`):
    /// packets vanish, the device stays up. Packets already serialised still
    /// arrive; those in the queues are lost.
    Blackout(bool),
    /// The device at home loses or regains its carrier; without it nothing
    /// passes.
    Carrier(Carrier),
    /// The provider's NAT forgets every mapping and moves the link to another
    /// public address, as a reconnected modem meets it.
    Rebind,
    /// The link's figures change.
    Set {
        /// Towards the home.
        down: Option<DirectionChange>,
        /// Towards the concentrator.
        up: Option<DirectionChange>,
        /// The largest packet that passes. The device at home keeps the MTU that
        /// it was created with: the path behind it narrows.
        mtu: Option<u16>,
    },
}

/// Whether a device has a carrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// The cable is in.
    Up,
    /// The cable is out.
    Down,
}

/// New figures for a direction; what is `None` stays.
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursty_loss_has_the_mean_asked_for() {
        for (mean, burst) in [(0.01, 5.0), (0.2, 3.0), (0.5, 1.0), (0.6, 1.0), (1.0, 4.0)] {
            let loss = Loss::bursty(Ratio::from_fraction(mean), burst);
            assert!((loss.mean().fraction() - mean).abs() < 1e-9, "{mean} {burst}: {loss:?}");
        }
        assert_eq!(Loss::bursty(Ratio::ZERO, 3.0), Loss::None);
    }

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
