//! Thins the acknowledgements of a bulk stream: one that says all that another
//! says, and more, replaces it while it waits (as CAKE's ack-filter does in a
//! queue, Høiland-Jørgensen et al., LANMAN 2018).
//!
//! A home's uplinks carry less so; but above all the sender's slow start goes
//! on until it has found the links' sum. HyStart (RFC 9406, and Linux's cubic)
//! leaves it when the round-trip times of 8 acknowledgements in a round exceed
//! the least one by some milliseconds, which is what a tunnel does that takes
//! slower links too and puts packets in order. A round of slow start brings as
//! many bytes as all rounds before: acknowledgements that wait until a sixth of
//! all bytes is new are too few in a round for a verdict, until a queue stands
//! that makes the round so long that they come by their time.

use super::queued::Queued;
use braid_inner::{FlowKey, PureAck};
use braid_units::Time;
use std::collections::VecDeque;
use std::time::Duration;

/// An acknowledgement waits until it is new for one part in this of all bytes
/// acknowledged so far, or [`AckFilter::set_round_trip`]'s time is over. Ours
/// (docs/design/006-heuristics.md, ack-thinning).
const ROUND_SHARE: u64 = 6;
/// The first window (ten segments, RFC 6928) isn't thinned; HyStart begins to
/// judge soon after, at 16 segments.
const BEGINNING: u64 = 14 << 10;
/// A sender that has paused so long starts anew. Ours.
const PAUSE: Duration = Duration::from_secs(1);
/// Not worth a timer below. Ours.
const SHORTEST_HOLD: Duration = Duration::from_millis(2);
/// Longer would be felt. Ours; not measured apart.
const LONGEST_HOLD: Duration = Duration::from_millis(30);
/// Of the slowest path's round trip, one part in this: a sender sees less than
/// 8 acknowledgements in two and a half of them.
const HOLDS_A_ROUND_TRIP: u32 = 3;

/// Holds back at most one acknowledgement a flow.
#[derive(Debug, Default)]
pub struct AckFilter {
    /// How long one is held back at most; zero: not at all.
    hold: Duration,
    flows: Vec<Option<Box<Flow>>>,
    /// In the order of their times; void where the flow has none held for it.
    releases: VecDeque<(Time, u16)>,
}

#[derive(Debug)]
struct Flow {
    key: FlowKey,
    /// Bytes acknowledged since the stream began.
    acked: u64,
    newest: PureAck,
    passed: PureAck,
    passed_at: Time,
    held: Option<Held>,
    /// None of them is held back.
    free: bool,
}

#[derive(Debug)]
struct Held {
    ack: PureAck,
    packet: Queued,
    until: Time,
}

/// What becomes of an acknowledgement.
#[derive(Debug, Default)]
pub struct Offered {
    /// Goes first.
    pub before: Option<Queued>,
    /// Goes now.
    pub now: Option<Queued>,
    /// It says all that the one before says, and more: which need not go if it
    /// still waits in the queue.
    pub supersedes_last: bool,
    /// Has been replaced.
    pub replaced: Option<Queued>,
}

impl AckFilter {
    /// To be told how long a round trip takes at the least, by the slowest path
    /// in use.
    pub fn set_round_trip(&mut self, slowest: Duration) {
        let hold = (slowest / HOLDS_A_ROUND_TRIP).min(LONGEST_HOLD);
        self.hold = if hold < SHORTEST_HOLD { Duration::ZERO } else { hold };
    }

    /// An acknowledgement of the flow that has this place in the entry queue.
    pub fn offer(
        &mut self,
        place: u16,
        key: FlowKey,
        ack: PureAck,
        packet: Queued,
        now: Time,
    ) -> Offered {
        let index = usize::from(place);
        if self.flows.len() <= index {
            self.flows.resize_with(index + 1, || None);
        }
        let Some(slot) = self.flows.get_mut(index) else {
            return Offered { now: Some(packet), ..Offered::default() };
        };
        let flow = slot.get_or_insert_with(|| Box::new(Flow::new(key, ack, now)));
        let mut offered = Offered::default();
        if flow.key != key || now - flow.passed_at > PAUSE {
            offered.before = flow.held.take().map(|held| held.packet);
            let free = flow.free && flow.key == key;
            **flow = Flow { free, ..Flow::new(key, ack, now) };
            offered.now = Some(packet);
            return offered;
        }
        let waited = flow.held.as_ref().is_some_and(|held| ack.supersedes(&held.ack));
        if waited {
            offered.replaced = flow.held.take().map(|held| held.packet);
        } else {
            offered.before = flow.release(now);
        }
        if ack.supersedes(&flow.newest) {
            flow.acked += u64::from(ack.number.wrapping_sub(flow.newest.number));
            flow.newest = ack;
        }
        // Where acknowledgements are held back there's nothing left to be gained.
        offered.supersedes_last =
            (self.hold.is_zero() || flow.free) && ack.supersedes(&flow.passed);
        let until = flow.passed_at + self.hold;
        let new = u64::from(ack.number.wrapping_sub(flow.passed.number));
        let passes = flow.free
            || !ack.supersedes(&flow.passed)
            || flow.acked < BEGINNING
            || new * ROUND_SHARE >= flow.acked
            || now >= until;
        if passes {
            flow.passed = flow.newest;
            flow.passed_at = now;
            offered.now = Some(packet);
        } else {
            flow.held = Some(Held { ack, packet, until });
            if !waited {
                self.releases.push_back((until, place));
            }
        }
        offered
    }

