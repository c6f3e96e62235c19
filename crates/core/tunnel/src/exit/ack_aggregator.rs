//! Now and then lets acknowledgements of a paced stream go together, so that its
//! sender keeps more in flight than its least round trip asks for.
//!
//! BBR's window is twice its rate times the *least* round trip of ten seconds, and
//! by unequal links the least is the quick link's, while data in order take as long
//! as by the slow one: beyond a ratio of some two the window is too small for both,
//! and the flow has the quick link's rate, however narrow that is. But BBR also
//! measures how much more than expected comes acknowledged at once, the most of five
//! to ten rounds, and has as much more in flight (`bbr_update_ack_aggregation` of
//! Linux' `tcp_bbr.c`; draft-ietf-ccwg-bbr-02, BBRUpdateACKAggregation), since in the
//! silence before it must not run dry.
//!
//! So every few rounds one silence is made, on the way to the sender: what it's told
//! is held while it goes on sending without being told, and goes when it stops. A
//! sender whose window is full stops at once, and loses nothing; but then there's no
//! silence to be measured either. So three silences are made although it stops. If it
//! goes on for longer afterwards they were worth it; if not, it's left alone for a
//! while (docs/design/017-bbr-over-unequal-links.md).

use super::Delivered;
use super::sender_pacing::SenderPacing;
use braid_inner::PureAck;
use braid_units::Time;
use std::collections::VecDeque;
use std::time::Duration;

/// The longest silence: Linux counts no more (`bbr_extra_acked_max_us`).
const LONGEST: Duration = Duration::from_millis(100);
/// Round trips by the slowest path between silences: the most of five rounds at the least
/// counts (`bbr_extra_acked_win_rtts`).
const EVERY_ROUND_TRIPS: u32 = 4;
/// A window of twice the least round trip is enough where the slowest is clearly shorter than
/// that: than 7/4 of the least. Ours.
const UNEQUAL: (u32, u32) = (7, 4);
/// Streams that have carried less aren't worth it. Ours.
const WORTHWHILE: u64 = 1_000_000;
/// Silences that are made although the sender stops: in the first all that is in flight
/// arrives, so each adds as much to the window. Ours.
const INSISTS: u8 = 3;
/// If nothing came of that, until the next time, twice as long after each, so many times.
/// Ours.
const REST: Duration = Duration::from_secs(5);
const MOST_DOUBLINGS: u32 = 6;
/// A packet longer than this is no acknowledgement without payload (headers of IPv6 and TCP
/// with all options, and of Ethernet).
const LONGEST_ACK: usize = 14 + 40 + 60;

/// The streams that we send, by their places in the entry queue.
#[derive(Debug, Default)]
pub struct AckAggregator {
    streams: Vec<Option<Box<Stream>>>,
    /// Places of those of which an acknowledgement is held.
    holding: Vec<u16>,
    released: VecDeque<Delivered>,
    round_trip: Duration,
    /// Paths differ so much that a window made of the least round trip is too small.
    unequal: bool,
}

/// A stream of ours that acknowledgements are of.
#[derive(Clone, Copy, Debug)]
pub struct StreamId {
    /// Its place in the entry queue.
    pub place: u16,
    /// The hash of its key.
    pub hash: u64,
}

#[derive(Debug)]
struct Stream {
    hash: u64,
    sent: u64,
    pacing: SenderPacing,
    /// That it's paced has been told.
    told: bool,
    /// The newest that the sender has been told of.
    passed: Option<PureAck>,
    held: Option<Held>,
    last_held: Time,
    /// Enough waited at the entry until then.
    busy_until: Time,
    effort: Effort,
    failures: u32,
}

#[derive(Debug)]
struct Held {
    ack: PureAck,
    packet: Delivered,
    since: Time,
}

/// How far silences go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effort {
    /// Until the sender stops. From this moment on it's to be insisted.
    Yielding { insist_at: Time },
    /// Though it stops, so many times more.
    Insisting { left: u8 },
    /// Until it stops: whether that was worth it is seen by how long it takes.
    Judging,
}

impl AckAggregator {
    /// To be told the least and the slowest path's round trip.
    pub fn set_round_trips(&mut self, least: Duration, slowest: Duration) {
        self.round_trip = slowest;
        self.unequal = slowest * UNEQUAL.1 > least * UNEQUAL.0;
    }

