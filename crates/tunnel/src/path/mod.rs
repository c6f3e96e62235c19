//! One path: one of our links to one address of the peer, with its own packet
//! numbers, acknowledgements, model and liveness.

pub mod closed;
pub mod congestion;
pub mod hearing;
pub mod liveness;
pub mod mtu;
pub mod pacing;
pub mod received;
pub mod reports;
pub mod rtt;
pub mod sent;

use crate::config::LinkId;
use braid_handshake::ReplayWindow;
use braid_units::{Rate, Time};
use braid_wire::{Ack, HEADER_LEN, TAG_LEN, expand};
pub use congestion::Controller;
use congestion::{AckSample, DelayModel};
use hearing::Hearing;
use liveness::{Liveness, PathState, Return};
use mtu::MtuSearch;
use pacing::Pacer;
use received::ReceivedPackets;
use reports::Reports;
use rtt::RoundTrip;
use sent::{Fate, SentFrame, SentPacket, SentPackets};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Packets acknowledged behind a missing one before it's taken for lost (RFC
/// 9002, section 6.1.1); grows when that was wrong, as RACK's window does (RFC
/// 8985, section 6.2).
const REORDER_PACKETS: u64 = 3;
const REORDER_PACKETS_MAX: u64 = 128;

/// A path this quick is held up by the processor and not by the link.
const SWIFT: Rate = Rate::from_mbit(3_000);

/// What a path may be slower than at its best before it's thought silent.
const SLOWNESS: Duration = Duration::from_millis(100);

/// How often a path is asked whose round trip is hardly known.
const SETTLING: Duration = Duration::from_millis(50);

/// Feedback is late when it's overdue by this: timers and scheduling of both
/// ends.
const OVERDUE_MARGIN: Duration = Duration::from_millis(10);

/// What the home wants of a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wish {
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
    /// What the home wants of it.
    pub wish: Wish,
    /// How fast the peer may send by it at the most, if we say so.
    pub cap_down: Option<Rate>,
    /// The wish must still be told to the peer.
    pub wish_untold: bool,
    /// What is on its way.
    pub sent: SentPackets,
    /// What has come.
    pub received: ReceivedPackets,
    /// What may still come.
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
    pub hearing: Hearing,
    reorder_packets: u64,
    largest_acked: Option<u64>,
    delivered: u64,
    loss_at: Option<Time>,
    loss_share: f64,
    outlook: Outlook,
}

/// What the models say of arrivals: worked out with every acknowledgement, as
/// each datagram asks each path for it.
#[derive(Clone, Copy, Debug, Default)]
struct Outlook {
    /// One way, without a queue, on the scale of all paths.
    delay_us: i64,
    /// There and back, without a queue.
    base_nanos: u64,
    /// What waits in the link.
    queue_nanos: u64,
    nanos_per_kib: u64,
}

impl Outlook {
    fn nanos_for(&self, bytes: u64) -> u64 {
        bytes.saturating_mul(self.nanos_per_kib) >> 10
    }
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

/// What an acknowledgement or a timer settled.
#[derive(Debug, Default)]
pub struct Settled {
    /// Frames to be sent again.
    pub lost: Vec<SentFrame>,
    /// Datagrams among the lost ones that have arrived after all.
    pub spurious: u64,
    /// The path came back to life.
    pub returned: bool,
}

impl Settled {
    /// Empties it for reuse.
    pub fn clear(&mut self) {
        self.lost.clear();
        self.spurious = 0;
        self.returned = false;
    }
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
            wish: Wish::default(),
            cap_down: None,
            wish_untold: false,
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
            hearing: Hearing::new(now),
            reorder_packets: REORDER_PACKETS,
            largest_acked: None,
            delivered: 0,
            loss_at: None,
            loss_share: 0.0,
            outlook: Outlook::default(),
        };
        new.foresee();
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
    pub fn move_to(&mut self, arrival: crate::peer::receive::Arrival, now: Time) -> bool {
        self.local = arrival.local;
        self.link = arrival.link;
        let moves = self.remote != arrival.remote;
        if moves {
            if self.remote.ip() != arrival.remote.ip() {
                // Another network: what was learnt doesn't hold. A new port
                // alone is a NAT's doing.
                self.mtu.on_path_changed();
                self.rtt.reset();
                self.congestion.on_path_moved();
                self.foresee();
            }
            self.remote = arrival.remote;
            self.liveness.probe_soon(now);
        }
        moves
    }