    /// From now on those of this flow aren't held back: its sender paces.
    pub fn let_pass(&mut self, place: u16, key: &FlowKey) {
        let flow = self.flows.get_mut(usize::from(place)).and_then(Option::as_deref_mut);
        if let Some(flow) = flow.filter(|flow| flow.key == *key) {
            flow.free = true;
        }
    }

    /// Another packet comes to that place in the entry queue: what is held there
    /// goes before.
    pub fn interrupt(&mut self, place: u16, now: Time) -> Option<Queued> {
        self.flows.get_mut(usize::from(place))?.as_mut()?.release(now)
    }

    /// When the next one has been held long enough.
    pub fn release_at(&self) -> Option<Time> {
        self.releases.front().map(|(at, _)| *at)
    }

    /// One that has been held long enough, and its place.
    pub fn poll(&mut self, now: Time) -> Option<(u16, Queued)> {
        while let Some(&(at, place)) = self.releases.front() {
            if at > now {
                return None;
            }
            self.releases.pop_front();
            let Some(Some(flow)) = self.flows.get_mut(usize::from(place)) else { continue };
            if flow.held.as_ref().is_some_and(|held| held.until <= now)
                && let Some(packet) = flow.release(now)
            {
                return Some((place, packet));
            }
        }
        None
    }

    /// One that is held, however long, and its place.
    pub fn poll_held(&mut self, now: Time) -> Option<(u16, Queued)> {
        while let Some((_, place)) = self.releases.pop_front() {
            let flow = self.flows.get_mut(usize::from(place));
            if let Some(packet) = flow.and_then(|flow| flow.as_mut()?.release(now)) {
                return Some((place, packet));
            }
        }
        None
    }

    /// Nothing is held.
    pub fn is_empty(&self) -> bool {
        self.releases.is_empty()
    }

    /// Forgets the flows, of which nothing is held.
    pub fn rest(&mut self) {
        if self.is_empty() {
            self.flows = Vec::new();
            self.releases = VecDeque::new();
        }
    }
}

impl Flow {
    fn new(key: FlowKey, ack: PureAck, now: Time) -> Flow {
        Flow { key, acked: 0, newest: ack, passed: ack, passed_at: now, held: None, free: false }
    }

