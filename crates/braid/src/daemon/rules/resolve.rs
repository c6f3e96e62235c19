//! Resolves the config's rules to addresses; pure.

use braid_control::config::{
    self, Action, Cgroup, Config, Device, Direct, Hours, Link, Protocol, Traffic,
};
use braid_rules::{
    Conditions, Destinations, Devices, Lease, Origin, Otherwise, Rule, Targets, Transport, Verdict,
};
use ipnet::IpNet;
use jiff::Zoned;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The current meaning of names.
pub struct Known<'k> {
    /// DHCP leases.
    pub leases: Vec<Lease>,
    /// Networks from files.
    pub networks: BTreeMap<PathBuf, Vec<IpNet>>,
    /// The table of origins.
    pub origins: &'k [Origin],
    /// Finds a control group.
    pub cgroup: &'k dyn Fn(&Cgroup) -> Option<braid_rules::Cgroup>,
    /// The local time.
    pub now: &'k Zoned,
}

/// All rules, in order, including those that don't apply now.
pub fn resolve(config: &Config, known: &Known<'_>) -> Vec<Rule> {
    let rules = config.rules.iter().map(|rule| Rule {
        name: rule.name.to_string(),
        conditions: conditions(rule.name.as_str(), &rule.matches, known),
        counts_now: counts(&rule.matches, known.now),
        verdict: match &rule.action {
            Action::Tunnel { .. } => Verdict::Tunnel,
            Action::Block => Verdict::Block,
            Action::Direct(direct) => Verdict::Direct(targets(direct, config)),
        },
    });
    rules.collect()
}

fn conditions(name: &str, traffic: &Traffic, known: &Known<'_>) -> Conditions {
    Conditions {
        devices: (!traffic.devices.is_empty()).then(|| devices(&traffic.devices, &known.leases)),
        from: traffic.from.iter().map(|prefix| prefix.net()).collect(),
        to: (!traffic.to.is_anywhere()).then(|| destinations(name, traffic, known)),
        transport: traffic.protocol.map(|protocol| match protocol {
            Protocol::Tcp => Transport::Tcp,
            Protocol::Udp => Transport::Udp,
            Protocol::Icmp => Transport::Icmp,
        }),
        ports: traffic.ports.as_ref().map(|ports| ports.0.clone()),
        dscp: traffic.dscp.map(|dscp| dscp.value()),
        users: traffic.users.clone(),
        cgroups: (!traffic.cgroups.is_empty())
            .then(|| traffic.cgroups.iter().filter_map(known.cgroup).collect()),
    }
}

fn devices(devices: &[Device], leases: &[Lease]) -> Devices {
    let mut found = Devices::default();
    for device in devices {
        match device {
            Device::Address(address) => found.addresses.push((*address).into()),
            Device::Mac(mac) => found.macs.push(*mac),
            Device::Host(name) => {
                for lease in leases.iter().filter(|lease| lease.host.eq_ignore_ascii_case(name)) {
                    found.addresses.push(lease.address.into());
                    // The device chooses its IPv6 addresses itself.
                    found.macs.extend(lease.mac);
                }
            }
        }
    }
    found.macs.sort();
    found.macs.dedup();
    found.addresses.sort();
    found.addresses.dedup();
    found
}

fn destinations(name: &str, traffic: &Traffic, known: &Known<'_>) -> Destinations {
    let to = &traffic.to;
    let mut networks: Vec<IpNet> = to.networks.iter().map(|prefix| prefix.net()).collect();
    networks.extend(to.files.iter().filter_map(|file| known.networks.get(file)).flatten());
    let of_interest = known.origins.iter().filter(|origin| {
        to.systems.iter().any(|system| system.0 == origin.asn)
            || to.countries.iter().any(|country| country.as_str() == origin.country)
    });
    networks.extend(of_interest.flat_map(Origin::networks));
    Destinations {
        networks: IpNet::aggregate(&networks),
        known_as: to.by_name().then(|| name.to_owned()),
    }
}

/// The named links, or all: best tier first, standby links last.
fn targets(direct: &Direct, config: &Config) -> Targets {
    let mut best: Vec<&Link> = config.links.iter().collect();
    best.sort_by_key(|link| (link.standby, link.tier));
    let best = best.into_iter().map(|link| link.name.to_string());
    Targets {
        links: match direct.links.as_slice() {
            [] => best.collect(),
            named => named.iter().map(ToString::to_string).collect(),
        },
        otherwise: match direct.otherwise {
            config::Otherwise::Tunnel => Otherwise::Tunnel,
            config::Otherwise::Block => Otherwise::Block,
        },
        end_on_recovery: direct.end_on_recovery,
    }
}