    /// Data of a stream come in that we send.
    #[inline]
    pub fn on_data(&mut self, id: StreamId, bytes: u64, now: Time) {
        let index = usize::from(id.place);
        if self.streams.len() <= index {
            self.streams.resize_with(index + 1, || None);
        }
        let Some(slot) = self.streams.get_mut(index) else { return };
        let stream = slot.get_or_insert_with(|| Box::new(Stream::new(id.hash, now)));
        if stream.hash != id.hash {
            self.released.extend(stream.held.take().map(|held| held.packet));
            self.holding.retain(|place| *place != id.place);
            **stream = Stream::new(id.hash, now);
        }
        stream.sent += bytes;
        stream.pacing.on_data(bytes, stream.held.is_some(), now);
    }

    /// Whether a packet of this length from the peer is to be offered.
    #[inline]
    pub fn concerns(&self, len: usize) -> bool {
        !self.streams.is_empty() && (len <= LONGEST_ACK || !self.holding.is_empty())
    }

    /// A packet for the sender of a stream; it's returned unless it's held, or follows
    /// others: [`Self::poll`] gives those. `busy` says that enough waits at the entry as it
    /// is. Buffers that aren't needed any more go to `freed`.
    pub fn offer(
        &mut self,
        id: StreamId,
        ack: Option<PureAck>,
        packet: Delivered,
        busy: bool,
        freed: &mut Vec<Vec<u8>>,
        now: Time,
    ) -> Option<Delivered> {
        let (round_trip, unequal) = (self.round_trip, self.unequal);
        let slot = self.streams.get_mut(usize::from(id.place)).and_then(Option::as_deref_mut);
        let Some(stream) = slot.filter(|stream| stream.hash == id.hash) else {
            return Some(packet);
        };
        if let Some(held) = &mut stream.held {
            if let Some(ack) = ack.filter(|ack| ack.supersedes(&held.ack)) {
                held.ack = ack;
                freed.push(std::mem::replace(&mut held.packet, packet).packet.bytes);
                return None;
            }
            // Nothing overtakes it.
            self.released.extend(stream.release(now));
            self.released.push_back(packet);
            self.holding.retain(|place| *place != id.place);
            return self.released.pop_front();
        }
        let Some(ack) = ack else { return Some(packet) };
        if busy {
            stream.busy_until = now + round_trip;
        }
        if unequal && stream.may_hold(&ack, round_trip, now) {
            stream.held = Some(Held { ack, packet, since: now });
            self.holding.push(id.place);
            return None;
        }
        stream.pass(ack, now);
        Some(packet)
    }

    /// What is held too long already goes.
    pub fn release(&mut self, now: Time) {
        let (streams, released) = (&mut self.streams, &mut self.released);
        let silence = self.round_trip.min(LONGEST);
        self.holding.retain(|place| {
            let slot = streams.get_mut(usize::from(*place)).and_then(Option::as_deref_mut);
            let Some(stream) = slot else { return false };
            let waits = stream.release_at(silence).is_some_and(|at| at > now);
            if !waits {
                stream.judge(silence, now);
                released.extend(stream.release(now));
            }
            waits
        });
    }

    /// When the next one goes.
    pub fn release_at(&self) -> Option<Time> {
        let silence = self.round_trip.min(LONGEST);
        let stream = |place: &u16| self.streams.get(usize::from(*place))?.as_deref();
        self.holding.iter().filter_map(|place| stream(place)?.release_at(silence)).min()
    }

    /// [`Self::poll`] has something.
    pub fn has_released(&self) -> bool {
        !self.released.is_empty()
    }

    /// The next packet that was held.
    #[inline]
    pub fn poll(&mut self) -> Option<Delivered> {
        self.released.pop_front()
    }

    /// True once for a stream whose sender paces: holding its acknowledgements back all the
    /// time does it harm.
    pub fn take_paced(&mut self, place: u16) -> bool {
        let slot = self.streams.get_mut(usize::from(place)).and_then(Option::as_deref_mut);
        let Some(stream) = slot.filter(|stream| !stream.told && stream.pacing.is_paced()) else {
            return false;
        };
        stream.told = true;
        true
    }

    /// Forgets the streams, unless something is held.
    pub fn rest(&mut self) {
        if self.holding.is_empty() && self.released.is_empty() {
            *self = Self { round_trip: self.round_trip, unequal: self.unequal, ..Self::default() };
        }
    }
}

impl Stream {
    fn new(hash: u64, now: Time) -> Self {
        Self {
            hash,
            sent: 0,
            pacing: SenderPacing::new(now),
            told: false,
            passed: None,
            held: None,
            last_held: now,
            busy_until: now,
            effort: Effort::Yielding { insist_at: now },
            failures: 0,
        }
    }

    fn may_hold(&self, ack: &PureAck, round_trip: Duration, now: Time) -> bool {
        self.pacing.is_paced()
            && self.sent > WORTHWHILE
            && self.passed.is_some_and(|passed| ack.supersedes(&passed))
            && now < self.pacing.stops_at()
            && now >= self.busy_until
            && now - self.last_held > round_trip * EVERY_ROUND_TRIPS
    }

