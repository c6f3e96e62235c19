//! Addresses learnt while a table exists; they survive its replacement.

use super::command::limit;
use super::named::{Container, Named, asked_set, chain_of, rule_of_chain, rule_of_set};
use crate::netlink::{Netlink, SetElement, nftables, set_elements};
use braid_engines::{FirewallTable, nft_table};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// An address that a rule's names resolve to, or did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Element {
    /// The rule's name.
    pub rule: String,
    /// The only client that this applies to, of the same IP version; `None` for all.
    pub asked_by: Option<IpAddr>,
    /// The address.
    pub address: IpAddr,
    /// How long it stays valid from now; `None` to remove it.
    pub lasts: Option<Duration>,
}

/// The sets of a tunnel's table, which may be removed and recreated.
#[derive(Default)]
pub struct LearntSets {
    interface: String,
    /// Opened on first use.
    netlink: Option<Netlink>,
}

/// The addresses learnt for an interface's rules, and where its table stores them.
#[derive(Default)]
struct Table {
    named: Named,
    known: BTreeMap<LearntAddress, BTreeMap<String, Instant>>,
}

/// An address, for everybody or for one client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct LearntAddress {
    address: IpAddr,
    asked_by: Option<IpAddr>,
}

/// The network namespace and the interface.
pub(super) type Key = (u64, String);

/// Locked so that a table isn't replaced while elements are added. Addresses of rules that the
/// table lacks are kept until it has the rules again.
static TABLES: Mutex<BTreeMap<Key, Table>> = Mutex::new(BTreeMap::new());

/// How many addresses are kept for a table before expired ones are dropped.
const MOST_PLACES: usize = 131_072;

impl LearntSets {
    /// The sets of an interface's table.
    pub fn of(interface: &str) -> LearntSets {
        LearntSets { interface: interface.to_owned(), netlink: None }
    }

    /// Adds elements with new lifetimes, or removes them. Elements of a rule that the table
    /// currently lacks are kept until it has the rule.
    ///
    /// # Errors
    /// The kernel's error, such as `NotFound` when there is no table.
    pub fn learn(&mut self, elements: &[Element]) -> io::Result<()> {
        let mut tables = tables();
        let table = tables.entry(key(&self.interface)).or_default();
        let now = Instant::now();
        let changes = table.learn(elements, now);
        if changes.is_empty() {
            return Ok(());
        }
        let mut netlink = self.netlink.take().map_or_else(nftables::open, Ok)?;
        set_elements(&mut netlink, &nft_table(&self.interface), &changes)?;
        // A socket that failed may have unread answers, so it is dropped.
        self.netlink = Some(netlink);
        Ok(())
    }
}

/// Calls `load` to replace an interface's table by this one plus what was learnt for it.
pub(super) fn replace(
    by: &FirewallTable,
    load: impl FnOnce(&str) -> io::Result<()>,
) -> io::Result<()> {
    let mut tables = tables();
    let named = Named::of(&by.named);
    let key = key(&by.interface);
    let mut table = match tables.remove(&key) {
        Some(table) => table,
        None if named.is_empty() => return load(""),
        // Another process may have created the current table.
        None => Table { known: listed(by, Instant::now()), ..Table::default() },
    };
    let before = std::mem::replace(&mut table.named, named);
    let loaded = load(&table.script(&by.interface, Instant::now()));
    if loaded.is_err() {
        table.named = before;
    }
    tables.insert(key, table);
    loaded
}

/// Forgets everything about an interface's rules.
pub(super) fn forget(interface: &str) {
    tables().remove(&key(interface));
}

fn tables() -> MutexGuard<'static, BTreeMap<Key, Table>> {
    TABLES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The key of this interface in the calling thread's namespace.
pub(super) fn key(interface: &str) -> Key {
    let namespace = std::fs::metadata("/proc/thread-self/ns/net").map(|it| it.ino());
    (namespace.unwrap_or_default(), interface.to_owned())
}

