use crate::traffic::tcp::ack_info::AckInfo;
use crate::traffic::tcp::windowed_max::WindowedMax;
use braid_units::Time;

/// How much more than expected comes acknowledged at once, in segments: links and ends
/// hold acknowledgements back and let them go together, and in the silence before the
/// sender must have as much more in flight (`bbr_update_ack_aggregation` of Linux'
/// `tcp_bbr.c`; draft-ietf-ccwg-bbr-02, BBRUpdateACKAggregation).
#[derive(Clone, Debug, Default)]
pub(super) struct ExtraAcked {
    /// Since when acknowledgements come no slower than expected, and how many segments
    /// came by them.
    since: Time,
    acked: f64,
    most: WindowedMax,
}

impl ExtraAcked {
    /// Where so many segments a second are expected, of which no more than `window` are in
    /// flight. What counts is the most of the last `length` rounds.
    pub fn on_ack(&mut self, ack: &AckInfo, bandwidth: f64, window: f64, round: u64, length: u64) {
        if self.acked <= self.expected(ack.now, bandwidth) {
            (self.since, self.acked) = (ack.now, 0.0);
        }
        self.acked += ack.newly_delivered as f64;
        let extra = self.acked - self.expected(ack.now, bandwidth);
        self.most.update(round, extra.clamp(0.0, window), length);
    }

    fn expected(&self, now: Time, bandwidth: f64) -> f64 {
        bandwidth * (now - self.since).as_secs_f64()
    }

    /// Segments.
    pub fn get(&self) -> f64 {
        self.most.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// A thousand segments a second, of which each acknowledgement says that so many have
    /// come.
    fn extra_with_acks_of(segments: u64) -> f64 {
        let mut extra = ExtraAcked::default();
        for acks in 1..=100 {
            let ack = AckInfo {
                now: Time::from_millis(acks * segments),
                acked: segments as u32,
                newly_delivered: segments,
                delivered: acks * segments,
                rtt: None,
                srtt: Duration::ZERO,
                lost: 0,
                in_flight: 0,
                sample: None,
                recovering: false,
            };
            extra.on_ack(&ack, 1000.0, 200.0, acks, 10);
        }
        extra.get()
    }

    #[test]
    fn what_comes_acknowledged_at_once_is_extra_up_to_the_window() {
        assert_eq!(extra_with_acks_of(1), 1.0);
        assert_eq!(extra_with_acks_of(30), 30.0);
        assert_eq!(extra_with_acks_of(300), 200.0);
    }
}
