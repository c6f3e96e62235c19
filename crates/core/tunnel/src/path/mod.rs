//! One path: one of our links to one address of the peer, with its own packet
//! numbers, acknowledgements, model and liveness.

mod arrival;
pub mod closed;
pub mod congestion;
pub mod inbound;
pub mod liveness;
mod loss;
pub mod mtu;
pub mod pacing;
pub mod received;
pub mod reports;
pub mod rtt;
pub mod sent;
mod settled;

use crate::config::LinkId;
use arrival::ArrivalEstimate;
use braid_handshake::ReplayWindow;
use braid_units::{Rate, Time};
use braid_wire::{Ack, HEADER_LEN, TAG_LEN, expand};
pub use congestion::Controller;
use congestion::{AckSample, DelayModel};
use inbound::Inbound;
use liveness::{Liveness, PathState, Return};
use loss::LossDetection;
use mtu::MtuSearch;
use pacing::Pacer;
use received::ReceivedPackets;
use reports::Reports;
use rtt::RoundTrip;
use sent::{Fate, SentFrame, SentPacket, SentPackets};
pub use settled::Settled;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Above this rate the CPU is the bottleneck, not the link.
const CPU_BOUND: Rate = Rate::from_mbit(3_000);

/// What a path may be slower than at its best before it's thought silent.
const SLOWNESS: Duration = Duration::from_millis(100);

/// How often a path is asked whose round trip is hardly known.
const SETTLING: Duration = Duration::from_millis(50);

/// Feedback is late when it's overdue by this: timers and scheduling of both
/// ends.
const OVERDUE_MARGIN: Duration = Duration::from_millis(10);

/// No datagram waits longer for the pacer, whatever the rate fell to.
const LONGEST_PACING: Duration = Duration::from_millis(100);

/// A path that has carried no more than these has no capacity to be careful
/// about after an outage.
const FIRST_PACKETS: u64 = 8;

/// How the home wants a path used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathPolicy {
    /// Lower is used first.
    pub tier: u8,
    /// Only when nothing else works.
    pub standby: bool,
    /// Send no faster.
    pub cap: Option<Rate>,
}

/// Counters of a path.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
pub struct PathCounters {
    /// UDP payload bytes sent.
    pub sent_bytes: u64,
    /// Datagrams sent.
    pub sent_datagrams: u64,
    /// UDP payload bytes received.
    pub received_bytes: u64,
    /// Datagrams received.
    pub received_datagrams: u64,
    /// Datagrams taken for lost.
    pub lost: u64,
    /// Of these, those that had only been late.
    pub spurious: u64,
    /// Times the path was suspected.
    pub suspected: u64,
}

/// One path.
#[derive(Debug)]
pub struct Path {
    /// Its number.
    pub id: u8,
    /// Our link.
    pub link: LinkId,
    /// The peer's address on it.
    pub remote: SocketAddr,
    /// Our address on it, where a socket has several.
    pub local: Option<IpAddr>,
    /// How the home wants it used.
    pub policy: PathPolicy,
    /// How fast the peer may send by it at the most, if we say so.
    pub cap_down: Option<Rate>,
    /// The policy must still be told to the peer.
    pub policy_untold: bool,
    /// What is on its way.
    pub sent: SentPackets,
    /// Received packets not yet reported.
    pub received: ReceivedPackets,
    /// Replay window.
    pub replay: ReplayWindow,
    /// Delays.
    pub rtt: RoundTrip,
    /// Capacity.
    pub congestion: DelayModel,
    /// Departures.
    pub pacer: Pacer,
    /// Datagram size.
    pub mtu: MtuSearch,
    /// Does it work?
    pub liveness: Liveness,
    /// Counters.
    pub counters: PathCounters,
    /// When the last datagram that asks for feedback left.
    pub last_eliciting: Time,
    /// Datagrams that come by it.
    pub inbound: Inbound,
    delivered: u64,
    loss: LossDetection,
    arrival: ArrivalEstimate,
}

