//! How much redundancy is worth its bytes: an account that bounds them, and the
//! choice of the group size.

use super::erasure::GroupSize;
use braid_units::{ByteSize, Ratio};
use std::time::Duration;

/// Below this loss erasure coding is off, and to this it is to bring it down. Ours.
const TARGET_LOSS: f64 = 0.001;
/// Smallest and largest group: a third more bytes, 5 % more bytes. Ours.
const GROUP_SIZES: std::ops::RangeInclusive<u8> = 3..=20;

/// An account of bytes that bounds redundancy to a share of what the paths could carry, whether
/// or not there is so much to send: what else they have room for is free.
#[derive(Clone, Debug)]
pub struct Budget {
    share: Ratio,
    burst: f64,
    balance: f64,
}

impl Budget {
    /// An account that earns `share` of the paths' capacity and holds `burst` at
    /// most. It starts full, so that a tunnel's first packets can be
    /// duplicated.
    pub fn new(share: Ratio, burst: ByteSize) -> Self {
        let burst = burst.bytes() as f64;
        let balance = if share == Ratio::ZERO { 0.0 } else { burst };
        Budget { share, burst, balance }
    }

    /// The share of the paths' capacity that redundancy may take.
    pub fn share(&self) -> Ratio {
        self.share
    }

    /// The paths could have carried `bytes` more since the last time.
    pub fn earn(&mut self, bytes: u64) {
        let earned = bytes as f64 * self.share.fraction();
        self.balance = (self.balance + earned).min(self.burst);
    }

    /// Takes `bytes` for redundancy; false, and nothing taken, if there aren't
    /// as many.
    #[must_use]
    pub fn try_spend(&mut self, bytes: u64) -> bool {
        let affordable = bytes as f64 <= self.balance;
        if affordable {
            self.balance -= bytes as f64;
        }
        affordable
    }

    /// What can be spent now.
    pub fn available(&self) -> ByteSize {
        ByteSize::from_bytes(self.balance as u64)
    }
}

/// What the choice of the group size hangs on.
#[derive(Clone, Copy, Debug)]
pub struct ErasureConditions {
    /// Estimate of the share of chunks lost.
    pub loss: Ratio,
    /// Smoothed round trip of the paths in use.
    pub rtt: Duration,
    /// How often the peer sends acknowledgements.
    pub feedback_interval: Duration,
    /// How long after it was sent a chunk is of use.
    pub deadline: Duration,
    /// The share of the paths' capacity that may be redundant.
    pub share: Ratio,
}

/// How many chunks are to share a parity; `None` when there is to be none:
/// little is lost, a retransmission comes in time, or the budget is too small.
///
/// It's the largest group that brings a random loss below 0.1 %, or, where the
/// budget is too small for that, the smallest that it allows.
pub fn erasure_rate(conditions: &ErasureConditions) -> Option<GroupSize> {
    let ErasureConditions { loss, rtt, feedback_interval, deadline, share } = *conditions;
    // One round trip to learn of the loss, half a one to get there.
    let retransmitted = rtt.saturating_add(rtt / 2).saturating_add(feedback_interval);
    if loss.fraction() < TARGET_LOSS || retransmitted < deadline {
        return None;
    }
    let (smallest, largest) = (*GROUP_SIZES.start(), *GROUP_SIZES.end());
    let wanted = GROUP_SIZES
        .rev()
        .find(|&k| residual_loss(loss.fraction(), k) <= TARGET_LOSS)
        .unwrap_or(smallest);
    let affordable = (1.0 / share.fraction()).ceil();
    if affordable > f64::from(largest) {
        return None;
    }
    GroupSize::new(wanted.max(affordable as u8))
}

/// The chance that a chunk is lost for good, when each is lost with
/// `loss`: another of its group of `size` chunks and one parity is lost too.
fn residual_loss(loss: f64, size: u8) -> f64 {
    loss * (1.0 - (1.0 - loss).powi(i32::from(size)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn percent(value: f64) -> Ratio {
        Ratio::from_fraction(value / 100.0)
    }

    fn far_link(loss: f64, share: f64) -> ErasureConditions {
        ErasureConditions {
            loss: percent(loss),
            rtt: Duration::from_millis(160),
            feedback_interval: Duration::from_millis(20),
            deadline: Duration::from_millis(150),
            share: percent(share),
        }
    }

    fn size(conditions: ErasureConditions) -> Option<u8> {
        erasure_rate(&conditions).map(GroupSize::get)
    }

    #[test]
    fn coding_is_off_where_it_does_not_pay() {
        assert_eq!(size(far_link(0.05, 50.0)), None, "hardly any loss");
        let near = ErasureConditions { rtt: Duration::from_millis(40), ..far_link(2.0, 50.0) };
        assert_eq!(size(near), None, "a retransmission comes in time");
        assert_eq!(size(far_link(2.0, 2.0)), None, "2 % pay for no group of 20");
        assert_eq!(size(far_link(2.0, 0.0)), None, "no budget");
    }

    #[test]
    fn more_loss_makes_smaller_groups_within_the_budget() {
        assert_eq!(size(far_link(0.3, 50.0)), Some(20));
        assert_eq!(size(far_link(1.0, 50.0)), Some(10));
        assert_eq!(size(far_link(1.0, 5.0)), Some(20), "the budget allows no less");
        assert_eq!(size(far_link(30.0, 50.0)), Some(3));
        assert_eq!(size(far_link(30.0, 20.0)), Some(5));
        assert_eq!(size(far_link(100.0, 100.0)), Some(3));
    }

    #[test]
    fn an_account_without_a_share_never_pays() {
        let mut budget = Budget::new(Ratio::ZERO, ByteSize::from_bytes(9000));
        budget.earn(1_000_000);
        assert!(!budget.try_spend(1));
        assert!(budget.try_spend(0));
    }

    #[test]
    fn an_idle_account_holds_one_burst() {
        let mut budget = Budget::new(percent(10.0), ByteSize::from_bytes(3000));
        budget.earn(u64::MAX);
        assert_eq!(budget.available().bytes(), 3000);
        assert!(budget.try_spend(3000));
        assert!(!budget.try_spend(1));
        budget.earn(1000);
        assert_eq!(budget.available().bytes(), 100);
    }

    proptest! {
        #[test]
        fn redundancy_stays_within_its_share(
            share in 0.0_f64..100.0,
            burst in 0_u64..20_000,
            steps in prop::collection::vec((0_u64..5000, 0_u64..5000), 0..300),
        ) {
            let mut budget = Budget::new(percent(share), ByteSize::from_bytes(burst));
            let (mut capacity, mut spent) = (0, 0);
            for (earn, spend) in steps {
                budget.earn(earn);
                capacity += earn;
                if budget.try_spend(spend) {
                    spent += spend;
                }
                let allowed = capacity as f64 * share / 100.0 + burst as f64;
                prop_assert!(spent as f64 <= allowed + 1e-3);
            }
        }

        #[test]
        fn a_chosen_group_meets_the_target_or_the_budget(
            loss in 0.0_f64..100.0, share in 0.0_f64..100.0,
        ) {
            if let Some(k) = size(far_link(loss, share)) {
                prop_assert!((3..=20).contains(&k));
                prop_assert!(1.0 / f64::from(k) <= share / 100.0 + 1e-9, "unaffordable");
                let larger_than_needed = residual_loss(loss / 100.0, k) > TARGET_LOSS && k > 3;
                let smaller_breaks_budget = 1.0 / f64::from(k - 1) > share / 100.0;
                prop_assert!(!larger_than_needed || smaller_breaks_budget);
            }
        }
    }
}