    fn release(&mut self, now: Time) -> Option<Queued> {
        let held = self.held.take()?;
        self.passed = held.ack;
        self.passed_at = now;
        Some(held.packet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::Treatment;
    use braid_inner::{Class, Headers, InnerPacket, Layer, Offload, flow_key};

    const ROUND_TRIP: Duration = Duration::from_millis(60);
    const HOLD: Duration = Duration::from_millis(20);

    fn filter() -> AckFilter {
        let mut filter = AckFilter::default();
        filter.set_round_trip(ROUND_TRIP);
        filter
    }

    /// Offers an acknowledgement of all bytes before `number` by this port.
    fn offer(filter: &mut AckFilter, port: u16, number: u32, now: Time) -> Offered {
        let mut bytes = vec![0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, 6, 0, 0];
        bytes.extend([10, 0, 0, 1, 10, 0, 0, 2]);
        bytes.extend(port.to_be_bytes());
        bytes.extend([0, 80, 0, 0, 0, 1]);
        bytes.extend(number.to_be_bytes());
        bytes.extend([0x50, 0x10, 1, 0, 0, 0, 0, 0]);
        let headers = Headers::parse(&bytes, Layer::L3);
        let ack = PureAck::read(&bytes, &headers).unwrap();
        let key = flow_key(&bytes, &headers);
        let packet = InnerPacket { bytes, offload: Offload::default() };
        let queued = Queued {
            packet,
            class: Class::PureAck,
            stream: true,
            rule: None,
            treatment: Treatment::default(),
            at: now,
        };
        filter.offer(7, key, ack, queued, now)
    }

    /// What an acknowledgement says.
    fn number(queued: &Queued) -> u32 {
        u32::from_be_bytes(queued.packet.bytes[28..32].try_into().unwrap())
    }

    #[test]
    fn the_beginning_passes_whole_and_later_a_sixth_is_enough() {
        let mut filter = filter();
        let now = Time::from_millis(5);
        let mut passed = Vec::new();
        // The number wraps on the way.
        let start = u32::MAX - 20_000;
        for segment in 0..400u32 {
            let ack = start.wrapping_add(segment * 1448);
            if let Some(now) = offer(&mut filter, 1, ack, now).now {
                passed.push(number(&now).wrapping_sub(start));
            }
        }
        let beginning = passed.iter().filter(|&&acked| u64::from(acked) < BEGINNING).count();
        assert_eq!(beginning, BEGINNING.div_ceil(1448) as usize);
        // From 14 KB to 579 KB in steps of at least a sixth: 579 / 14 = 1.2 ^ 20.4.
        assert!((16..=21).contains(&(passed.len() - beginning)), "{passed:?}");
        assert!(passed.windows(2).all(|pair| pair[0] < pair[1]));
    }

    #[test]
    fn what_is_held_is_replaced_and_leaves_in_time() {
        let mut filter = filter();
        let at = Time::from_millis;
        offer(&mut filter, 1, 0, at(0));
        offer(&mut filter, 1, 600_000, at(1));
        assert!(offer(&mut filter, 1, 601_000, at(2)).now.is_none());
        let third = offer(&mut filter, 1, 602_000, at(3));
        assert_eq!(third.replaced.map(|old| number(&old)), Some(601_000));
        assert!(third.now.is_none() && third.before.is_none());
        assert_eq!(filter.release_at(), Some(at(1) + HOLD));
        assert!(filter.poll(at(20)).is_none());
        let (place, released) = filter.poll(at(21)).unwrap();
        assert_eq!((place, number(&released)), (7, 602_000));
        assert!(filter.poll(at(99)).is_none() && filter.is_empty());
        // After a time without any, the next one passes at once.
        assert!(offer(&mut filter, 1, 603_000, at(60)).now.is_some());
    }

    #[test]
    fn nothing_overtakes_what_is_held() {
        let mut filter = filter();
        let at = Time::from_millis;
        let hold = |filter: &mut AckFilter| {
            offer(filter, 1, 0, at(0));
            offer(filter, 1, 600_000, at(1));
            assert!(offer(filter, 1, 601_000, at(2)).now.is_none());
        };
        // Data of the same flow.
        hold(&mut filter);
        assert_eq!(filter.interrupt(7, at(3)).map(|held| number(&held)), Some(601_000));
        assert!(filter.interrupt(7, at(3)).is_none());
        // The same acknowledgement again.
        let mut filter = self::filter();
        hold(&mut filter);
        let again = offer(&mut filter, 1, 601_000, at(3));
        assert_eq!(again.before.map(|held| number(&held)), Some(601_000));
        assert_eq!(again.now.map(|now| number(&now)), Some(601_000));
        // Another connection that has the same place.
        let mut filter = self::filter();
        hold(&mut filter);
        let other = offer(&mut filter, 2, 5, at(3));
        assert_eq!(other.before.map(|held| number(&held)), Some(601_000));
        assert_eq!(other.now.map(|now| number(&now)), Some(5));
    }

    #[test]
    fn on_quick_paths_nothing_is_held_but_what_waits_may_give_way() {
        let mut filter = filter();
        filter.set_round_trip(Duration::from_millis(3));
        for step in 0..1000 {
            let offered = offer(&mut filter, 1, step * 1000, Time::from_micros(step.into()));
            assert!(offered.now.is_some() && offered.supersedes_last == (step > 0));
        }
        // The same again asks for a retransmission.
        let again = offer(&mut filter, 1, 999_000, Time::from_micros(1000));
        assert!(again.now.is_some() && !again.supersedes_last);
        let other = offer(&mut filter, 2, 1_000_000, Time::from_micros(1001));
        assert!(other.now.is_some() && !other.supersedes_last);
    }

    #[test]
    fn paused_senders_are_left_alone() {
        let mut filter = self::filter();
        offer(&mut filter, 1, 0, Time::from_millis(0));
        offer(&mut filter, 1, 600_000, Time::from_millis(1));
        for step in 0..9 {
            let now = Time::from_millis(2000);
            assert!(offer(&mut filter, 1, 600_000 + step * 1448, now).now.is_some());
        }
    }
}