/// Whether other paths can send again what is late on one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Others {
    /// No other works.
    None,
    /// Other data waits for them.
    Busy,
    /// All that waited has gone: they have room to spare.
    Free,
}

/// When a path's loss detection next has something to do.
#[derive(Clone, Copy, Debug)]
pub struct Deadlines {
    /// If nothing comes of it until then.
    pub at: Option<Time>,
    /// Sooner when a report comes that was written at this moment or later.
    pub settled_at: Option<Time>,
}

impl Path {
    /// A path to `remote`, whose device takes IP packets of `device_mtu`.
    pub fn new(id: u8, link: LinkId, remote: SocketAddr, device_mtu: u16, now: Time) -> Self {
        let mtu = mtu_search(remote, device_mtu);
        let datagram = u64::from(mtu.current());
        let mut new = Self {
            id,
            link,
            remote,
            local: None,
            policy: PathPolicy::default(),
            cap_down: None,
            policy_untold: false,
            sent: SentPackets::default(),
            received: ReceivedPackets::default(),
            replay: ReplayWindow::new(),
            rtt: RoundTrip::default(),
            congestion: DelayModel::new(datagram),
            pacer: Pacer::default(),
            mtu,
            liveness: Liveness::new(now),
            counters: PathCounters::default(),
            last_eliciting: now,
            inbound: Inbound::new(now),
            delivered: 0,
            loss: LossDetection::new(),
            arrival: ArrivalEstimate::default(),
        };
        new.estimate_arrival();
        new
    }

    /// When to ask whether it works, if nothing else was sent for `idle`; sooner
    /// while its round trip is hardly known.
    pub fn probe_at(&self, idle: Option<Duration>) -> Option<Time> {
        let idle = if self.rtt.is_settled() { idle } else { Some(SETTLING) };
        self.liveness.probe_at(self.last_eliciting, idle)
    }

    /// Plaintext bytes that a datagram has room for.
    pub fn room(&self) -> usize {
        usize::from(self.mtu.current()).saturating_sub(HEADER_LEN + TAG_LEN)
    }

    /// The peer's newest packet came from here. True if that's another address
    /// than before.
    pub fn move_to(&mut self, origin: crate::peer::Origin, now: Time) -> bool {
        self.local = origin.local;
        self.link = origin.link;
        let moves = self.remote != origin.remote;
        if moves {
            if self.remote.ip() != origin.remote.ip() {
                // Another network: what was learnt doesn't hold. A new port
                // alone is a NAT's doing.
                self.mtu.on_path_changed();
                self.rtt.reset();
                self.congestion.on_path_moved();
                self.estimate_arrival();
            }
            self.remote = origin.remote;
            self.liveness.probe_soon(now);
        }
        moves
    }

    /// Share of the datagrams lost lately, 0 to 1.
    pub fn loss_share(&self) -> f64 {
        self.loss.share()
    }

    /// It works and has room for another datagram now.
    pub fn is_available(&self, now: Time) -> bool {
        self.liveness.is_up() && self.release_at(now).is_some_and(|at| at <= now)
    }

    /// When pacing lets the next datagram go; `None` while the window is full
    /// or the path doesn't work.
    pub fn release_at(&self, now: Time) -> Option<Time> {
        let full =
            self.sent.in_flight_bytes() + u64::from(self.mtu.current()) > self.congestion.window();
        (self.liveness.is_up() && !full).then(|| self.pacer.release_at().max(now))
    }

    /// The CPU is its bottleneck, not the link.
    pub fn is_cpu_bound(&self) -> bool {
        self.congestion.pacing_rate() > CPU_BOUND
    }

    /// It's given less than it could take: what is measured now says nothing of
    /// its capacity.
    pub fn is_underused(&self, now: Time) -> bool {
        let filled = self.sent.in_flight_bytes() * 4 >= self.congestion.window() * 3;
        !filled && self.pacer.is_behind(now)
    }

