//! The forwarding table of a learning bridge.

use braid_units::Time;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

/// An Ethernet address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MacAddress(pub [u8; 6]);

impl MacAddress {
    /// To all stations.
    pub const BROADCAST: MacAddress = MacAddress([0xff; 6]);

    /// Whether it means a group of stations, broadcast included (IEEE 802, the
    /// I/G bit).
    pub fn is_group(self) -> bool {
        self.0[0] & 1 != 0
    }

    /// Destination and source of an Ethernet frame; `None` if it's too short.
    pub fn of_frame(frame: &[u8]) -> Option<(MacAddress, MacAddress)> {
        let (destination, rest) = frame.split_first_chunk()?;
        Some((MacAddress(*destination), MacAddress(*rest.first_chunk()?)))
    }
}

/// Where a frame goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forward<P> {
    /// To the port where its destination was seen.
    To(P),
    /// To all ports but the one that it came from: it's for a group, or nobody
    /// knows its destination.
    Flood,
    /// Nowhere: its destination is where it came from.
    Drop,
}

/// Bounds of a [`ForwardingDatabase`].
#[derive(Clone, Copy, Debug)]
pub struct ForwardingLimits {
    /// Addresses in all.
    pub entries: usize,
    /// Addresses behind one port.
    pub entries_per_port: usize,
    /// How long an address is remembered after it was last seen.
    pub age: Duration,
}

impl Default for ForwardingLimits {
    /// 4096 addresses, 1024 a port, 300 s (the ageing time that IEEE 802.1D,
    /// table 7-5, recommends).
    fn default() -> Self {
        let age = Duration::from_secs(300);
        ForwardingLimits { entries: 4096, entries_per_port: 1024, age }
    }
}

/// An address seen again within this time isn't noted anew.
const REFRESH_INTERVAL: Duration = Duration::from_secs(1);

/// Behind which port (a peer, or this side's TAP device) an Ethernet address
/// was last seen, as a learning bridge remembers it (IEEE 802.1D, section 7.8).
///
/// A port that floods the table with addresses loses its own, never those of a
/// port that has fewer.
#[derive(Clone, Debug)]
pub struct ForwardingDatabase<P> {
    limits: ForwardingLimits,
    entries: HashMap<MacAddress, Entry<P>>,
    /// Each port's addresses by the time when they were last seen.
    ports: BTreeMap<P, BTreeSet<(Time, MacAddress)>>,
}

#[derive(Clone, Copy, Debug)]
struct Entry<P> {
    port: P,
    seen: Time,
}

impl<P: Copy + Ord> ForwardingDatabase<P> {
    /// An empty table.
    pub fn new(limits: ForwardingLimits) -> Self {
        ForwardingDatabase { limits, entries: HashMap::new(), ports: BTreeMap::new() }
    }

    /// A frame from `source` came in by `port`. Returns whether the table
    /// changed: the address is new or has moved here.
    pub fn learn(&mut self, source: MacAddress, port: P, now: Time) -> bool {
        if source.is_group() {
            return false;
        }
        if let Some(entry) = self.entries.get(&source).copied() {
            if entry.port == port && now.since(entry.seen) < REFRESH_INTERVAL {
                return false;
            }
            let moved = entry.port != port || self.is_old(entry.seen, now);
            self.remove(source);
            return self.insert(source, port, now) && moved;
        }
        self.insert(source, port, now)
    }

    /// Where a frame to `destination` that came in by `port` goes.
    pub fn forward(&self, destination: MacAddress, port: P, now: Time) -> Forward<P> {
        match self.lookup(destination, now) {
            Some(known) if known == port => Forward::Drop,
            Some(known) => Forward::To(known),
            None => Forward::Flood,
        }
    }

    /// The port behind which `address` was last seen.
    pub fn lookup(&self, address: MacAddress, now: Time) -> Option<P> {
        let entry = self.entries.get(&address)?;
        (!self.is_old(entry.seen, now)).then_some(entry.port)
    }

    /// Forgets all addresses behind `port`.
    pub fn remove_port(&mut self, port: P) {
        for (_, address) in self.ports.remove(&port).unwrap_or_default() {
            self.entries.remove(&address);
        }
    }

    /// Forgets the addresses not seen for long. To be called now and then; it's
    /// only memory that is at stake.
    pub fn expire(&mut self, now: Time) {
        let age = self.limits.age;
        for addresses in self.ports.values_mut() {
            while let Some(&(seen, address)) = addresses.first()
                && now.since(seen) >= age
            {
                addresses.pop_first();
                self.entries.remove(&address);
            }
        }
        self.ports.retain(|_, addresses| !addresses.is_empty());
    }

