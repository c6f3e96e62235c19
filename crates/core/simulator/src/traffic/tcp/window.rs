use super::ack_info::AckInfo;
use super::prr::RateReduction;
use braid_units::Time;
use std::time::Duration;

/// How TCP sizes its window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Congestion {
    /// RFC 9438, with HyStart as in Linux.
    Cubic,
    /// RFC 5681.
    Reno,
    /// As Linux' BBR.
    Bbr,
    /// draft-ietf-ccwg-bbr.
    Bbr3,
    /// Cubic with the fixed packet threshold of most QUIC stacks (RFC 9002,
    /// section 6.1.1), which doesn't learn that a path reorders.
    Quic,
}

/// RFC 9438, section 4.6 and 5.
const CUBIC_BETA: f64 = 0.7;
const CUBIC_C: f64 = 0.4;
/// HyStart leaves slow start when a round's least delay exceeds the base by an
/// eighth of it, within these bounds (Linux, HYSTART_DELAY_MIN and _MAX).
const HYSTART: std::ops::RangeInclusive<f64> = 0.004..=0.016;
const HYSTART_SAMPLES: u32 = 8;

/// The congestion window in segments.
#[derive(Clone, Debug)]
pub(super) struct Window {
    kind: Congestion,
    size: f64,
    threshold: f64,
    largest: f64,
    epoch: Option<(Time, f64, f64)>,
    base_rtt: Duration,
    round: (f64, u32, Duration),
    /// While losses are made good, but not in QUIC: most of its stacks halve at once (RFC 9002,
    /// section 7.3.2).
    reduction: Option<RateReduction>,
}

impl Window {
    pub fn new(kind: Congestion) -> Self {
        Self {
            kind,
            size: 10.0,
            threshold: f64::INFINITY,
            largest: 0.0,
            epoch: None,
            base_rtt: Duration::MAX,
            round: (0.0, 0, Duration::MAX),
            reduction: None,
        }
    }

    pub fn segments(&self) -> usize {
        self.reduction.as_ref().map_or(self.size as usize, RateReduction::window)
    }

    pub fn on_ack(&mut self, ack: &AckInfo) {
        if let Some(reduction) = &mut self.reduction {
            let advances = ack.acked > 0 && ack.lost == 0;
            reduction.on_ack(ack.newly_delivered as usize, ack.in_flight, advances);
        } else if ack.acked > 0 && !ack.recovering {
            self.grow(ack.acked, ack.rtt, ack.srtt, ack.now);
        }
    }

    pub fn on_sent(&mut self, count: usize) {
        if let Some(reduction) = &mut self.reduction {
            reduction.on_sent(count);
        }
    }

    fn grow(&mut self, count: u32, rtt: Option<Duration>, srtt: Duration, now: Time) {
        let count = f64::from(count);
        if self.size < self.threshold {
            self.size += count;
            if self.is_cubic() {
                self.watch_delay(count, rtt);
            }
            return;
        }
        if self.is_cubic() {
            self.grow_cubic(count, srtt.as_secs_f64(), now);
        } else {
            self.size += count / self.size;
        }
    }

    fn is_cubic(&self) -> bool {
        self.kind != Congestion::Reno
    }

    pub fn on_recovery(&mut self, in_flight: usize) {
        let beta = if self.is_cubic() { CUBIC_BETA } else { 0.5 };
        let before = self.size as usize;
        // Fast convergence (RFC 9438, section 4.7).
        self.largest =
            if self.size < self.largest { self.size * (1.0 + beta) / 2.0 } else { self.size };
        self.size = (self.size * beta).max(2.0);
        self.threshold = self.size;
        self.epoch = None;
        self.reduction = (self.kind != Congestion::Quic)
            .then(|| RateReduction::new(before, self.size as usize, in_flight));
    }

    pub fn on_recovered(&mut self) {
        self.reduction = None;
    }

    pub fn on_timeout(&mut self, in_flight: usize) {
        self.reduction = None;
        let beta = if self.is_cubic() { CUBIC_BETA } else { 0.5 };
        self.largest = self.size;
        self.threshold = (in_flight as f64 * beta).max(2.0);
        self.size = 1.0;
        self.epoch = None;
    }

    fn grow_cubic(&mut self, count: f64, rtt: f64, now: Time) {
        let size = self.size;
        let largest = self.largest.max(size);
        let (since, k, reno) =
            *self.epoch.get_or_insert_with(|| (now, ((largest - size) / CUBIC_C).cbrt(), size));
        let t = (now - since).as_secs_f64() + rtt;
        let target = (largest + CUBIC_C * (t - k).powi(3)).clamp(size, size * 1.5);
        let alpha = 3.0 * (1.0 - CUBIC_BETA) / (1.0 + CUBIC_BETA);
        let reno = reno + alpha * count / size;
        self.epoch = Some((since, k, reno));
        self.size = (size + count * (target - size) / size).max(reno);
    }

    /// HyStart's delay detection, round by round.
    fn watch_delay(&mut self, count: f64, rtt: Option<Duration>) {
        let Some(rtt) = rtt else { return };
        self.base_rtt = self.base_rtt.min(rtt);
        let (left, samples, least) = &mut self.round;
        *left -= count;
        if *left <= 0.0 {
            (*left, *samples, *least) = (self.size, 0, Duration::MAX);
        }
        *samples += 1;
        *least = rtt.min(*least);
        let base = self.base_rtt.as_secs_f64();
        let limit = base + (base / 8.0).clamp(*HYSTART.start(), *HYSTART.end());
        if *samples == HYSTART_SAMPLES && least.as_secs_f64() > limit && self.size >= 16.0 {
            self.threshold = self.size;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cubic_comes_back_to_where_it_lost_and_goes_beyond() {
        let mut window = Window::new(Congestion::Cubic);
        let rtt = Duration::from_millis(50);
        window.size = 100.0;
        window.on_recovery(100);
        window.on_recovered();
        assert_eq!(window.segments(), 70);
        let mut reached = None;
        for round in 0..400u64 {
            let now = Time::ZERO + rtt * round as u32;
            window.grow(window.size as u32, Some(rtt), rtt, now);
            if reached.is_none() && window.size >= 99.0 {
                reached = Some(now.as_secs_f64());
            }
        }
        // K = cbrt(30 / 0.4) = 4.2 s; the Reno part may be quicker.
        assert!((1.0..4.6).contains(&reached.unwrap()), "{reached:?}");
        assert!(window.size > 150.0);
    }
}