/// Hours over midnight belong to the day on which they begin.
fn counts(traffic: &Traffic, now: &Zoned) -> bool {
    let on = |day: jiff::civil::Weekday| {
        traffic.days.is_empty() || traffic.days.iter().any(|wanted| wanted.weekday() == day)
    };
    let (today, time) = (now.weekday(), now.time());
    match traffic.hours {
        None => on(today),
        Some(Hours { from, until }) if from < until => on(today) && from <= time && time < until,
        Some(Hours { from, until }) => {
            time >= from && on(today) || time < until && on(today.previous())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn config(rules: &str) -> Config {
        let text = format!(
            "[interface]\nprivate_key_file = \"k\"\nlisten = \"0.0.0.0:1\"\n\
             [[link]]\nname = \"lte\"\ninterface = \"wwan0\"\ntier = 1\n\
             [[link]]\nname = \"dsl\"\ninterface = \"eth1\"\n\
             [[link]]\nname = \"spare\"\ninterface = \"eth2\"\nstandby = true\n\
             [routing]\norigins = \"o.tsv\"\n{rules}"
        );
        Config::parse(&text, Path::new("/c/braid.toml")).unwrap()
    }

    fn rules(text: &str, now: &str) -> Vec<Rule> {
        let now: Zoned = now.parse().unwrap();
        let leases = braid_rules::read_leases(
            "0 aa:bb:cc:dd:ee:01 192.168.7.20 Tablet *\n0 7 fd00::20 tablet *",
        );
        let origins = braid_rules::read_origins("192.0.2.0\t192.0.2.255\t64496\tDE\n").unwrap();
        let networks = BTreeMap::from([(
            PathBuf::from("/c/bank.txt"),
            vec!["203.0.113.0/24".parse().unwrap()],
        )]);
        let known = Known { leases, networks, origins: &origins, cgroup: &|_| None, now: &now };
        resolve(&config(text), &known)
    }

    const NOON: &str = "2026-11-24T12:00:00+00:00[UTC]";

    #[test]
    fn names_become_addresses() {
        let found = rules(
            "[[rule]]\nname = \"a\"\ndo = \"direct\"\nmatch = { device = \"tablet\", to_file = \
             \"bank.txt\", country = \"de\", to = \"198.51.100.1\" }\n\
             [[rule]]\nname = \"b\"\ndo = \"direct\"\nlinks = \"lte\"\nmatch = { asn = \"AS1\" }",
            NOON,
        );
        let [a, b] = found.as_slice() else { panic!("{found:?}") };
        let devices = a.conditions.devices.as_ref().unwrap();
        assert_eq!((devices.macs.len(), devices.addresses.len()), (1, 2));
        let to = &a.conditions.to.as_ref().unwrap().networks;
        assert_eq!(to.len(), 3, "{to:?}");
        let Verdict::Direct(targets) = &a.verdict else { panic!("{a:?}") };
        assert_eq!(targets.links, ["dsl", "lte", "spare"], "the best first");
        let none = Destinations::default();
        assert_eq!(b.conditions.to, Some(none), "nothing, which isn't anything");
    }

    #[test]
    fn hours_over_midnight_belong_to_the_day_on_which_they_begin() {
        let counts = |hours: &str, now: &str| {
            let text = format!("[[rule]]\nname = \"a\"\ndo = \"block\"\nmatch = {{ {hours} }}");
            rules(&text, now)[0].counts_now
        };
        // 2026-11-24 is a Tuesday.
        let evening = "time = \"20:00-06:30\", days = [\"mon\"]";
        assert!(counts(evening, "2026-11-23T20:00:00+00:00[UTC]"));
        assert!(counts(evening, "2026-11-24T06:29:00+00:00[UTC]"));
        assert!(!counts(evening, "2026-11-24T06:30:00+00:00[UTC]"));
        assert!(!counts(evening, "2026-11-23T06:00:00+00:00[UTC]"));
        assert!(!counts(evening, "2026-11-24T20:00:00+00:00[UTC]"));
        assert!(counts("time = \"08:00-17:00\"", NOON) && counts("days = \"tue\"", NOON));
        assert!(!counts("days = \"wed\"", NOON));
        let there = "2026-11-24T20:00:00+09:00[Asia/Tokyo]";
        assert!(!counts("time = \"08:00-17:00\"", there), "the clock here is asked");
    }
}
