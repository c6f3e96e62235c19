use crate::traffic::tcp::ack_info::AckInfo;
use std::time::Duration;

/// The window in the beginning (RFC 6928), and what may be in flight while nothing is
/// known of the path.
const INITIAL: f64 = 10.0;
/// Seconds that Linux takes for the round trip until it's known (`bbr_init_pacing_rate_from_rtt`).
const UNKNOWN_RTT: f64 = 0.001;
/// The least window (`bbr_cwnd_min_target`; BBRMinPipeCwnd).
pub(super) const LEAST: f64 = 4.0;
/// A burst is what goes in a millisecond: at least two segments, at most a super-packet
/// of 64 KB. The window has room for three of them: one with the sender's offload, one on
/// the way and one with the receiver's (`bbr_quantization_budget`).
const BURSTS_A_SECOND: f64 = 1000.0;
const BURST: (f64, f64) = (2.0, 44.0);
const BURSTS: f64 = 3.0;

/// The congestion window and the pacing that belongs to it, as BBR and BBRv3 keep them
/// (`net/ipv4/tcp_bbr.c`; draft-ietf-ccwg-bbr-02, BBRSetPacingRate and BBRSetCwnd).
#[derive(Clone, Debug)]
pub(in crate::traffic::tcp) struct PacedWindow {
    /// Segments that may be in flight.
    pub segments: f64,
    /// Segments a second.
    pub pacing: f64,
    /// As large as before the loss that is being made good; zero if none is.
    saved: f64,
    /// A round of packet conservation: a segment may leave for each that arrived.
    conserves: bool,
}

impl PacedWindow {
    /// Paced by this gain until a rate is known.
    pub fn new(startup_gain: f64) -> Self {
        Self {
            segments: INITIAL,
            pacing: startup_gain * INITIAL / UNKNOWN_RTT,
            saved: 0.0,
            conserves: false,
        }
    }

    pub fn on_recovery(&mut self, in_flight: usize) {
        self.save();
        self.conserves = true;
        self.segments = (in_flight as f64 + 1.0).max(1.0);
    }

    pub fn on_recovered(&mut self) {
        self.conserves = false;
        self.restore();
        self.saved = 0.0;
    }

    /// All that was in flight is taken for lost: one segment goes (`tcp_enter_loss`).
    pub fn on_timeout(&mut self) {
        self.save();
        self.segments = 1.0;
    }

    /// A round trip has passed.
    pub fn on_round(&mut self) {
        self.conserves = false;
    }

    /// Remembers the window, unless it was larger when it was remembered before.
    pub fn save(&mut self) {
        self.saved = self.saved.max(self.segments);
    }

    /// Remembers the window as it is.
    pub fn save_anew(&mut self) {
        self.saved = self.segments;
    }

    /// As large as remembered, if it's smaller.
    pub fn restore(&mut self) {
        self.segments = self.segments.max(self.saved);
    }

    /// Paces by `rate`, but a lower one only if that `may_fall`.
    pub fn pace(&mut self, rate: f64, may_fall: bool) {
        if rate > 0.0 && (may_fall || rate > self.pacing) {
            self.pacing = rate;
        }
    }

    /// Grows by what has arrived, up to `in_flight` (what the path holds) and some
    /// bursts.
    pub fn grow(&mut self, ack: &AckInfo, in_flight: f64, is_full: bool) {
        let acked = ack.newly_delivered as f64;
        if self.conserves {
            self.segments = self.segments.max(ack.in_flight as f64 + acked);
        } else {
            let target = in_flight + self.bursts();
            if is_full {
                self.segments = (self.segments + acked).min(target);
            } else if self.segments < target || (ack.delivered as f64) < INITIAL {
                self.segments += acked;
            }
        }
        self.segments = self.segments.max(LEAST);
    }

    /// Loses room for segments that were lost.
    pub fn shrink(&mut self, lost: u64) {
        if lost > 0 {
            self.segments = (self.segments - lost as f64).max(1.0);
        }
    }

    fn bursts(&self) -> f64 {
        BURSTS * (self.pacing / BURSTS_A_SECOND).clamp(BURST.0, BURST.1)
    }
}

/// Segments that a path of this rate holds, times a gain.
pub(super) fn bandwidth_delay(bandwidth: f64, min_rtt: Duration, gain: f64) -> f64 {
    if min_rtt == Duration::MAX {
        return INITIAL;
    }
    bandwidth * min_rtt.as_secs_f64() * gain
}
