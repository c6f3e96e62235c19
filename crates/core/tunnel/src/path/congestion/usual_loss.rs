//! What a path loses whatever is sent: the least share of some hundred datagrams of
//! late. What a full buffer drops comes and goes with the rate, so it's no part of
//! the least.

use std::collections::VecDeque;

/// A share is that of so many datagrams at the least: at a tenth the chance is small that
/// it's half of what it is in the mean. Ours.
const DATAGRAMS: u64 = 100;
/// The least of so many shares, which BBR's cycle of eight phases (draft-cardwell-iccrg-bbr-00,
/// section 4.3.4.1) was long enough for: one of them sends less than arrives.
const SHARES: usize = 8;

/// The loss that isn't ours.
#[derive(Debug, Default)]
pub struct UsualLoss {
    lost: u64,
    sent: u64,
    shares: VecDeque<f64>,
}

impl UsualLoss {
    /// So many bytes arrived and were lost in a round; `datagram` is their size.
    pub fn on_round(&mut self, arrived: u64, lost: u64, datagram: u64) {
        self.lost += lost;
        self.sent += arrived + lost;
        if self.sent < DATAGRAMS * datagram {
            return;
        }
        if self.shares.len() >= SHARES {
            self.shares.pop_front();
        }
        self.shares.push_back(self.lost as f64 / self.sent.max(1) as f64);
        (self.lost, self.sent) = (0, 0);
    }

    /// Its share of all, 0 to 1.
    pub fn share(&self) -> f64 {
        self.shares.iter().copied().reduce(f64::min).unwrap_or(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lost_all_the_time_is_usual_and_what_comes_and_goes_is_not() {
        let mut usual = UsualLoss::default();
        assert_eq!(usual.share(), 0.0);
        for round in 0..32 {
            usual.on_round(90_000, if round % 4 == 0 { 60_000 } else { 10_000 }, 1000);
        }
        assert!((0.05..=0.1).contains(&usual.share()), "{}", usual.share());
        for _ in 0..32 {
            usual.on_round(100_000, 0, 1000);
        }
        assert_eq!(usual.share(), 0.0);
    }
}