    /// When `bytes` more would arrive at the peer if they were given to this
    /// path now, in microseconds of a scale that all paths of a peer share.
    pub fn arrival_us(&self, bytes: u64, now: Time) -> i64 {
        let in_flight = self.sent.in_flight_bytes();
        self.arrival.at_us(bytes, in_flight, self.pacer.free_at(), now)
    }

    /// Send no faster.
    pub fn set_cap(&mut self, cap: Option<Rate>) {
        self.congestion.set_cap(cap);
        self.estimate_arrival();
    }

    /// Refreshes the cached arrival estimate; call after any change of a model.
    fn estimate_arrival(&mut self) {
        self.arrival = ArrivalEstimate::new(&self.congestion, &self.rtt);
    }

    /// A datagram left. `frames` were pushed to `sent` before.
    #[inline]
    pub fn on_sent(&mut self, mut packet: SentPacket, frames: u16, paced: bool, now: Time) {
        let size = u64::from(packet.size);
        if packet.fate == Fate::InFlight {
            packet.delivered = self.delivered;
            self.last_eliciting = now;
        }
        self.sent.push(packet, frames);
        if paced {
            self.pacer.on_sent(size, self.congestion.pacing_rate(), now);
        }
        self.counters.sent_bytes += size;
        self.counters.sent_datagrams += 1;
    }

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
        let acked = self.settle_acked(ack, largest, now, arrived, settled);
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
        settled: &mut Settled,
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
                        settled.spurious += 1;
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
        if let Some(delays) = self.one_way_delays(news) {
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
                back_us,
                lost,
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
    fn one_way_delays(&self, news: &News<'_>) -> Option<Delays> {
        let mut delays = Delays { least_us: i64::MAX, sum_us: 0, samples: 0 };
        let mut sample = |sent_at: Time, at_us: i64| {
            let delay_us = at_us - sent_at.as_micros() as i64;
            delays.least_us = delays.least_us.min(delay_us);
            delays.sum_us += delay_us;
            delays.samples += 1;
        };
        if news.is_of_largest() {
            sample(news.packet.sent_at, news.received_us);
        }
        for (number, before_us) in news.ack.arrivals(news.largest) {
            if let Some(packet) = self.sent.get(number) {
                sample(packet.sent_at, news.received_us - i64::from(before_us));
            }
        }
        (delays.samples > 0).then_some(delays)
    }

    /// Timers of loss detection that are due.
    pub fn on_timeout(
        &mut self,
        now: Time,
        feedback: Duration,
        others: Others,
        reports: &Reports,
        settled: &mut Settled,
    ) {
        if self.loss.timer().is_some_and(|at| now >= at) {
            self.detect_losses(now, settled);
        }
        let oldest = self.sent.oldest_watched().map(|(_, packet)| *packet);
        let overdue = self.news_overdue_at(oldest.as_ref(), feedback);
        if overdue.is_some_and(|due| now >= reports.missed_at(due)) {
            self.liveness.suspect(now);
            self.counters.suspected += 1;
            self.blame_sizes(now);
            self.abandon_flight(settled);
        } else {
            while self.overdue_at(feedback, others).is_some_and(|at| now >= at) {
                self.reinject(settled);
            }
        }
        self.sent.forget_settled(now);
    }

    /// If small datagrams pass from now on, it was the flight's sizes that didn't.
    fn blame_sizes(&mut self, now: Time) {
        for (_, packet) in self.sent.in_flight().filter(|(_, packet)| !packet.mtu_probe) {
            self.mtu.on_datagram_lost(packet.size, now);
        }
    }

    /// When loss detection next has something to do.
    pub fn deadlines(&self, feedback: Duration, others: Others, reports: &Reports) -> Deadlines {
        let oldest = self.sent.oldest_watched().map(|(_, packet)| packet);
        let overdue = self.news_overdue_at(oldest, feedback);
        let suspect = overdue.map(|due| reports.missed_at(due));
        let losses = [self.loss.timer(), suspect, self.overdue_at(feedback, others)];
        Deadlines {
            at: losses.into_iter().flatten().min(),
            settled_at: overdue.map(|due| reports.settles_at(due)),
        }
    }

    /// All that is in flight is taken for lost: the path is silent, or gone.
    pub fn abandon_flight(&mut self, settled: &mut Settled) {
        while let Some((number, packet)) = self.sent.oldest_in_flight() {
            let packet = *packet;
            if !packet.reinjected {
                settled.lost.extend(self.sent.frames(&packet));
            }
            if packet.mtu_probe {
                self.mtu.on_probe_lost(packet.size, packet.sent_at);
            }
            self.sent.settle(number, Fate::Lost);
        }
        self.loss.clear_timer();
    }

    /// What is thought of the path.
    pub fn state(&self) -> PathState {
        self.liveness.state()
    }

    /// When there should have been news of the path.
    fn news_overdue_at(&self, oldest: Option<&SentPacket>, feedback: Duration) -> Option<Time> {
        let oldest = oldest.map(|packet| packet.sent_at);
        self.liveness.overdue_at(oldest, self.expected_rtt(), self.bounded_variation(), feedback)
    }

    /// After how long feedback is expected. A path that was slow just now isn't
    /// waited for that long: others are quicker.
    fn expected_rtt(&self) -> Duration {
        self.rtt.smoothed().min(self.rtt.base() + SLOWNESS)
    }

    fn bounded_variation(&self) -> Duration {
        self.rtt.variation().min(SLOWNESS / 4)
    }

    /// When a packet's feedback is late enough to send its frames by another
    /// path too (the probe timeout of RFC 9002, section 6.2, spent on another
    /// path). While the others are busy, only the oldest packet's; what is sent
    /// twice by others with room costs nothing, and may be just what the flow's
    /// window is stuck on (Raiciu et al., NSDI 2012, section 4.2).
    fn overdue_at(&self, feedback: Duration, others: Others) -> Option<Time> {
        if !self.liveness.is_up() {
            return None;
        }
        let (_, packet) = self.sent.oldest_sent_once()?;
        let oldest_again = self.sent.oldest_watched().is_some_and(|(_, p)| p.reinjected);
        if others != Others::Free && oldest_again {
            return None;
        }
        // A link that stands still for a moment is seen sooner than jitter would
        // allow on another.
        let margin = match others {
            Others::Free if self.congestion.is_tracking() => OVERDUE_MARGIN,
            _ => (self.bounded_variation() * 4).max(OVERDUE_MARGIN),
        };
        let overdue = packet.sent_at + self.expected_rtt() + feedback + margin;
        Some(match others {
            // By this path again: of no use while what it holds is arriving.
            Others::None => overdue.max(self.liveness.last_progress() + feedback * 2 + margin),
            Others::Busy | Others::Free => overdue,
        })
    }

    fn reinject(&mut self, settled: &mut Settled) {
        let Some((number, packet)) = self.sent.oldest_sent_once() else { return };
        let packet = *packet;
        settled.lost.extend(self.sent.frames(&packet));
        self.sent.note_reinjected(number);
    }

    /// All that is in flight is to be sent by others too. It may have arrived
    /// though: that it's lost is for acknowledgements to tell.
    pub fn reinject_flight(&mut self, settled: &mut Settled) {
        while self.sent.oldest_sent_once().is_some() {
            self.reinject(settled);
        }
    }

    fn detect_losses(&mut self, now: Time, settled: &mut Settled) -> u64 {
        let (sent, mtu, counters) = (&mut self.sent, &mut self.mtu, &mut self.counters);
        self.loss.detect(sent, mtu, counters, &self.rtt, now, settled)
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

fn mtu_search(remote: SocketAddr, device_mtu: u16) -> MtuSearch {
    let header = if remote.is_ipv4() { 28 } else { 48 };
    MtuSearch::new(1200, device_mtu.saturating_sub(header).max(1200), header)
}

fn expand32(truncated: u32, next: u64) -> u64 {
    expand(truncated, 32, next.saturating_sub(1))
}