impl Table {
    /// Returns the changes to make in the kernel.
    fn learn(&mut self, elements: &[Element], now: Instant) -> Vec<SetElement> {
        let mut touched = BTreeSet::new();
        for Element { rule, asked_by, address, lasts } in elements {
            let place = LearntAddress { address: *address, asked_by: *asked_by };
            let rules = self.known.entry(place).or_default();
            match lasts {
                Some(lasts) => drop(rules.insert(rule.clone(), now + *lasts)),
                None => drop(rules.remove(rule)),
            }
            touched.extend(
                self.named
                    .container(rule, address.is_ipv4(), asked_by.is_some())
                    .map(|container| (place, container, rule.clone())),
            );
        }
        let places: BTreeSet<LearntAddress> = touched.iter().map(|(place, ..)| *place).collect();
        let mut changes: Vec<SetElement> = Vec::new();
        for (place, container, rule) in &touched {
            let change = self.change(*place, container, rule, now);
            // Several rules of a run share one element.
            if !changes.contains(&change) {
                changes.push(change);
            }
        }
        let asked = places.iter().filter(|place| place.asked_by.is_some());
        changes.extend(asked.map(|place| SetElement {
            set: asked_set(place.address.is_ipv4()),
            key: place.parts(),
            verdict: None,
            lasts: self.rules(*place, now).map(|(_, left)| left).max(),
        }));
        self.forget_old(now);
        changes
    }

    /// The element that the container now has for an address.
    fn change(
        &self,
        place: LearntAddress,
        container: &Container,
        rule: &str,
        now: Instant,
    ) -> SetElement {
        let (set, key) = (container.name.clone(), place.parts());
        if container.is_map {
            let of_run =
                self.rules(place, now).filter(|(rule, _)| self.keeps(place, rule, container));
            let first = of_run.min_by_key(|(rule, _)| self.named.place(rule));
            // If no rule has it any more, it doesn't matter which one had it.
            let verdict = chain_of(first.map_or(rule, |(rule, _)| rule));
            let lasts = first.map(|(_, left)| left);
            return SetElement { set, key, verdict: Some(verdict), lasts };
        }
        let own = self.rules(place, now).find(|(other, _)| *other == rule);
        SetElement { set, key, verdict: None, lasts: own.map(|(_, left)| left) }
    }

    fn keeps(&self, place: LearntAddress, rule: &str, container: &Container) -> bool {
        let (v4, asked) = (place.address.is_ipv4(), place.asked_by.is_some());
        self.named.container(rule, v4, asked).as_ref() == Some(container)
    }

    /// The rules that an address belongs to, and how long.
    fn rules(&self, place: LearntAddress, now: Instant) -> impl Iterator<Item = (&str, Duration)> {
        let rules = self.known.get(&place).into_iter().flatten();
        rules.filter(move |(_, until)| **until > now).map(move |(rule, until)| {
            (rule.as_str(), until.saturating_duration_since(now).max(Duration::from_secs(1)))
        })
    }

    /// The addresses learnt for the table's rules, as an nft script.
    fn script(&self, interface: &str, now: Instant) -> String {
        let mut elements: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for place in self.known.keys() {
            let (v4, asked) = (place.address.is_ipv4(), place.asked_by.is_some());
            let mut containers = BTreeMap::new();
            for (rule, _) in self.rules(*place, now) {
                if let Some(container) = self.named.container(rule, v4, asked) {
                    containers.entry(container).or_insert(rule);
                }
            }
            let mut longest = None;
            for (container, rule) in &containers {
                let change = self.change(*place, container, rule, now);
                let Some(lasts) = change.lasts else { continue };
                longest = longest.max(Some(lasts));
                let goes = change.verdict.map(|chain| format!(" : goto {chain}"));
                let text = format!("{}{}", place.timed(lasts), goes.unwrap_or_default());
                elements.entry(change.set).or_default().push(text);
            }
            if let Some(lasts) = longest.filter(|_| asked) {
                elements.entry(asked_set(v4)).or_default().push(place.timed(lasts));
            }
        }
        let table = nft_table(interface);
        let mut script = String::new();
        for (set, elements) in elements {
            let elements = elements.join(", ");
            // Writing to a String can't fail.
            let _ = writeln!(script, "add element inet {table} {set} {{ {elements} }}");
        }
        script
    }

    fn forget_old(&mut self, now: Instant) {
        if self.known.len() < MOST_PLACES {
            return;
        }
        for rules in self.known.values_mut() {
            rules.retain(|_, until| *until > now);
        }
        self.known.retain(|_, rules| !rules.is_empty());
        while self.known.len() >= MOST_PLACES {
            self.known.pop_last();
        }
    }
}

impl LearntAddress {
    fn parts(self) -> Vec<IpAddr> {
        self.asked_by.into_iter().chain([self.address]).collect()
    }

    fn timed(self, lasts: Duration) -> String {
        let parts: Vec<String> = self.parts().iter().map(ToString::to_string).collect();
        format!("{} timeout {}s", parts.join(" . "), lasts.as_secs())
    }
}

