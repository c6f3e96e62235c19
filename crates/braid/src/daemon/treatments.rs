//! How flows are treated in the tunnel's queues, at both ends: each belongs to a device, so that
//! devices share equally, and gets the treatment of the rule that it matches. The core is told
//! about flows one by one, from connection tracking: packets in the tunnel show neither a device
//! behind this host's NAT nor a requested name.

use super::flows::KnownFlow;
use super::rules::KnownNames;
use braid_control::config::{self, Action, Config, Treatment as Configured};
use braid_handshake::PublicKey;
use braid_inner::{Class, FlowKey, Selector};
use braid_rules::{Connection, Lease, Rule, Sender, Transport, first_match};
use braid_tunnel::entry::{FlowRedundancy, LimitId, LimitRate, Priority, Treatment};
use braid_tunnel::{MOST_FLOWS, Treatments};
use std::collections::HashMap;
use std::net::IpAddr;
use std::num::NonZeroU8;
use std::sync::Arc;

/// A flow without a rule that carried less (bytes) ends before its device's share matters, so the
/// core isn't told.
const LITTLE: u64 = 64 << 10;

/// Remembers what was found out and passed on.
#[derive(Default)]
pub struct FlowTreatments {
    devices: HashMap<String, u16>,
    judged: HashMap<FlowKey, Judged>,
    /// The rules used last.
    rules: Arc<Vec<Rule>>,
    told: HashMap<PublicKey, Treatments>,
}

/// The basis for judging flows.
pub struct Judging<'a> {
    pub config: &'a Config,
    pub rules: &'a [Rule],
    pub names: Option<&'a KnownNames>,
    pub leases: &'a [Lease],
}

struct Judged {
    /// Its place in the config, from 0.
    rule: Option<usize>,
    seen: bool,
}

impl FlowTreatments {
    /// The treatments of each peer's flows, where they have changed.
    pub fn follow(
        &mut self,
        flows: &[KnownFlow],
        judging: &Judging<'_>,
    ) -> Vec<(PublicKey, Treatments)> {
        if *self.rules != judging.rules {
            self.rules = Arc::new(judging.rules.to_vec());
            self.judged.clear();
        }
        if self.devices.len() > usize::from(u16::MAX) / 2 {
            self.devices.clear();
        }
        let mut wanted: HashMap<PublicKey, Vec<(u64, FlowKey, Treatment)>> = HashMap::new();
        for flow in flows {
            let rule = self.rule_of(flow, judging);
            let given = rule.and_then(|place| treatment_of(judging.config, place));
            if given.is_none() && flow.bytes < LITTLE {
                continue;
            }
            let named = |peer: &&config::Peer| peer.name.as_str() == flow.peer;
            let Some(peer) = judging.config.peers.iter().find(named) else { continue };
            let treatment =
                Treatment { device: self.device(&flow.device), ..given.unwrap_or_default() };
            wanted.entry(peer.public_key).or_default().push((flow.bytes, flow.key, treatment));
        }
        self.judged.retain(|_, judged| std::mem::take(&mut judged.seen));
        let (limits_up, limits_down) = limits(judging.config);
        let mut changed = Vec::new();
        for peer in &judging.config.peers {
            let mut flows = wanted.remove(&peer.public_key).unwrap_or_default();
            flows.sort_unstable_by_key(|(bytes, ..)| std::cmp::Reverse(*bytes));
            flows.truncate(MOST_FLOWS);
            let flows = flows.into_iter().map(|(_, key, treatment)| (key, treatment));
            let mut flows: Vec<(FlowKey, Treatment)> = flows.collect();
            flows.sort_unstable_by_key(|(key, _)| name(key));
            let (limits_up, limits_down) = (limits_up.clone(), limits_down.clone());
            let now = Treatments { flows, limits_up, limits_down };
            let before = self.told.get(&peer.public_key);
            // Empty limits needn't be passed on.
            if before.is_none_or(|before| *before != now)
                && (before.is_some() || !now.flows.is_empty())
            {
                changed.push((peer.public_key, now.clone()));
                self.told.insert(peer.public_key, now);
            }
        }
        let peers = &judging.config.peers;
        self.told.retain(|key, _| peers.iter().any(|peer| peer.public_key == *key));
        changed
    }

