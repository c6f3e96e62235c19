//! Which packets of a path are lost, told by those acknowledged behind them
//! (RFC 9002, section 6.1), and what share of them is.

use super::PathCounters;
use super::mtu::MtuSearch;
use super::rtt::RoundTrip;
use super::sent::{Fate, SentPackets};
use super::settled::Settled;
use braid_units::Time;
use std::time::Duration;

/// Packets acknowledged behind a missing one before it's taken for lost (RFC
/// 9002, section 6.1.1); grows when that was wrong, as RACK's window does (RFC
/// 8985, section 6.2).
const PACKET_THRESHOLD: u64 = 3;
const PACKET_THRESHOLD_MAX: u64 = 128;
/// A packet sent so much of a round trip before one that arrived is lost
/// (`kTimeThreshold`, RFC 9002, section 6.1.2)...
const TIME_THRESHOLD: (u32, u32) = (9, 8);
/// ...or so much where TCP carries: it hears of a loss a round trip after it was sent, and has
/// repaired it half a one later, which is acknowledged after another half.
const TIME_THRESHOLD_REPAIRED: (u32, u32) = (5, 2);
/// ...and timers fire so late (`kGranularity`, the same).
const GRANULARITY: Duration = Duration::from_millis(1);
/// Weight of one datagram in the share of lost ones: a mean over some 500.
/// Ours; not measured apart.
const WEIGHT: f64 = 0.002;
/// Acknowledged bytes count as datagrams of this size, and so many at the most
/// at a time.
const DATAGRAM: f64 = 1400.0;
const DATAGRAMS_AT_ONCE: f64 = 100.0;

/// Loss detection of one path.
#[derive(Debug)]
pub struct LossDetection {
    packet_threshold: u64,
    largest_acked: Option<u64>,
    /// When the next packet's time threshold passes.
    timer: Option<Time>,
    share: f64,
    /// The last packet taken for lost.
    last_lost: Option<u64>,
}

/// What was newly taken for lost.
#[derive(Clone, Copy, Debug, Default)]
pub struct Losses {
    pub bytes: u64,
    /// Packets one after another are one run.
    pub runs: u32,
}

impl LossDetection {
    pub fn new() -> Self {
        Self {
            packet_threshold: PACKET_THRESHOLD,
            largest_acked: None,
            timer: None,
            share: 0.0,
            last_lost: None,
        }
    }

    /// The highest packet number acknowledged.
    pub fn largest_acked(&self) -> Option<u64> {
        self.largest_acked
    }

    /// When [`Self::detect`] has something to do, if no acknowledgement comes.
    pub fn timer(&self) -> Option<Time> {
        self.timer
    }

    /// Share of the datagrams lost lately, 0 to 1.
    pub fn share(&self) -> f64 {
        self.share
    }

    /// A packet taken for lost has arrived; `largest` is the acknowledgement's.
    pub fn on_spurious(&mut self, number: u64, largest: u64) {
        let distance = self.largest_acked.unwrap_or(largest).saturating_sub(number) + 1;
        self.packet_threshold = self.packet_threshold.max(distance.min(PACKET_THRESHOLD_MAX));
    }

    /// So many bytes were newly acknowledged.
    pub fn on_acked_bytes(&mut self, bytes: u64) {
        self.share *= 1.0 - WEIGHT * (bytes as f64 / DATAGRAM).min(DATAGRAMS_AT_ONCE);
    }

    /// The newest packet newly acknowledged has this number.
    pub fn on_newest_acked(&mut self, number: u64) {
        self.largest_acked = Some(self.largest_acked.map_or(number, |l| l.max(number)));
    }

    /// All in flight has been given up: nothing is waited for.
    pub fn clear_timer(&mut self) {
        self.timer = None;
    }

