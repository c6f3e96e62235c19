//! Proportional rate reduction: what Linux' loss-based senders send while they make losses
//! good, instead of nothing until half of the window has come in (RFC 6937).

/// The reduction of one recovery, in segments.
#[derive(Clone, Debug)]
pub(super) struct RateReduction {
    /// The window that is to be reached.
    threshold: usize,
    /// The window before the loss.
    before: usize,
    delivered: usize,
    sent: usize,
    window: usize,
}

impl RateReduction {
    /// From a window of `before` to one of `threshold`, of which `in_flight` aren't lost.
    pub fn new(before: usize, threshold: usize, in_flight: usize) -> Self {
        // The first loss is sent again at once.
        Self { threshold, before: before.max(1), delivered: 0, sent: 0, window: in_flight + 1 }
    }

    /// What may be on its way.
    pub fn window(&self) -> usize {
        self.window
    }

    /// An acknowledgement says that so many more have arrived; `advances`: it's one of what was
    /// lost, and shows no other loss.
    pub fn on_ack(&mut self, delivered: usize, in_flight: usize, advances: bool) {
        self.delivered += delivered;
        let allowed = if in_flight > self.threshold {
            (self.delivered * self.threshold).div_ceil(self.before).saturating_sub(self.sent)
        } else {
            // PRR-SSRB: as in slow start while losses are made good, else packet for packet.
            let kept = self.delivered.saturating_sub(self.sent);
            let most = if advances { kept.max(delivered) + 1 } else { kept };
            (self.threshold - in_flight).min(most)
        };
        self.window = in_flight + allowed.max(usize::from(self.sent == 0));
    }

    /// So many were sent.
    pub fn on_sent(&mut self, count: usize) {
        self.sent += count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_halved_packet_by_packet_while_half_as_many_are_sent() {
        let mut reduction = RateReduction::new(100, 50, 99);
        // One of a hundred is lost: 99 come in.
        let (mut in_flight, mut sent) = (99usize, 0);
        let mut least = usize::MAX;
        for _ in 0..99 {
            in_flight -= 1;
            reduction.on_ack(1, in_flight, false);
            let count = reduction.window().saturating_sub(in_flight);
            reduction.on_sent(count);
            in_flight += count;
            sent += count;
            least = least.min(in_flight);
        }
        assert!((49..=51).contains(&sent), "{sent}");
        assert!((49..=51).contains(&in_flight) && least >= 49, "{in_flight} {least}");
    }

    #[test]
    fn where_most_is_lost_it_goes_on_packet_for_packet() {
        let mut reduction = RateReduction::new(100, 50, 10);
        reduction.on_ack(1, 9, false);
        assert_eq!(reduction.window(), 10);
        reduction.on_sent(1);
        reduction.on_ack(1, 9, false);
        assert_eq!(reduction.window(), 10);
        reduction.on_ack(1, 8, true);
        assert_eq!(reduction.window(), 10 + 1);
    }
}