    /// Share of the datagrams lost lately, 0 to 1.
    pub fn loss_share(&self) -> f64 {
        self.loss_share
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

    /// The processor is its limit, not the link.
    pub fn is_swift(&self) -> bool {
        self.congestion.pacing_rate() > SWIFT
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
        let outlook = &self.outlook;
        let ahead = outlook.nanos_for(self.sent.in_flight_bytes() + bytes);
        let queue = ahead.saturating_sub(outlook.base_nanos).max(outlook.queue_nanos);
        let pacing = self.pacer.free_at().as_nanos().saturating_sub(now.as_nanos());
        let wait = queue.max(pacing).saturating_add(outlook.nanos_for(bytes));
        outlook.delay_us.saturating_add((now.as_nanos().saturating_add(wait) / 1000) as i64)
    }

    /// Send no faster.
    pub fn set_cap(&mut self, cap: Option<Rate>) {
        self.congestion.set_cap(cap);
        self.foresee();
    }

    /// To be called when the models have changed.
    fn foresee(&mut self) {
        let delay = self.congestion.base_delay_us().unwrap_or(i64::MAX / 4);
        let variation = (self.rtt.variation() / 2).as_micros() as i64;
        self.outlook = Outlook {
            delay_us: delay.saturating_add(variation),
            base_nanos: self.rtt.base().as_nanos() as u64,
            queue_nanos: (self.congestion.queue() / 2).as_nanos() as u64,
            nanos_per_kib: self.congestion.bandwidth().time_for(1024).as_nanos() as u64,
        };
    }

    /// A datagram left. `frames` were pushed to `sent` before.
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
        mut arrived: impl FnMut(SentFrame),
        settled: &mut Settled,
    ) {
        let largest = expand32(ack.largest, self.sent.next_number());
        if largest >= self.sent.next_number() {
            return; // Never sent: a broken peer.
        }
        let received_us = unwrap(ack.largest_received_us);
        let mut newest: Option<(u64, SentPacket)> = None;
        let mut acked_bytes = 0;
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
                        let distance =
                            self.largest_acked.unwrap_or(largest).saturating_sub(number) + 1;
                        self.reorder_packets =
                            self.reorder_packets.max(distance.min(REORDER_PACKETS_MAX));
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
                acked_bytes += u64::from(packet.size);
                if newest.is_none_or(|(n, _)| number > n) {
                    newest = Some((number, packet));
                }
            }
        }
        self.loss_share *= 1.0 - 0.002 * (acked_bytes as f64 / 1400.0).min(100.0);
        let Some((number, packet)) = newest else {
            self.sent.forget_settled(now);
            return;
        };
        self.largest_acked = Some(self.largest_acked.map_or(number, |l| l.max(number)));
        self.delivered += acked_bytes;

        let mut back_us = None;
        if number == largest {
            let sample = (now - packet.sent_at)
                .saturating_sub(Duration::from_micros(u64::from(ack.delay_us)));
            self.rtt.on_sample(sample, now);
            back_us = Some((packet.sent_at + sample).as_micros() as i64 - received_us);
        }
        let lost = self.detect_losses(now, settled);
        // What was held up by a link that stood still, and came by it after all,
        // shows that it moves again: as if sent when it could have been.
        let moves = match self.congestion.base_delay_us() {
            Some(base) if number == largest => {
                Time::from_micros(u64::try_from(received_us - base).unwrap_or(0))
            }
            _ => packet.sent_at,
        };
        match self.liveness.on_acked(packet.sent_at.max(moves), now) {
            Return::None => {}
            Return::Short => settled.returned = true,
            Return::Long => {
                settled.returned = true;
                if self.largest_acked.is_some_and(|l| l > 8) {
                    self.congestion.on_return(now);
                }
            }
        }

        // One-way delays of what this report newly acknowledges.
        let delay = |sent_at: Time, at_us: i64| at_us - sent_at.as_micros() as i64;
        let mut min_delay = i64::MAX;
        let (mut sum, mut samples) = (0i64, 0u32);
        let mut sample = |delay: i64| {
            min_delay = min_delay.min(delay);
            sum += delay;
            samples += 1;
        };
        if number == largest {
            sample(delay(packet.sent_at, received_us));
        }
        for (n, before_us) in ack.arrivals(largest) {
            if let Some(p) = self.sent.get(n) {
                sample(delay(p.sent_at, received_us - i64::from(before_us)));
            }
        }
        if samples > 0 {
            self.congestion.on_ack(&AckSample {
                now,
                delivered: self.delivered,
                delivered_before: packet.delivered,
                received_us,
                sent_at: packet.sent_at,
                app_limited: packet.app_limited,
                min_delay_us: min_delay,
                delay_above_min_us: sum - min_delay * i64::from(samples),
                delay_samples: samples,
                back_us,
                lost,
                in_flight: self.sent.in_flight_bytes(),
                base_rtt: self.rtt.base(),
                feedback,
            });
            self.pacer.clamp(now, Duration::from_millis(100));
        }
        self.congestion.set_datagram(u64::from(self.mtu.current()));
        self.foresee();
        self.sent.forget_settled(now);
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
        if self.loss_at.is_some_and(|at| now >= at) {
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
        let losses = [self.loss_at, suspect, self.overdue_at(feedback, others)];
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
        self.loss_at = None;
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

    /// Packets with enough later ones acknowledged, or sent long enough before
    /// one that was, are lost (RFC 9002, section 6.1). Returns the bytes.
    fn detect_losses(&mut self, now: Time, settled: &mut Settled) -> u64 {
        let Some(largest) = self.largest_acked else { return 0 };
        let patience =
            self.rtt.smoothed().max(self.rtt.latest()) * 9 / 8 + Duration::from_millis(1);
        self.loss_at = None;
        let mut bytes = 0;
        let start = self.sent.oldest_in_flight().map_or(largest, |(n, _)| n);
        for number in start..largest {
            let Some(packet) = self.sent.get(number).copied() else { continue };
            if packet.fate != Fate::InFlight {
                continue;
            }
            let due = packet.sent_at + patience;
            if largest - number < self.reorder_packets && now < due {
                self.loss_at = Some(self.loss_at.map_or(due, |at| at.min(due)));
                continue;
            }
            if packet.mtu_probe {
                self.mtu.on_probe_lost(packet.size, now);
            } else {
                self.mtu.on_datagram_lost(packet.size, now);
                bytes += u64::from(packet.size);
                self.loss_share = self.loss_share * 0.998 + 0.002;
            }
            self.counters.lost += 1;
            if !packet.reinjected {
                settled.lost.extend(self.sent.frames(&packet));
            }
            self.sent.settle(number, Fate::Lost);
        }
        bytes
    }
}

fn mtu_search(remote: SocketAddr, device_mtu: u16) -> MtuSearch {
    let header = if remote.is_ipv4() { 28 } else { 48 };
    MtuSearch::new(1200, device_mtu.saturating_sub(header).max(1200), header)
}

fn expand32(truncated: u32, next: u64) -> u64 {
    expand(truncated, 32, next.saturating_sub(1))
}
