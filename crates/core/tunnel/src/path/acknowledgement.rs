//! Takes acknowledgements in: which packets the peer has, and what that says of the
//! path's delay, losses, liveness and capacity.

use super::Path;
use super::congestion::{AckSample, Arrived, Controller};
use super::liveness::Return;
use super::loss::Losses;
use super::sent::{Fate, SentFrame, SentPacket};
use super::settled::Settled;
use braid_units::Time;
use braid_wire::{Ack, expand};
use std::time::Duration;

/// No datagram waits longer for the pacer, whatever the rate fell to. Ours; not measured apart.
const LONGEST_PACING: Duration = Duration::from_millis(100);

/// A datagram of this part of the longest shows how long the link takes for one. Ours.
const FULL: (u16, u16) = (3, 4);

/// A path that has carried no more than these has no capacity to be careful
/// about after an outage. Ours.
const FIRST_PACKETS: u64 = 8;

impl Path {
    /// Takes an acknowledgement in. `unwrap` turns the peer's clock into a
    /// continuous one; `arrived` is told of each frame that the peer has.
    pub fn on_ack(
        &mut self,
        ack: &Ack<'_>,
        now: Time,
        feedback: Duration,
        mut unwrap: impl FnMut(u32) -> i64,
        arrived: impl FnMut(SentFrame),
        settled: &mut Settled,
    ) {
        let largest = expand32(ack.largest, self.sent.next_number());
        if largest >= self.sent.next_number() {
            return; // Never sent: a broken peer.
        }
        let received_us = unwrap(ack.largest_received_us);
        let acked = self.settle_acked(ack, largest, now, arrived);
        self.loss.on_acked_bytes(acked.bytes);
        if let Some((number, packet)) = acked.newest {
            self.loss.on_newest_acked(number);
            self.delivered += acked.bytes;
            let news = News { ack, largest, received_us, number, packet };
            self.update_models(&news, now, feedback, settled);
        }
        self.sent.forget_settled(now);
    }

    /// Notes which packets the peer has.
    fn settle_acked(
        &mut self,
        ack: &Ack<'_>,
        largest: u64,
        now: Time,
        mut arrived: impl FnMut(SentFrame),
    ) -> Acked {
        let mut acked = Acked { bytes: 0, newest: None };
        let oldest = self.sent.numbers().start;
        for (low, high) in ack.ranges(largest) {
            if high < oldest {
                break;
            }
            // Upwards, as the chunks of a packet went.
            for number in low.max(oldest)..=high {
                let Some(packet) = self.sent.get(number).copied() else { continue };
                match packet.fate {
                    Fate::Acked => continue,
                    Fate::Lost => {
                        self.counters.spurious += 1;
                        self.loss.on_spurious(number, largest);
                    }
                    Fate::InFlight | Fate::Unwatched => {}
                }
                self.sent.frames(&packet).for_each(&mut arrived);
                if packet.mtu_probe {
                    self.mtu.on_probe_acked(packet.size, now);
                } else {
                    self.mtu.on_datagram_acked(packet.size, now);
                }
                self.sent.settle(number, Fate::Acked);
                if packet.fate == Fate::Unwatched {
                    continue;
                }
                acked.bytes += u64::from(packet.size);
                if acked.newest.is_none_or(|(n, _)| number > n) {
                    acked.newest = Some((number, packet));
                }
            }
        }
        acked
    }

    /// What an acknowledgement of new packets says of delay, loss, liveness and
    /// capacity.
    fn update_models(
        &mut self,
        news: &News<'_>,
        now: Time,
        feedback: Duration,
        settled: &mut Settled,
    ) {
        let packet = &news.packet;
        let mut back_us = None;
        if news.is_of_largest() {
            let sample = (now - packet.sent_at)
                .saturating_sub(Duration::from_micros(u64::from(news.ack.delay_us)));
            self.rtt.on_sample(sample, now);
            back_us = Some((packet.sent_at + sample).as_micros() as i64 - news.received_us);
        }
        let lost = self.detect_losses(now, settled);
        self.note_life(news, now, settled);
        if let Some(delays) = self.one_way_delays(news, now) {
            self.congestion.on_ack(&AckSample {
                now,
                delivered: self.delivered,
                delivered_before: packet.delivered,
                received_us: news.received_us,
                sent_at: packet.sent_at,
                app_limited: packet.app_limited,
                min_delay_us: delays.least_us,
                delay_above_min_us: delays.sum_us - delays.least_us * i64::from(delays.samples),
                delay_samples: delays.samples,
                forward_span: self.forward_jitter.span(),
                back_us,
                lost: lost.bytes,
                loss_runs: lost.runs,
                in_flight: self.sent.in_flight_bytes(),
                base_rtt: self.rtt.base(),
                feedback,
            });
            self.pacer.clamp(now, LONGEST_PACING);
        }
        self.congestion.set_datagram(u64::from(self.mtu.current()));
        self.estimate_arrival();
    }