/// Reads the sets and maps of the existing table, which is probably about as large as this one.
fn listed(
    like: &FirewallTable,
    now: Instant,
) -> BTreeMap<LearntAddress, BTreeMap<String, Instant>> {
    let mut list = Command::new("nft");
    list.args(["--json", "list", "table", "inet", &nft_table(&like.interface)]);
    let limit = limit(like.ruleset.len());
    let Ok(output) = braid_tool::run(&mut list, b"", limit) else { return BTreeMap::new() };
    known_in(&serde_json::from_slice(&output.stdout).unwrap_or_default(), now)
}

fn known_in(listing: &Value, now: Instant) -> BTreeMap<LearntAddress, BTreeMap<String, Instant>> {
    let mut known: BTreeMap<LearntAddress, BTreeMap<String, Instant>> = BTreeMap::new();
    for item in listing["nftables"].as_array().into_iter().flatten() {
        let (set, map) = (&item["set"], &item["map"]);
        let own = set["name"].as_str().and_then(rule_of_set);
        for element in [set, map].into_iter().filter_map(|it| it["elem"].as_array()).flatten() {
            let (element, chain) = match element.as_array().map(Vec::as_slice) {
                Some([element, verdict]) => (element, verdict["goto"]["target"].as_str()),
                _ => (element, None),
            };
            let rule = chain.and_then(rule_of_chain).or_else(|| own.clone());
            let place = place_in(&element["elem"]["val"]);
            let left = element["elem"]["expires"].as_u64().filter(|left| *left > 0);
            if let (Some(rule), Some(place), Some(left)) = (rule, place, left) {
                let until = now + Duration::from_secs(left);
                known.entry(place).or_default().insert(rule, until);
            }
        }
    }
    known
}

fn place_in(value: &Value) -> Option<LearntAddress> {
    let address = |value: &Value| value.as_str()?.parse::<IpAddr>().ok();
    match value["concat"].as_array().map(Vec::as_slice) {
        Some([client, server]) => {
            Some(LearntAddress { address: address(server)?, asked_by: Some(address(client)?) })
        }
        Some(_) => None,
        None => Some(LearntAddress { address: address(value)?, asked_by: None }),
    }
}

#[cfg(test)]
mod tests {
    use super::super::command::nft;
    use super::super::ruled::Ruled;
    use super::super::ruled_traffic::{Fate, RuledTraffic};
    use super::super::{Firewall, delete, replace};
    use super::*;
    use crate::netns::NetNs;
    use braid_rules::{Conditions, Destinations};

    const TUNNEL: &str = "braid0";

    fn rule(number: usize, name: &str, ports: Option<u16>) -> RuledTraffic {
        let to = Destinations { networks: Vec::new(), known_as: Some(name.to_owned()) };
        let ports = ports.map(|port| port..=port);
        let conditions = Conditions { to: Some(to), ports, ..Conditions::default() };
        RuledTraffic { number, conditions, fate: Fate::Marked(1 << 24) }
    }

    /// Uses these rules from now on.
    fn load(rules: &[RuledTraffic]) {
        let ruled = Ruled {
            mask: 0x7f00_0000,
            rules: rules.to_vec(),
            ways: Vec::new(),
            refused: 0x7f00_0000,
            links: vec!["wan0".into()],
            own: vec![1],
        };
        let firewall =
            Firewall { interface: TUNNEL.into(), ruled: Some(ruled), ..Firewall::default() };
        replace(&firewall.table().unwrap()).unwrap();
    }

    fn element(rule: &str, asked_by: Option<&str>, address: &str, lasts: Option<u64>) -> Element {
        Element {
            rule: rule.into(),
            asked_by: asked_by.map(|client| client.parse().unwrap()),
            address: address.parse().unwrap(),
            lasts: lasts.map(Duration::from_secs),
        }
    }

    /// Lists a set or map as nft prints it: `address` or `address > chain`.
    fn held(kind: &str, name: &str) -> Vec<String> {
        let mut list = Command::new("nft");
        let table = nft_table(TUNNEL);
        list.args(["list", kind, "inet", table.as_str(), name]);
        let output = list.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8_lossy(&output.stdout).replace(['\n', '\t'], " ");
        let Some((_, elements)) = text.split_once("elements = {") else { return Vec::new() };
        let elements = elements.split(['}', ',']).map(str::trim);
        let elements = elements.filter(|it| !it.is_empty()).map(|element| {
            let (place, rest) = element.split_once(" timeout ").unwrap();
            match rest.split_once("goto ") {
                Some((_, chain)) => format!("{place} > {}", chain.trim()),
                None => place.to_owned(),
            }
        });
        let mut elements: Vec<String> = elements.collect();
        elements.sort();
        elements
    }

    fn namespace() -> Option<NetNs> {
        NetNs::new().map_err(|error| eprintln!("skipped: {error}")).ok()
    }