    /// Number of addresses held.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no address is held.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn insert(&mut self, address: MacAddress, port: P, now: Time) -> bool {
        let own = self.count(port);
        if own >= self.limits.entries_per_port {
            self.evict_oldest(port);
        } else if self.entries.len() >= self.limits.entries {
            // The greediest port gives way, or the newcomer if that's itself.
            let greediest = self.ports.iter().max_by_key(|(_, a)| a.len()).map(|(p, _)| *p);
            self.evict_oldest(greediest.filter(|&p| self.count(p) > own).unwrap_or(port));
        }
        if self.entries.len() >= self.limits.entries || self.limits.entries_per_port == 0 {
            return false;
        }
        self.entries.insert(address, Entry { port, seen: now });
        self.ports.entry(port).or_default().insert((now, address));
        true
    }

    fn remove(&mut self, address: MacAddress) {
        if let Some(entry) = self.entries.remove(&address)
            && let Some(addresses) = self.ports.get_mut(&entry.port)
        {
            addresses.remove(&(entry.seen, address));
            if addresses.is_empty() {
                self.ports.remove(&entry.port);
            }
        }
    }

    fn evict_oldest(&mut self, port: P) {
        let oldest = self.ports.get(&port).and_then(|addresses| addresses.first().copied());
        if let Some((_, address)) = oldest {
            self.remove(address);
        }
    }

    fn count(&self, port: P) -> usize {
        self.ports.get(&port).map_or(0, BTreeSet::len)
    }

    fn is_old(&self, seen: Time, now: Time) -> bool {
        now.since(seen) >= self.limits.age
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn frames_go_where_their_destination_was_seen() {
        let mut table = ForwardingDatabase::new(ForwardingLimits::default());
        let (a, b) = (MacAddress([2, 0, 0, 0, 0, 1]), MacAddress([2, 0, 0, 0, 0, 2]));
        let start = Time::from_millis(1);
        assert!(table.learn(a, 1, start));
        assert!(!table.learn(a, 1, start));
        assert_eq!(table.forward(a, 2, start), Forward::To(1));
        assert_eq!(table.forward(a, 1, start), Forward::Drop);
        assert_eq!(table.forward(b, 1, start), Forward::Flood);
        assert_eq!(table.forward(MacAddress::BROADCAST, 1, start), Forward::Flood);
        assert!(!table.learn(MacAddress([1, 0, 0x5e, 0, 0, 1]), 1, start));
        assert!(table.learn(a, 2, start), "the station moved");
        assert_eq!(table.forward(a, 1, start), Forward::To(2));
        let later = start + Duration::from_secs(200);
        assert!(!table.learn(a, 2, later));
        assert_eq!(table.lookup(a, later + Duration::from_secs(299)), Some(2));
        assert_eq!(table.lookup(a, later + Duration::from_secs(300)), None);
        table.expire(later + Duration::from_secs(300));
        assert!(table.is_empty() && table.ports.is_empty());
    }

    #[test]
    fn a_port_that_floods_the_table_harms_only_itself() {
        let limits =
            ForwardingLimits { entries: 100, entries_per_port: 1000, age: Duration::from_secs(9) };
        let mut table = ForwardingDatabase::new(limits);
        let mac = |port: u8, n: u32| {
            let [a, b, c, d] = n.to_be_bytes();
            MacAddress([port << 1, a, b, c, d, 0])
        };
        let now = Time::from_millis(1);
        (0..10).for_each(|n| assert!(table.learn(mac(1, n), 1, now)));
        (0..5000).for_each(|n| assert!(table.learn(mac(2, n), 2, now)));
        (0..10).for_each(|n| assert_eq!(table.lookup(mac(1, n), now), Some(1)));
        (0..40).for_each(|n| assert!(table.learn(mac(3, n), 3, now), "room is made for others"));
        (0..10).for_each(|n| assert_eq!(table.lookup(mac(1, n), now), Some(1)));
        assert_eq!(table.len(), 100);
        table.remove_port(2);
        assert_eq!(table.len(), 50);
    }

    #[test]
    fn addresses_are_read_from_frames() {
        let frame: Vec<u8> = (0..14).collect();
        let addresses = (MacAddress([0, 1, 2, 3, 4, 5]), MacAddress([6, 7, 8, 9, 10, 11]));
        assert_eq!(MacAddress::of_frame(&frame), Some(addresses));
        assert_eq!(MacAddress::of_frame(&frame[..11]), None);
    }

    proptest! {
        #[test]
        fn learning_agrees_with_a_plain_map_and_keeps_its_bounds(
            steps in prop::collection::vec((0_u8..40, 0_u8..4, 0_u64..5), 0..200),
        ) {
            let limits = ForwardingLimits {
                entries: 24, entries_per_port: 10, age: Duration::from_secs(30) };
            let wide = ForwardingLimits { entries: 999, entries_per_port: 999, ..limits };
            let (mut tight, mut table) =
                (ForwardingDatabase::new(limits), ForwardingDatabase::new(wide));
            let mut model: BTreeMap<MacAddress, (u8, Time)> = BTreeMap::new();
            let mut now = Time::from_millis(1);
            for (n, port, pause) in steps {
                // Whole seconds: no refresh is left out.
                now += Duration::from_secs(pause);
                let address = MacAddress([n << 1, 0, 0, 0, 0, 0]);
                for table in [&mut table, &mut tight] {
                    table.learn(address, port, now);
                    prop_assert_eq!(table.lookup(address, now), Some(port));
                }
                model.insert(address, (port, now));
                for (address, (port, seen)) in &model {
                    let fresh = now.since(*seen) < limits.age;
                    prop_assert_eq!(table.lookup(*address, now), fresh.then_some(*port));
                    let held = tight.lookup(*address, now);
                    prop_assert!(held.is_none() || held == Some(*port) && fresh);
                }
                if pause == 4 {
                    table.expire(now);
                    tight.expire(now);
                }
                prop_assert!(tight.len() <= 24);
                let held: usize = tight.ports.values().map(BTreeSet::len).sum();
                prop_assert_eq!(held, tight.len());
                prop_assert!(tight.ports.values().all(|a| a.len() <= 10));
            }
        }
    }
}