    /// The path works; it may have come back to life.
    fn note_life(&mut self, news: &News<'_>, now: Time, settled: &mut Settled) {
        let sent_at = news.packet.sent_at;
        // What was held up by a link that stood still, and came by it after all,
        // shows that it moves again: as if sent when it could have been.
        let moves = match self.congestion.base_delay_us() {
            Some(base) if news.is_of_largest() => {
                Time::from_micros(u64::try_from(news.received_us - base).unwrap_or(0))
            }
            _ => sent_at,
        };
        match self.liveness.on_acked(sent_at.max(moves), now) {
            Return::None => {}
            Return::Short => settled.returned = true,
            Return::Long => {
                settled.returned = true;
                if self.loss.largest_acked().is_some_and(|l| l > FIRST_PACKETS) {
                    self.congestion.on_return(now);
                }
            }
        }
    }

    /// One-way delays of what a report newly acknowledges.
    fn one_way_delays(&mut self, news: &News<'_>, now: Time) -> Option<Delays> {
        let mut delays = Delays { least_us: i64::MAX, sum_us: 0, samples: 0 };
        let (mut newest, mut later): (Option<Arrived>, Option<Arrived>) = (None, None);
        let full = self.mtu.current() / FULL.1 * FULL.0;
        let jitter = &mut self.forward_jitter;
        let mut sample = |packet: &SentPacket, at_us: i64| {
            let delay_us = at_us - packet.sent_at.as_micros() as i64;
            delays.least_us = delays.least_us.min(delay_us);
            delays.sum_us += delay_us;
            delays.samples += 1;
            let arrived = Arrived { at_us, delay_us, full: packet.size >= full };
            newest.get_or_insert(arrived);
            if let Some(later) = later.replace(arrived) {
                jitter.on_pair(arrived, later, now);
            }
        };
        if news.is_of_largest() {
            sample(&news.packet, news.received_us);
        }
        for (number, before_us) in news.ack.arrivals(news.largest) {
            if let Some(packet) = self.sent.get(number) {
                sample(packet, news.received_us - i64::from(before_us));
            }
        }
        // From the report before to this one.
        if let Some((earlier, later)) = self.newest_arrived.zip(later) {
            jitter.on_pair(earlier, later, now);
        }
        self.newest_arrived = newest.or(self.newest_arrived);
        (delays.samples > 0).then_some(delays)
    }

    pub(super) fn detect_losses(&mut self, now: Time, settled: &mut Settled) -> Losses {
        let (sent, mtu, counters) = (&mut self.sent, &mut self.mtu, &mut self.counters);
        let of_path = (&self.rtt, self.link.is_repaired());
        self.loss.detect(sent, mtu, counters, of_path, now, settled)
    }
}

/// What an acknowledgement newly acknowledged.
struct Acked {
    bytes: u64,
    /// The newest packet, with its number.
    newest: Option<(u64, SentPacket)>,
}

/// An acknowledgement of new packets.
struct News<'a> {
    ack: &'a Ack<'a>,
    /// The largest number that the peer has received.
    largest: u64,
    /// When, by the peer's clock, unwrapped.
    received_us: i64,
    /// The newest packet newly acknowledged.
    number: u64,
    packet: SentPacket,
}

impl News<'_> {
    /// The newest packet is new: its receive time and the report's delay are its own.
    fn is_of_largest(&self) -> bool {
        self.number == self.largest
    }
}

/// One-way delays, with the constant offset of both clocks.
struct Delays {
    least_us: i64,
    sum_us: i64,
    samples: u32,
}

fn expand32(truncated: u32, next: u64) -> u64 {
    expand(truncated, 32, next.saturating_sub(1))
}