    /// The sender is told.
    fn pass(&mut self, ack: PureAck, now: Time) {
        match self.passed {
            Some(passed) if ack.supersedes(&passed) => {
                let bytes = ack.number.wrapping_sub(passed.number);
                self.pacing.on_acked(u64::from(bytes), now);
                self.passed = Some(ack);
            }
            Some(_) => {}
            None => self.passed = Some(ack),
        }
    }

    fn release(&mut self, now: Time) -> Option<Delivered> {
        let held = self.held.take()?;
        self.last_held = now;
        self.pass(held.ack, now);
        Some(held.packet)
    }

    fn release_at(&self, silence: Duration) -> Option<Time> {
        let since = self.held.as_ref()?.since;
        Some(match self.effort {
            Effort::Insisting { .. } => since + silence,
            _ => (since + LONGEST).min(self.pacing.stops_at()),
        })
    }

    /// A silence that should have been this long is over by its time.
    fn judge(&mut self, silence: Duration, now: Time) {
        let Some(held) = &self.held else { return };
        let goes_on = (now - held.since) * 2 >= silence;
        self.effort = match self.effort {
            Effort::Insisting { left: 0 | 1 } => Effort::Judging,
            Effort::Insisting { left } => Effort::Insisting { left: left - 1 },
            Effort::Yielding { .. } | Effort::Judging if goes_on => {
                self.failures = 0;
                Effort::Yielding { insist_at: now }
            }
            Effort::Judging => {
                let rest = REST * 2_u32.pow(self.failures.min(MOST_DOUBLINGS));
                self.failures += 1;
                Effort::Yielding { insist_at: now + rest }
            }
            Effort::Yielding { insist_at } if now >= insist_at => {
                Effort::Insisting { left: INSISTS }
            }
            resting => resting,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use braid_inner::{Headers, InnerPacket, Layer, Offload};

    const ID: StreamId = StreamId { place: 7, hash: 99 };
    const SEGMENT: u64 = 1448;
    const ROUND_TRIP: Duration = Duration::from_millis(50);

    /// An acknowledgement of all bytes before `number`.
    fn ack(number: u64) -> (Option<PureAck>, Delivered) {
        let mut bytes = vec![0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, 6, 0, 0];
        bytes.extend([10, 0, 0, 1, 10, 0, 0, 2, 0, 1, 0, 80, 0, 0, 0, 1]);
        bytes.extend((number as u32).to_be_bytes());
        bytes.extend([0x50, 0x10, 1, 0, 0, 0, 0, 0]);
        let read = PureAck::read(&bytes, &Headers::parse(&bytes, Layer::L3));
        let packet = InnerPacket { bytes, offload: Offload::default() };
        (read, Delivered { flow: 3, packet })
    }

    fn number(packet: &Delivered) -> u64 {
        u64::from(u32::from_be_bytes(packet.packet.bytes[28..32].try_into().unwrap()))
    }

    /// A stream as it's seen where its data go in and its acknowledgements come out.
    struct Seen {
        acks: AckAggregator,
        now: Time,
        sent: u64,
        acked: u64,
        /// The acknowledgements that went to the sender, and when.
        told: Vec<(u64, Time)>,
    }

    impl Seen {
        fn new() -> Self {
            let mut acks = AckAggregator::default();
            acks.set_round_trips(ROUND_TRIP / 3, ROUND_TRIP);
            Self { acks, now: Time::from_millis(1), sent: 0, acked: 0, told: Vec::new() }
        }

        fn data(&mut self) {
            self.acks.on_data(ID, SEGMENT, self.now);
            self.sent += SEGMENT;
        }

        fn acknowledge(&mut self, busy: bool) {
            self.acked = self.sent;
            let (read, packet) = ack(self.acked);
            let passed = self.acks.offer(ID, read, packet, busy, &mut Vec::new(), self.now);
            self.told.extend(passed.map(|packet| (number(&packet), self.now)));
            self.poll();
        }

        fn poll(&mut self) {
            self.acks.release(self.now);
            while let Some(packet) = self.acks.poll() {
                self.told.push((number(&packet), self.now));
            }
        }

        /// A sender that sends each millisecond, and is told each so many of them.
        fn paced(&mut self, milliseconds: u64, told_each: u64, busy: bool) {
            for step in 1..=milliseconds {
                self.now += Duration::from_millis(1);
                self.poll();
                self.data();
                if step % told_each == 0 {
                    self.acknowledge(busy);
                }
            }
        }

        /// One that sends all at once when it's told.
        fn bursts(&mut self, times: u64) {
            for _ in 0..times {
                self.now += Duration::from_millis(10);
                self.poll();
                self.acknowledge(false);
                for _ in 0..20 {
                    self.data();
                }
            }
        }

        fn longest_silence(&self) -> Duration {
            let pairs = self.told.windows(2).map(|pair| pair[1].1 - pair[0].1);
            pairs.max().unwrap_or_default()
        }
    }

    #[test]
    fn a_paced_stream_hears_nothing_for_a_while_now_and_then() {
        let mut seen = Seen::new();
        seen.paced(1000, 10, false);
        assert!(seen.acks.take_paced(ID.place) && !seen.acks.take_paced(ID.place));
        let learnt = seen.told.len();
        seen.paced(2000, 2, false);
        let silences = seen.told[learnt..].windows(2).map(|pair| pair[1].1 - pair[0].1);
        let silences: Vec<Duration> = silences.filter(|it| *it > LONGEST * 9 / 10).collect();
        assert!(silences.len() >= 5, "{silences:?}");
        assert!(silences.iter().all(|it| *it <= LONGEST + Duration::from_millis(3)));
        // All was told, in order.
        assert!(seen.told.windows(2).all(|pair| pair[0].0 < pair[1].0));
    }

    #[test]
    fn one_that_sends_when_it_is_told_is_left_alone() {
        let mut seen = Seen::new();
        seen.bursts(200);
        assert!(!seen.acks.take_paced(ID.place));
        assert_eq!(seen.told.len(), 200);
    }

    #[test]
    fn where_enough_waits_nothing_is_held() {
        let mut seen = Seen::new();
        seen.paced(3000, 5, true);
        assert!(seen.longest_silence() <= Duration::from_millis(5));
    }

    #[test]
    fn when_the_sender_stops_it_is_told_and_after_three_tries_left_alone_for_a_while() {
        let mut seen = Seen::new();
        seen.paced(1000, 10, false);
        // It goes on for 8 ms, and then waits.
        let begin = seen.now;
        while seen.now - begin < Duration::from_secs(4) {
            let told = seen.told.len();
            for step in 1..=8 {
                seen.now += Duration::from_millis(1);
                seen.data();
                if step % 2 == 0 {
                    seen.acknowledge(false);
                }
            }
            while seen.told.len() == told || seen.acks.release_at().is_some() {
                seen.now += Duration::from_millis(1);
                seen.poll();
            }
        }
        let after = seen.told.iter().filter(|(_, at)| *at > begin);
        let after: Vec<Time> = after.map(|(_, at)| *at).collect();
        let long = |pair: &&[Time]| pair[1] - pair[0] > ROUND_TRIP * 9 / 10;
        let silences = after.windows(2).filter(long).count();
        assert_eq!(silences, usize::from(INSISTS));
        assert!(seen.told.windows(2).all(|pair| pair[0].0 < pair[1].0));
    }

    #[test]
    fn where_paths_hardly_differ_nothing_is_held() {
        let mut seen = Seen::new();
        seen.acks.set_round_trips(ROUND_TRIP * 3 / 4, ROUND_TRIP);
        seen.paced(3000, 10, false);
        assert!(seen.longest_silence() <= Duration::from_millis(10));
        assert!(seen.acks.take_paced(ID.place));
    }

    #[test]
    fn nothing_overtakes_what_is_held() {
        let mut seen = Seen::new();
        seen.paced(1000, 10, false);
        while seen.acks.release_at().is_none() {
            seen.paced(1, 1, false);
        }
        let (held, before) = (seen.acked, seen.told.len());
        assert!(seen.acks.concerns(9000));
        // Data of the sender's peer, or what tells of holes.
        let (_, other) = ack(held);
        let passed = seen.acks.offer(ID, None, other, false, &mut Vec::new(), seen.now);
        let passed = passed.expect("what is held comes first");
        assert_eq!(number(&passed), held);
        assert_eq!(seen.acks.poll().map(|next| number(&next)), Some(held));
        assert_eq!(seen.told.len(), before);
        assert!(seen.acks.release_at().is_none() && !seen.acks.concerns(9000));
    }

    #[test]
    fn another_stream_at_its_place_ends_the_first() {
        let mut seen = Seen::new();
        seen.paced(1000, 10, false);
        while seen.acks.release_at().is_none() {
            seen.paced(1, 1, false);
        }
        let held = seen.acked;
        seen.acks.on_data(StreamId { hash: 5, ..ID }, SEGMENT, seen.now);
        assert_eq!(seen.acks.poll().map(|released| number(&released)), Some(held));
        seen.acks.rest();
        assert!(!seen.acks.concerns(40));
    }
}
