/// The bandwidth has grown if it's this much more than before, and the path is full
/// when it hasn't for so many rounds (draft-ietf-ccwg-bbr-02,
/// BBRCheckFullBWReached; Linux: `bbr_full_bw_thresh`, `bbr_full_bw_cnt`).
const GROWTH: f64 = 1.25;
const ROUNDS: u32 = 3;

/// Whether the path is full: sending more brings no more.
#[derive(Clone, Debug, Default)]
pub(super) struct FullPipe {
    bandwidth: f64,
    rounds: u32,
}

impl FullPipe {
    /// A round ended with this estimate.
    pub fn on_round(&mut self, bandwidth: f64) {
        if bandwidth >= self.bandwidth * GROWTH {
            *self = Self { bandwidth, rounds: 0 };
        } else {
            self.rounds += 1;
        }
    }

    /// Looks for growth beyond this estimate from now on.
    pub fn restart(&mut self, bandwidth: f64) {
        *self = Self { bandwidth, rounds: 0 };
    }

    /// What was reached counts no more.
    pub fn forget_bandwidth(&mut self) {
        self.bandwidth = 0.0;
    }

    pub fn is_full(&self) -> bool {
        self.rounds >= ROUNDS
    }
}
