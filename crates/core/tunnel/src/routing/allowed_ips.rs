//! Cryptokey routing, as WireGuard calls it (WireGuard paper, section 2).

use crate::index_map::IndexMap;
use ipnet::IpNet;
use std::net::IpAddr;

/// Which peer owns which addresses: packets to them go to the peer, and only
/// packets from them are taken from it.
#[derive(Clone, Debug)]
pub struct AllowedIps<P> {
    v4: PrefixTable<P>,
    v6: PrefixTable<P>,
}

/// Prefixes of one IP version: a map for each prefix length that occurs, the
/// longest first. Addresses of both versions are kept as the upper bits of a
/// `u128`.
#[derive(Clone, Debug)]
struct PrefixTable<P> {
    by_length: Vec<(u8, IndexMap<u128, P>)>,
}

impl<P> Default for AllowedIps<P> {
    fn default() -> Self {
        let table = || PrefixTable { by_length: Vec::new() };
        AllowedIps { v4: table(), v6: table() }
    }
}

impl<P: Eq> AllowedIps<P> {
    /// An empty table.
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives `prefix` to `peer`; returns who had it before. Bits beyond the
    /// prefix's length don't matter.
    pub fn insert(&mut self, prefix: IpNet, peer: P) -> Option<P> {
        self.table_mut(prefix.addr()).insert(prefix.prefix_len(), upper_bits(prefix.addr()), peer)
    }

    /// Takes `prefix` away; returns who had it.
    pub fn remove(&mut self, prefix: IpNet) -> Option<P> {
        self.table_mut(prefix.addr()).remove(prefix.prefix_len(), upper_bits(prefix.addr()))
    }

    /// Takes all prefixes of `peer` away; returns how many it had.
    pub fn remove_peer(&mut self, peer: &P) -> usize {
        self.v4.remove_peer(peer) + self.v6.remove_peer(peer)
    }

    /// The owner of the longest prefix that holds `address`.
    pub fn lookup(&self, address: IpAddr) -> Option<&P> {
        let table = if address.is_ipv4() { &self.v4 } else { &self.v6 };
        table.lookup(upper_bits(address))
    }

    fn table_mut(&mut self, address: IpAddr) -> &mut PrefixTable<P> {
        if address.is_ipv4() { &mut self.v4 } else { &mut self.v6 }
    }
}

impl<P: Eq> PrefixTable<P> {
    fn insert(&mut self, length: u8, bits: u128, peer: P) -> Option<P> {
        let index = match self.position(length) {
            Ok(index) => index,
            Err(index) => {
                self.by_length.insert(index, (length, IndexMap::default()));
                index
            }
        };
        self.by_length.get_mut(index)?.1.insert(bits & mask(length), peer)
    }

    fn remove(&mut self, length: u8, bits: u128) -> Option<P> {
        let index = self.position(length).ok()?;
        let removed = self.by_length.get_mut(index)?.1.remove(&(bits & mask(length)));
        self.by_length.retain(|(_, prefixes)| !prefixes.is_empty());
        removed
    }

    fn remove_peer(&mut self, peer: &P) -> usize {
        let mut removed = 0;
        for (_, prefixes) in &mut self.by_length {
            let before = prefixes.len();
            prefixes.retain(|_, owner| owner != peer);
            removed += before - prefixes.len();
        }
        self.by_length.retain(|(_, prefixes)| !prefixes.is_empty());
        removed
    }

    fn lookup(&self, bits: u128) -> Option<&P> {
        self.by_length.iter().find_map(|(length, prefixes)| prefixes.get(&(bits & mask(*length))))
    }

    fn position(&self, length: u8) -> Result<usize, usize> {
        self.by_length.binary_search_by(|(other, _)| length.cmp(other))
    }
}

fn upper_bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u128::from(v4.to_bits()) << 96,
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

fn mask(length: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    fn net(text: &str) -> IpNet {
        text.parse().unwrap()
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn the_longest_prefix_wins_in_each_ip_version() {
        let mut allowed = AllowedIps::new();
        for (prefix, peer) in
            [("0.0.0.0/0", 1), ("10.1.2.3/8", 2), ("10.0.0.1/32", 3), ("fd00::/8", 4), ("::/0", 5)]
        {
            assert_eq!(allowed.insert(net(prefix), peer), None);
        }
        for (address, peer) in
            [("1.1.1.1", 1), ("10.0.0.2", 2), ("10.0.0.1", 3), ("fd12::1", 4), ("::a00:1", 5)]
        {
            assert_eq!(allowed.lookup(ip(address)), Some(&peer), "{address}");
        }
        assert_eq!(allowed.insert(net("10.0.0.0/8"), 9), Some(2), "the last to claim it has it");
        assert_eq!(allowed.remove_peer(&1), 1);
        assert_eq!(allowed.lookup(ip("1.1.1.1")), None);
        assert_eq!(allowed.remove(net("10.9.9.9/8")), Some(9));
        assert_eq!(allowed.remove(net("10.9.9.9/8")), None);
    }

    /// Few distinct values, so that prefixes nest and collide.
    fn prefixes() -> impl Strategy<Value = IpNet> {
        let v4 = (0_u32..16, 0_u8..=32).prop_map(|(bits, length)| {
            IpNet::new(Ipv4Addr::from_bits(bits << 29 | bits).into(), length).unwrap()
        });
        let v6 = (0_u128..16, 0_u8..=128).prop_map(|(bits, length)| {
            IpNet::new(Ipv6Addr::from_bits(bits << 125 | bits).into(), length).unwrap()
        });
        prop_oneof![v4, v6]
    }

    proptest! {
        #[test]
        fn routing_agrees_with_a_plain_list(
            steps in prop::collection::vec((prefixes(), 0_u8..5, 0_u8..8), 0..80),
            asked in prop::collection::vec(prefixes(), 20),
        ) {
            let mut allowed = AllowedIps::new();
            let mut list: Vec<(IpNet, u8)> = Vec::new();
            for (prefix, peer, action) in steps {
                let known = list.iter().position(|(p, _)| *p == prefix.trunc());
                let before = known.map(|i| list.remove(i).1);
                if action == 0 {
                    list.extend(before.map(|owner| (prefix.trunc(), owner)));
                    let count = list.iter().filter(|(_, p)| *p == peer).count();
                    prop_assert_eq!(allowed.remove_peer(&peer), count);
                    list.retain(|(_, p)| *p != peer);
                } else if action == 1 {
                    prop_assert_eq!(allowed.remove(prefix), before);
                } else {
                    prop_assert_eq!(allowed.insert(prefix, peer), before);
                    list.push((prefix.trunc(), peer));
                }
            }
            for address in asked.into_iter().map(|p| p.addr()) {
                let model = list
                    .iter()
                    .filter(|(p, _)| p.contains(&address))
                    .max_by_key(|(p, _)| p.prefix_len())
                    .map(|(_, peer)| peer);
                prop_assert_eq!(allowed.lookup(address), model);
            }
        }
    }
}