    /// Packets with enough later ones acknowledged, or sent long enough before
    /// one that was, are lost. Where what carries them repairs losses itself (`repaired`) some
    /// wait for one that it repairs, and those behind say nothing.
    pub fn detect(
        &mut self,
        sent: &mut SentPackets,
        mtu: &mut MtuSearch,
        counters: &mut PathCounters,
        (rtt, repaired): (&RoundTrip, bool),
        now: Time,
        settled: &mut Settled,
    ) -> Losses {
        let mut losses = Losses::default();
        let Some(largest) = self.largest_acked else { return losses };
        let (times, of) = if repaired { TIME_THRESHOLD_REPAIRED } else { TIME_THRESHOLD };
        let patience = rtt.smoothed().max(rtt.latest()) * times / of + GRANULARITY;
        self.timer = None;
        let start = sent.oldest_in_flight().map_or(largest, |(n, _)| n);
        for number in start..largest {
            let Some(packet) = sent.get(number).copied() else { continue };
            if packet.fate != Fate::InFlight {
                continue;
            }
            let due = packet.sent_at + patience;
            let many_behind = !repaired && largest - number >= self.packet_threshold;
            if !many_behind && now < due {
                self.timer = Some(self.timer.map_or(due, |at| at.min(due)));
                continue;
            }
            if packet.mtu_probe {
                mtu.on_probe_lost(packet.size, now);
            } else {
                mtu.on_datagram_lost(packet.size, now);
                losses.bytes += u64::from(packet.size);
                losses.runs += u32::from(self.last_lost.is_none_or(|last| last + 1 != number));
                self.last_lost = Some(number);
                self.share = self.share * (1.0 - WEIGHT) + WEIGHT;
            }
            counters.lost += 1;
            if !packet.reinjected {
                settled.lost.extend(sent.frames(&packet));
            }
            sent.settle(number, Fate::Lost);
        }
        losses
    }
}

#[cfg(test)]
mod tests {
    use super::super::sent::SentPacket;
    use super::*;

    struct Flight {
        loss: LossDetection,
        sent: SentPackets,
        mtu: MtuSearch,
        counters: PathCounters,
        rtt: RoundTrip,
        repaired: bool,
    }

    /// So many packets, a millisecond apart; the round trip is 40 ms.
    fn flight(packets: u64) -> Flight {
        let mut sent = SentPackets::default();
        for ms in 0..packets {
            sent.push(SentPacket::new(Time::from_millis(ms), 1000, Fate::InFlight), 0);
        }
        let mut rtt = RoundTrip::default();
        rtt.on_sample(Duration::from_millis(40), Time::from_millis(40));
        let (loss, mtu) = (LossDetection::new(), MtuSearch::new(1200, 1472, 28));
        Flight { loss, sent, mtu, counters: PathCounters::default(), rtt, repaired: false }
    }

    impl Flight {
        fn ack(&mut self, number: u64, ms: u64) -> u64 {
            self.sent.settle(number, Fate::Acked);
            self.loss.on_newest_acked(number);
            self.detect(ms)
        }

        fn detect(&mut self, ms: u64) -> u64 {
            let now = Time::from_millis(ms);
            let (sent, mtu, counters) = (&mut self.sent, &mut self.mtu, &mut self.counters);
            let settled = &mut Settled::default();
            let of_path = (&self.rtt, self.repaired);
            self.loss.detect(sent, mtu, counters, of_path, now, settled).bytes
        }
    }

    #[test]
    fn three_packets_behind_a_missing_one_show_that_it_is_lost() {
        let mut flight = flight(4);
        assert_eq!(flight.ack(1, 41), 0);
        assert_eq!(flight.ack(2, 42), 0);
        assert_eq!(flight.ack(3, 43), 1000);
        assert_eq!(flight.counters.lost, 1);
        assert!(flight.loss.share() > 0.0);
    }

    #[test]
    fn one_is_enough_when_nine_eighths_of_a_round_trip_have_passed() {
        let mut flight = flight(2);
        assert_eq!(flight.ack(1, 41), 0);
        let due = flight.loss.timer().unwrap();
        assert_eq!(due, Time::from_millis(46));
        assert_eq!(flight.detect(46), 1000);
        assert_eq!(flight.loss.timer(), None);
    }

    #[test]
    fn what_tcp_carries_is_waited_for_until_tcp_has_repaired_it() {
        let mut flight = Flight { repaired: true, ..flight(60) };
        for number in 1..60 {
            assert_eq!(flight.ack(number, 40 + number), 0);
        }
        assert_eq!(flight.loss.timer(), Some(Time::from_millis(101)));
        assert_eq!(flight.detect(101), 1000, "TCP was given up, most likely");
    }

    #[test]
    fn a_path_that_reorders_is_waited_for() {
        let mut flight = flight(20);
        flight.ack(3, 43);
        flight.loss.on_spurious(0, 10);
        assert_eq!(flight.loss.packet_threshold, 4);
        flight.loss.on_spurious(0, 1 << 40);
        flight.loss.on_newest_acked(1 << 40);
        flight.loss.on_spurious(0, 1 << 40);
        assert_eq!(flight.loss.packet_threshold, PACKET_THRESHOLD_MAX);
    }
}
