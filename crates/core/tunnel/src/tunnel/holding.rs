//! What homes send that were just taken over from a concentrator that fell silent: answers would
//! go to that one, until routers have heard. So it waits here until they have, and a moment longer.

use crate::id::PeerId;
use braid_inner::InnerPacket;
use braid_units::Time;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// From an announced route until the router next to us sends by it. FRR's bgpd gathers updates for
/// 50 ms and its zebra routes for 10 (`docs/measurements/fleet.md` has a trace); BIRD does neither.
const SETTLES: Duration = Duration::from_millis(80);
/// Whatever becomes of the route. A debug build announces the last of eight homes after 50 ms. Not
/// longer than senders' own timers (Linux: 200 ms; RFC 6298: a second).
const LONGEST: Duration = Duration::from_millis(200);
/// Of one home. What 40 Mbit/s are in that time.
const MOST_BYTES: usize = 1 << 20;

/// Homes whose packets wait.
#[derive(Debug, Default)]
pub(super) struct Holding(BTreeMap<PeerId, Held>);

#[derive(Debug)]
struct Held {
    packets: VecDeque<InnerPacket>,
    bytes: usize,
    until: Time,
}

impl Holding {
    /// From now on what this home sends waits.
    pub fn begin(&mut self, home: PeerId, now: Time) {
        let until = now + LONGEST;
        self.0.entry(home).or_insert(Held { packets: VecDeque::new(), bytes: 0, until });
    }

    /// Its route was announced.
    pub fn on_announced(&mut self, home: PeerId, now: Time) {
        if let Some(held) = self.0.get_mut(&home) {
            held.until = held.until.min(now + SETTLES);
        }
    }

    /// It is served elsewhere, or gone: what waits goes on.
    pub fn end(&mut self, home: PeerId, out: &mut impl Extend<InnerPacket>) {
        if let Some(held) = self.0.remove(&home) {
            out.extend(held.packets);
        }
    }

    /// Nothing waits, of no home.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A packet from this home waits, or goes on at once. Where there is no room all go on.
    pub fn pass(&mut self, home: PeerId, packet: InnerPacket, out: &mut impl Extend<InnerPacket>) {
        let Some(held) = self.0.get_mut(&home) else {
            out.extend([packet]);
            return;
        };
        held.bytes += packet.bytes.len();
        held.packets.push_back(packet);
        if held.bytes > MOST_BYTES {
            self.end(home, out);
        }
    }

    /// When some go on.
    pub fn deadline(&self) -> Option<Time> {
        self.0.values().map(|held| held.until).min()
    }

    /// Those go on whose time has come.
    pub fn release(&mut self, now: Time, out: &mut impl Extend<InnerPacket>) {
        self.0.retain(|_, held| {
            let waits = held.until > now;
            if !waits {
                out.extend(held.packets.drain(..));
            }
            waits
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use braid_inner::Offload;
    use proptest::prelude::*;

    const HOME: PeerId = PeerId(1);

    fn at(millis: u64) -> Time {
        Time::ZERO + Duration::from_millis(millis)
    }

    fn packet(number: u8) -> InnerPacket {
        InnerPacket { bytes: vec![number; 1000], offload: Offload::default() }
    }

    fn numbers(out: &mut VecDeque<InnerPacket>) -> Vec<u8> {
        out.drain(..).map(|packet| packet.bytes[0]).collect()
    }

    #[test]
    fn what_a_home_sends_waits_for_its_route_and_a_moment_longer() {
        let (mut holding, mut out) = (Holding::default(), VecDeque::new());
        holding.pass(HOME, packet(0), &mut out);
        holding.begin(HOME, at(0));
        holding.pass(HOME, packet(1), &mut out);
        holding.pass(PeerId(2), packet(2), &mut out);
        assert_eq!(numbers(&mut out), [0, 2], "before, and another's");
        assert_eq!(holding.deadline(), Some(at(0) + LONGEST));
        holding.on_announced(HOME, at(30));
        assert_eq!(holding.deadline(), Some(at(30) + SETTLES));
        holding.release(at(29) + SETTLES, &mut out);
        assert!(out.is_empty());
        holding.pass(HOME, packet(3), &mut out);
        holding.release(at(30) + SETTLES, &mut out);
        holding.pass(HOME, packet(4), &mut out);
        assert_eq!(numbers(&mut out), [1, 3, 4], "in order");
        assert_eq!(holding.deadline(), None);
    }

    #[test]
    fn without_a_route_it_waits_for_a_while_only() {
        let (mut holding, mut out) = (Holding::default(), VecDeque::new());
        holding.begin(HOME, at(0));
        holding.pass(HOME, packet(1), &mut out);
        // It says so again, and its route comes late.
        holding.begin(HOME, at(100));
        holding.on_announced(HOME, at(140));
        holding.release(at(0) + LONGEST, &mut out);
        assert_eq!(numbers(&mut out), [1]);
    }

    proptest! {
        /// Whatever happens: none is lost, each home's stay in order, memory is bounded.
        #[test]
        fn all_go_on_in_order(steps in prop::collection::vec((0u8..5, 0u32..3, 0u64..60), 0..300)) {
            let (mut holding, mut out) = (Holding::default(), VecDeque::new());
            let (mut now, mut sent) = (at(0), [0_u16; 3]);
            for (what, home, wait) in steps {
                let id = PeerId(home);
                match what {
                    0 => holding.begin(id, now),
                    1 => holding.on_announced(id, now),
                    2 => holding.end(id, &mut out),
                    _ => {
                        let number = &mut sent[home as usize];
                        let mut bytes = vec![0; 30_000];
                        bytes[0] = home as u8;
                        bytes[1..3].copy_from_slice(&number.to_be_bytes());
                        *number += 1;
                        let offload = Offload::default();
                        holding.pass(id, InnerPacket { bytes, offload }, &mut out);
                    }
                }
                now += Duration::from_millis(wait);
                holding.release(now, &mut out);
                for held in holding.0.values() {
                    prop_assert!(held.bytes <= MOST_BYTES && held.until <= now + LONGEST);
                }
            }
            holding.release(now + LONGEST, &mut out);
            let mut came = [0_u16; 3];
            for packet in out {
                let number = u16::from_be_bytes([packet.bytes[1], packet.bytes[2]]);
                let next = &mut came[usize::from(packet.bytes[0])];
                prop_assert_eq!(number, *next);
                *next += 1;
            }
            prop_assert_eq!(came, sent);
        }
    }
}
