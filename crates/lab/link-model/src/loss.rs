use braid_units::Ratio;
use fastrand::Rng;

/// Which packets are lost, apart from those that overflow the queue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Loss {
    /// No packets.
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
    /// Each packet with this probability, independently.
    pub fn random(share: Ratio) -> Self {
        if share == Ratio::ZERO { Loss::None } else { Loss::Random(share) }
    }

    /// Bursts of `burst_packets` lost packets on average (at least 1), with a long-term loss of
    /// `mean`.
    pub fn bursty(mean: Ratio, burst_packets: f64) -> Self {
        let mean = mean.fraction();
        if mean <= 0.0 {
            return Loss::None;
        }
        let leave = 1.0 / if burst_packets >= 1.0 { burst_packets } else { 1.0 };
        let enter = leave * mean / (1.0 - mean);
        if enter.is_nan() || enter > 1.0 {
            // There is no such channel: the good state would have to be shorter than a packet.
            return Loss::Random(Ratio::from_fraction(mean));
        }
        Loss::GilbertElliott {
            p_good_to_bad: Ratio::from_fraction(enter),
            p_bad_to_good: Ratio::from_fraction(leave),
            loss_good: Ratio::ZERO,
            loss_bad: Ratio::from_fraction(1.0),
        }
    }

    /// How many packets a burst loses on average, if losses come in bursts.
    pub fn burst_packets(&self) -> Option<f64> {
        match *self {
            Loss::None | Loss::Random(_) => None,
            Loss::GilbertElliott { p_bad_to_good, loss_bad, .. } => {
                Some(loss_bad.fraction() / p_bad_to_good.fraction())
            }
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

/// A lossy channel: the state that [`Loss`] needs between packets.
#[derive(Debug)]
pub(super) struct Channel {
    loss: Loss,
    bad: bool,
}

impl Channel {
    pub(super) fn new(loss: Loss) -> Self {
        Channel { loss, bad: false }
    }

    /// Changes the loss; a current burst continues.
    pub(super) fn set(&mut self, loss: Loss) {
        self.loss = loss;
    }

    /// Whether the next packet is lost.
    pub(super) fn loses_next(&mut self, rng: &mut Rng) -> bool {
        match self.loss {
            Loss::None => false,
            Loss::Random(ratio) => happens(ratio, rng),
            Loss::GilbertElliott { p_good_to_bad, p_bad_to_good, loss_good, loss_bad } => {
                let change = if self.bad { p_bad_to_good } else { p_good_to_bad };
                self.bad ^= rng.f64() < change.fraction();
                let loss = if self.bad { loss_bad } else { loss_good };
                happens(loss, rng)
            }
        }
    }
}

/// Draws whether an event with this probability happens. Certain outcomes draw nothing.
pub(super) fn happens(probability: Ratio, rng: &mut Rng) -> bool {
    match probability.fraction() {
        0.0 => false,
        1.0 => true,
        fraction => rng.f64() < fraction,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost(loss: Loss, packets: usize) -> Vec<bool> {
        let (mut channel, mut rng) = (Channel::new(loss), Rng::with_seed(7));
        (0..packets).map(|_| channel.loses_next(&mut rng)).collect()
    }

    #[test]
    fn losses_are_as_frequent_as_configured() {
        for loss in [
            Loss::Random(Ratio::from_fraction(0.02)),
            Loss::bursty(Ratio::from_fraction(0.02), 5.0),
            Loss::GilbertElliott {
                p_good_to_bad: Ratio::from_fraction(0.01),
                p_bad_to_good: Ratio::from_fraction(0.1),
                loss_good: Ratio::from_fraction(0.001),
                loss_bad: Ratio::from_fraction(0.5),
            },
        ] {
            let count = lost(loss, 1_000_000).iter().filter(|&&lost| lost).count();
            let share = count as f64 / 1e6;
            let mean = loss.mean().fraction();
            assert!((share - mean).abs() < mean * 0.1, "{loss:?}: {share} for {mean}");
        }
        assert!(!lost(Loss::None, 1000).contains(&true));
    }

    #[test]
    fn bursts_are_as_long_as_configured() {
        let lost = lost(Loss::bursty(Ratio::from_fraction(0.01), 8.0), 1_000_000);
        let bursts: Vec<usize> =
            lost.chunk_by(|a, b| a == b).filter(|run| run[0]).map(<[bool]>::len).collect();
        let mean = bursts.iter().sum::<usize>() as f64 / bursts.len() as f64;
        assert!((mean - 8.0).abs() < 0.8, "{mean}");
    }

    #[test]
    fn bursty_loss_has_the_mean_asked_for() {
        for (mean, burst) in [(0.01, 5.0), (0.2, 3.0), (0.5, 1.0), (0.6, 1.0), (1.0, 4.0)] {
            let loss = Loss::bursty(Ratio::from_fraction(mean), burst);
            assert!((loss.mean().fraction() - mean).abs() < 1e-9, "{mean} {burst}: {loss:?}");
            assert!(loss.burst_packets().is_none_or(|packets| (packets - burst).abs() < 1e-9));
        }
        assert_eq!(Loss::bursty(Ratio::ZERO, 3.0), Loss::None);
    }
}
