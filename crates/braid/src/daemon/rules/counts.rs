//! What the firewall has counted for each rule, over all its tables.

use braid_linux::nft::{self, connections_counter, traffic_counter};
use std::collections::BTreeMap;

/// Counters of one rule, since the tunnel came up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// New connections.
    pub connections: u64,
    /// Packets sent by their initiators.
    pub packets: u64,
    /// Bytes of these packets.
    pub bytes: u64,
}

/// Sums by the rules' names, as rules' numbers change.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    sums: BTreeMap<String, Count>,
    /// The last reading, by rule number.
    last: Vec<(String, Count)>,
}

impl Counts {
    /// Reads the counters of this interface's table, before it may be replaced.
    pub fn read(&mut self, interface: &str) {
        if self.last.is_empty() {
            return;
        }
        match nft::counters(interface) {
            Ok(counters) => self.add(&counters),
            Err(error) => tracing::debug!(%error, "reading the rules' counters"),
        }
    }

    /// Sets the rules of the current table, in order.
    pub fn follow<'r>(&mut self, rules: impl Iterator<Item = &'r str>) {
        let rules: Vec<&str> = rules.collect();
        let same = rules.iter().copied().eq(self.last.iter().map(|(name, _)| name.as_str()));
        if !same {
            let new = rules.into_iter().map(|name| (name.to_owned(), Count::default()));
            self.last = new.collect();
            self.sums.retain(|name, _| self.last.iter().any(|(known, _)| known == name));
        }
    }

    /// The counters of a rule.
    pub fn of(&self, rule: &str) -> Count {
        self.sums.get(rule).copied().unwrap_or_default()
    }

    fn add(&mut self, counters: &BTreeMap<String, (u64, u64)>) {
        for (number, (name, last)) in self.last.iter_mut().enumerate() {
            let counter = |name| counters.get(&name).copied().unwrap_or_default();
            let (connections, _) = counter(connections_counter(number));
            let (packets, bytes) = counter(traffic_counter(number));
            let now = Count { connections, packets, bytes };
            let sum = self.sums.entry(name.clone()).or_default();
            // A replaced table counts from 0.
            let since = |now: u64, last: u64| if now < last { now } else { now - last };
            sum.connections += since(now.connections, last.connections);
            sum.packets += since(now.packets, last.packets);
            sum.bytes += since(now.bytes, last.bytes);
            *last = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_go_on_when_the_table_is_replaced() {
        let mut counts = Counts::default();
        let table = |connections: u64, packets: u64| {
            BTreeMap::from([
                (connections_counter(1), (connections, 0)),
                (traffic_counter(1), (packets, packets * 100)),
            ])
        };
        counts.follow(["other", "bank"].into_iter());
        counts.add(&table(2, 10));
        counts.add(&table(3, 14));
        counts.add(&table(1, 2));
        assert_eq!(counts.of("bank"), Count { connections: 4, packets: 16, bytes: 1600 });
        counts.follow(["bank"].into_iter());
        counts.add(&BTreeMap::from([(traffic_counter(0), (1, 7))]));
        assert_eq!(counts.of("bank"), Count { connections: 4, packets: 17, bytes: 1607 });
        assert_eq!(counts.of("other"), Count::default());
    }
}