    #[test]
    fn of_a_run_the_first_rule_that_claims_an_address_has_it() {
        let Some(namespace) = namespace() else { return };
        let test = || {
            let [bank, tv, web] =
                [rule(0, "bank", None), rule(1, "tv", None), rule(2, "web", Some(443))];
            load(&[bank.clone(), tv.clone(), web.clone()]);
            let mut sets = LearntSets::of(TUNNEL);
            let names = || held("map", "names_v4/bank");
            sets.learn(&[element("tv", None, "192.0.2.1", Some(300))]).unwrap();
            assert_eq!(names(), ["192.0.2.1 > rule/tv"]);
            let both = ["tv", "bank", "web"].map(|it| element(it, None, "192.0.2.1", Some(300)));
            sets.learn(&both).unwrap();
            assert_eq!(names(), ["192.0.2.1 > rule/bank"], "though it led elsewhere");
            assert_eq!(held("set", "names_v4/web"), ["192.0.2.1"]);
            sets.learn(&[element("bank", None, "192.0.2.1", None)]).unwrap();
            assert_eq!(names(), ["192.0.2.1 > rule/tv"], "who else claims it has it again");
            sets.learn(&[element("tv", None, "192.0.2.1", None)]).unwrap();
            assert_eq!(names(), [""; 0]);
            let asked = element("tv", Some("192.168.7.2"), "192.0.2.2", Some(60));
            sets.learn(&[asked]).unwrap();
            assert_eq!(held("map", "asked_v4/bank"), ["192.168.7.2 . 192.0.2.2 > rule/tv"]);
            assert_eq!(held("set", "asked_v4"), ["192.168.7.2 . 192.0.2.2"]);
            sets.learn(&[element("tv", None, "2001:db8::1", Some(60))]).unwrap();
            assert_eq!(held("map", "names_v6/bank"), ["2001:db8::1 > rule/tv"]);
            sets.learn(&[element("nobody", None, "192.0.2.9", Some(60))]).unwrap();
            delete(TUNNEL).unwrap();
        };
        namespace.run(test).unwrap();
    }

    #[test]
    fn what_was_learnt_is_there_when_rules_move_go_and_come_again() {
        let Some(namespace) = namespace() else { return };
        let test = || {
            let all = [rule(0, "bank", None), rule(1, "tv", None), rule(2, "web", Some(443))];
            load(&all);
            let mut sets = LearntSets::of(TUNNEL);
            sets.learn(&[
                element("tv", None, "192.0.2.1", Some(300)),
                element("web", None, "192.0.2.3", Some(300)),
                element("tv", Some("192.168.7.2"), "192.0.2.2", Some(300)),
            ])
            .unwrap();
            let [bank, tv, web] = all;
            load(&[web.clone(), bank.clone()]);
            assert_eq!(held("map", "names_v4/bank"), [""; 0]);
            assert_eq!(held("set", "asked_v4"), [""; 0], "of no rule that is there");
            // There is another rule between them, and the first has a different number.
            load(&[tv.clone(), web.clone(), bank.clone()]);
            assert_eq!(held("map", "names_v4/tv"), ["192.0.2.1 > rule/tv"]);
            assert_eq!(held("map", "asked_v4/tv"), ["192.168.7.2 . 192.0.2.2 > rule/tv"]);
            assert_eq!(held("set", "asked_v4"), ["192.168.7.2 . 192.0.2.2"]);
            assert_eq!(held("set", "names_v4/web"), ["192.0.2.3"]);
            // As in a program that has just started.
            forget(TUNNEL);
            load(&[bank, tv, web]);
            assert_eq!(held("map", "names_v4/bank"), ["192.0.2.1 > rule/tv"]);
            assert_eq!(held("map", "asked_v4/bank"), ["192.168.7.2 . 192.0.2.2 > rule/tv"]);
            assert_eq!(held("set", "names_v4/web"), ["192.0.2.3"]);
            let nonsense = FirewallTable::of(TUNNEL.to_owned(), "nonsense");
            assert!(replace(&nonsense).is_err());
            sets.learn(&[element("tv", None, "192.0.2.7", Some(300))]).unwrap();
            assert_eq!(
                held("map", "names_v4/bank"),
                ["192.0.2.1 > rule/tv", "192.0.2.7 > rule/tv"],
                "the table that was there is"
            );
            delete(TUNNEL).unwrap();
            nft("table inet other\n").unwrap();
            assert!(sets.learn(&[element("tv", None, "192.0.2.7", Some(300))]).is_ok());
        };
        namespace.run(test).unwrap();
    }
}