    /// The name of the rule that a flow matches, if known.
    pub fn rule_name<'c>(&self, key: &FlowKey, config: &'c Config) -> Option<&'c str> {
        let place = self.judged.get(key)?.rule?;
        config.rules.get(place).map(|rule| rule.name.as_str())
    }

    fn rule_of(&mut self, flow: &KnownFlow, judging: &Judging<'_>) -> Option<usize> {
        if let Some(judged) = self.judged.get_mut(&flow.key) {
            judged.seen = true;
            return judged.rule;
        }
        let connection = connection(flow, judging);
        let rule = connection.and_then(|it| first_match(judging.rules, &it));
        let by_name =
            |rule: &&Rule| judging.config.rules.iter().position(|it| it.name.as_str() == rule.name);
        let rule = rule.as_ref().and_then(by_name);
        self.judged.insert(flow.key, Judged { rule, seen: true });
        rule
    }

    fn device(&mut self, name: &str) -> u16 {
        if let Some(number) = self.devices.get(name) {
            return *number;
        }
        let number = u16::try_from(self.devices.len() + 1).unwrap_or_default();
        self.devices.insert(name.to_owned(), number);
        number
    }
}

/// What a rule gives flows, if anything.
fn treatment_of(config: &Config, place: usize) -> Option<Treatment> {
    let Action::Tunnel(configured) = config.rules.get(place)?.action else { return None };
    configured.by_connection()?;
    let Configured { class, priority, redundancy, .. } = configured;
    // Parities are only for real-time packets: for others a repair is fast enough.
    let parity = redundancy == Some(config::Redundancy::Parity);
    let class = class.or(parity.then_some(config::Class::Realtime));
    Some(Treatment {
        device: 0,
        priority: match priority {
            config::Priority::Low => Priority::Low,
            config::Priority::Normal => Priority::Normal,
            config::Priority::High => Priority::High,
        },
        class: class.map(|class| match class {
            config::Class::Realtime => Class::Realtime,
            config::Class::Bulk => Class::Bulk,
        }),
        limit: limit_ids(config).find(|(at, ..)| *at == place).map(|(_, id, _)| id),
        redundancy: match redundancy {
            None => FlowRedundancy::Usual,
            Some(config::Redundancy::Twice) => FlowRedundancy::Twice,
            Some(config::Redundancy::Parity) => FlowRedundancy::Parity,
        },
    })
}

/// The rules that limit a rate, with their numbers, which always suffice.
fn limit_ids(config: &Config) -> impl Iterator<Item = (usize, LimitId, config::Cap)> + '_ {
    let limiting = config.rules.iter().enumerate().filter_map(|(place, rule)| match rule.action {
        Action::Tunnel(Configured { rate, .. }) if rate != config::Cap::default() => {
            Some((place, rate))
        }
        _ => None,
    });
    let numbers = (1..=u8::MAX).filter_map(NonZeroU8::new).map(LimitId);
    limiting.zip(numbers).map(|((place, rate), id)| (place, id, rate))
}

/// The rates of limits up and down. Numbers that no rule uses any more have no limit.
fn limits(config: &Config) -> (Vec<LimitRate>, Vec<LimitRate>) {
    limit_ids(config).map(|(_, id, rate)| ((id, rate.up), (id, rate.down))).unzip()
}

fn connection(flow: &KnownFlow, judging: &Judging<'_>) -> Option<Connection> {
    let FlowKey::Ip { dst, protocol, selector, .. } = flow.key else { return None };
    let transport = match protocol {
        6 => Transport::Tcp,
        17 => Transport::Udp,
        1 | 58 => Transport::Icmp,
        _ => return None,
    };
    let port = match selector {
        Selector::Ports { dst, .. } => dst,
        _ => 0,
    };
    let (sender, clients) = match flow.address {
        None => {
            let own = judging.config.interface.addresses.iter();
            let own: Vec<IpAddr> = own.map(ipnet::IpNet::addr).collect();
            // The user can't be determined, so rules for users don't match.
            (Sender::Host { user: u32::MAX }, own)
        }
        Some(address) => {
            let lease = judging.leases.iter().find(|lease| lease.address == address);
            let (mac, addresses) = (lease.and_then(|lease| lease.mac), vec![address]);
            (Sender::Device { mac, addresses: addresses.clone() }, addresses)
        }
    };
    let known_for = judging.names.map(|names| names.rules_for(dst, &clients)).unwrap_or_default();
    Some(Connection { sender, to: dst, transport, port, dscp: 0, known_for })
}

/// Any order will do, if it's the same each time.
fn name(key: &FlowKey) -> (Option<(IpAddr, IpAddr, u8)>, u32) {
    let FlowKey::Ip { src, dst, protocol, selector } = *key else { return (None, 0) };
    let selector = match selector {
        Selector::None => 0,
        Selector::Ports { src, dst } => u32::from(src) << 16 | u32::from(dst),
        Selector::Spi(value) | Selector::GreKey(value) => value,
        Selector::Echo(value) => u32::from(value),
    };
    (Some((src, dst, protocol)), selector)
}

#[cfg(test)]
mod tests {
    use super::*;
    use braid_rules::{Conditions, Destinations, Devices, Verdict};
    use std::path::Path;

