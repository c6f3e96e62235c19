use super::Loss;
use fastrand::Rng;

/// A lossy channel: the state between packets that [`Loss`] needs.
#[derive(Debug)]
pub(super) struct Channel {
    loss: Loss,
    bad: bool,
}

impl Channel {
    pub(super) fn new(loss: Loss) -> Self {
        Channel { loss, bad: false }
    }

    /// Changes the loss; a burst that goes on goes on.
    pub(super) fn set(&mut self, loss: Loss) {
        self.loss = loss;
    }

    /// Whether the next packet is lost.
    pub(super) fn loses_next(&mut self, rng: &mut Rng) -> bool {
        match self.loss {
            Loss::None => false,
            Loss::Random(ratio) => rng.f64() < ratio.fraction(),
            Loss::GilbertElliott { p_good_to_bad, p_bad_to_good, loss_good, loss_bad } => {
                let change = if self.bad { p_bad_to_good } else { p_good_to_bad };
                self.bad ^= rng.f64() < change.fraction();
                let loss = if self.bad { loss_bad } else { loss_good };
                rng.f64() < loss.fraction()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use braid_units::Ratio;

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
}