    const CONFIG: &str = r#"
[interface]
name = "braid0"
private_key_file = "key"
addresses = ["10.77.0.2/24"]
[[link]]
name = "dsl"
interface = "eth1"
[[peer]]
name = "vps"
public_key = "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo="
endpoints = ["203.0.113.1:51900"]
allowed_ips = ["0.0.0.0/0"]
[[rule]]
name = "backup"
match = { to = "198.51.100.0/24" }
do = "tunnel"
priority = "low"
[[rule]]
name = "tablet"
match = { device = "192.168.7.20" }
do = "tunnel"
rate = { down = "4Mbit" }
redundancy = "parity"
"#;

    fn config() -> Config {
        Config::parse(CONFIG, Path::new("/etc/braid/braid.toml")).unwrap()
    }

    /// As `resolve` makes them of the config.
    fn rules() -> Vec<Rule> {
        let to = Destinations {
            networks: vec!["198.51.100.0/24".parse().unwrap()],
            ..Destinations::default()
        };
        let addresses = vec!["192.168.7.20/32".parse().unwrap()];
        let devices = Devices { addresses, ..Devices::default() };
        let of = |name: &str, conditions| Rule {
            name: name.into(),
            conditions,
            counts_now: true,
            verdict: Verdict::Tunnel,
        };
        vec![
            of("backup", Conditions { to: Some(to), ..Conditions::default() }),
            of("tablet", Conditions { devices: Some(devices), ..Conditions::default() }),
        ]
    }

    fn flow(device: u8, to: [u8; 4], port: u16, bytes: u64) -> KnownFlow {
        let selector = Selector::Ports { src: port, dst: 443 };
        let src = IpAddr::from([10, 77, 0, 2]);
        let key = FlowKey::Ip { src, dst: to.into(), protocol: 6, selector };
        let address = IpAddr::from([192, 168, 7, device]);
        let (peer, device) = ("vps".into(), address.to_string());
        KnownFlow { peer, key, device, address: Some(address), bytes }
    }

    const WEB: [u8; 4] = [203, 0, 113, 7];
    const NAS: [u8; 4] = [198, 51, 100, 9];

    #[test]
    fn flows_have_their_devices_and_what_their_rule_gives() {
        let (config, rules) = (config(), rules());
        let judging = Judging { config: &config, rules: &rules, names: None, leases: &[] };
        let mut treatments = FlowTreatments::default();
        let flows = [
            flow(20, WEB, 1, 10),
            flow(20, WEB, 2, 10),
            flow(30, WEB, 3, 1_000_000),
            flow(30, WEB, 4, 10),
            flow(30, NAS, 5, 10),
        ];
        let [(peer, told)] = &treatments.follow(&flows, &judging)[..] else { panic!() };
        assert_eq!(*peer, config.peers[0].public_key);
        let of = |flow: usize| {
            let found = told.flows.iter().find(|(key, _)| *key == flows[flow].key);
            found.map(|(_, treatment)| *treatment)
        };
        let limit = Some(LimitId(NonZeroU8::MIN));
        let (class, redundancy) = (Some(Class::Realtime), FlowRedundancy::Parity);
        let tablet = Treatment { device: 1, limit, class, redundancy, ..Treatment::default() };
        assert_eq!((of(0), of(1)), (Some(tablet), Some(tablet)));
        assert_eq!(of(2), Some(Treatment { device: 2, ..Treatment::default() }));
        assert_eq!(of(3), None, "a small one of no rule");
        let low = Treatment { device: 2, priority: Priority::Low, ..Treatment::default() };
        assert_eq!(of(4), Some(low));
        assert_eq!(told.limits_up, [(LimitId(NonZeroU8::MIN), None)]);
        let rate = told.limits_down[0].1.map(|rate| rate.mbit());
        assert_eq!(rate, Some(4.0));
        assert_eq!(treatments.rule_name(&flows[4].key, &config), Some("backup"));
        assert!(treatments.follow(&flows, &judging).is_empty(), "nothing new");
    }

    #[test]
    fn a_rule_that_is_gone_lets_go_of_its_flows() {
        let (mut config, mut rules) = (config(), rules());
        let mut treatments = FlowTreatments::default();
        let flows = [flow(20, WEB, 1, 1_000_000)];
        let judging = Judging { config: &config, rules: &rules, names: None, leases: &[] };
        assert_eq!(treatments.follow(&flows, &judging).len(), 1);
        config.rules.pop();
        rules.pop();
        let judging = Judging { config: &config, rules: &rules, names: None, leases: &[] };
        let [(_, told)] = &treatments.follow(&flows, &judging)[..] else { panic!() };
        assert_eq!(told.flows, [(flows[0].key, Treatment { device: 1, ..Treatment::default() })]);
        assert!(told.limits_down.is_empty());
        // Its last flow is over.
        let [(_, told)] = &treatments.follow(&[], &judging)[..] else { panic!() };
        assert!(told.flows.is_empty());
        assert!(treatments.follow(&[], &judging).is_empty());
    }
}
