//! One thing set on the host: how to set it, see it, take it back.

use super::{docker_user, forwarding};
use crate::netlink::{Netlink, Route, RouteKind, Rule};
use crate::nft;
use crate::operation;
use crate::udp::Family;
use braid_engines::Operation;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;

/// What routes of ours are marked with (`RTPROT_…`; this number is nobody's).
pub const PROTOCOL: u8 = 177;
/// What the kernel makes of an IPv6 route without a metric.
const IPV6_METRIC: u32 = 1024;

/// One thing set on the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Item {
    /// A kernel setting.
    Sysctl {
        /// Its path below `/proc/sys`.
        key: String,
        /// What it shall be.
        value: String,
    },
    /// Forwarding of an IP version, all devices; what the kernel changes along with it
    /// stays as it was.
    Forwarding(Family),
    /// An address of an interface.
    Address {
        /// The interface.
        interface: String,
        /// The address and its network.
        net: IpNet,
    },
    /// A route.
    Route(RouteItem),
    /// A policy rule.
    Rule(Rule),
    /// Our nftables table.
    Firewall {
        /// The tunnel's interface, which names the table.
        interface: String,
        /// Its contents in nft's language.
        ruleset: String,
    },
    /// A rule, as iptables writes it, in the chain that Docker keeps for others' rules.
    DockerUser {
        /// The IP version.
        family: Family,
        /// The rule.
        rule: String,
    },
    /// Something else that an engine of the kernel asks for.
    Operation(Operation),
}

/// A route whose interface has a name, which lasts longer than its number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteItem {
    /// Where to.
    pub destination: IpNet,
    /// The routing table.
    pub table: u32,
    /// What is done.
    pub kind: RouteKind,
    /// The next hop.
    pub gateway: Option<IpAddr>,
    /// The next hop is on the link even if no address of ours says so.
    pub on_link: bool,
    /// The outgoing interface.
    pub interface: Option<String>,
    /// The lower, the better; 0 for the kernel's own choice.
    pub metric: u32,
    /// The next-hop object or group that it goes by, instead of gateway and interface.
    #[serde(default)]
    pub next_hop: Option<u32>,
    /// The address to send from, where the sender chose none.
    #[serde(default)]
    pub source: Option<IpAddr>,
    /// What a TCP connection may send at first, either way, in segments.
    #[serde(default)]
    pub initial_window: Option<u32>,
}

impl RouteItem {
    /// A route that sends packets on.
    pub fn new(destination: IpNet, table: u32) -> RouteItem {
        RouteItem {
            destination,
            table,
            kind: RouteKind::Unicast,
            gateway: None,
            on_link: false,
            interface: None,
            metric: 0,
            next_hop: None,
            source: None,
            initial_window: None,
        }
    }

    fn resolve(&self, netlink: &mut Netlink) -> io::Result<Route> {
        let interface = match &self.interface {
            Some(name) => Some(netlink.link(name)?.index),
            None => None,
        };
        Ok(Route {
            table: self.table,
            kind: self.kind,
            gateway: self.gateway,
            on_link: self.on_link,
            interface,
            metric: self.metric,
            protocol: PROTOCOL,
            next_hop: self.next_hop,
            source: self.source,
            initial_window: self.initial_window,
            ..Route::to(self.destination)
        })
    }

    /// Whether a route of the kernel is this one (ours or not).
    fn is(&self, wanted: &Route, found: &Route) -> bool {
        let metric = match (self.metric, Family::of(self.destination.addr())) {
            (0, Family::V6) => IPV6_METRIC,
            (metric, _) => metric,
        };
        // IPv6 shows walls as routes by `lo`.
        let by = match self.next_hop {
            // Shown with the group's hops, one by one.
            Some(_) => found.next_hop == self.next_hop,
            None => {
                let same = (found.interface, found.gateway, found.initial_window)
                    == (wanted.interface, wanted.gateway, wanted.initial_window);
                found.next_hop.is_none() && (self.kind != RouteKind::Unicast || same)
            }
        };
        by && (found.destination, found.table, found.kind, found.metric)
            == (wanted.destination, wanted.table, wanted.kind, metric)
    }
}

impl Item {
    /// Sets it. `prior` is what [`Item::prior`] found.
    pub(crate) fn set(&self, prior: Option<&str>, netlink: &mut Netlink) -> io::Result<()> {
        match self {
            Item::Forwarding(family) => forwarding::set(*family, prior),
            Item::Sysctl { key, value } => write_sysctl(key, value),
            Item::Address { interface, net } => {
                let index = netlink.link(interface)?.index;
                netlink.add_address(index, *net)
            }
            Item::Route(route) => {
                let route = route.resolve(netlink)?;
                netlink.add_route(&route)
            }
            Item::Rule(rule) => netlink.add_rule(rule),
            Item::Firewall { interface, ruleset } => nft::replace(interface, ruleset),
            Item::DockerUser { family, rule } => docker_user::set(*family, rule),
            Item::Operation(operation) => operation::set(operation, netlink),
        }
    }

    /// Whether it is so now, whoever has set it. `prior` is there if we have.
    pub(crate) fn is_set(&self, prior: Option<&str>, netlink: &mut Netlink) -> io::Result<bool> {
        match self {
            Item::Forwarding(family) => forwarding::is_set(*family, prior),
            Item::Sysctl { key, value } => Ok(read_sysctl(key)? == *value),
            Item::Address { interface, net } => {
                let Some(index) = found(netlink.link(interface))?.map(|link| link.index) else {
                    return Ok(false);
                };
                let addresses = netlink.addresses()?;
                Ok(addresses.iter().any(|a| a.interface == index && a.net == *net))
            }
            Item::Route(route) => {
                let Some(wanted) = found(route.resolve(netlink))? else { return Ok(false) };
                Ok(netlink.routes()?.iter().any(|there| route.is(&wanted, there)))
            }
            Item::Rule(rule) => Ok(netlink.rules()?.contains(rule)),
            Item::Firewall { interface, .. } => nft::exists(interface),
            Item::DockerUser { family, rule } => docker_user::is_set(*family, rule),
            Item::Operation(operation) => operation::is_set(operation, netlink),
        }
    }

    /// What was there before, where that has to be known to undo it.
    pub(super) fn prior(&self, netlink: &mut Netlink) -> io::Result<Option<String>> {
        match self {
            Item::Sysctl { key, .. } => read_sysctl(key).map(Some),
            Item::Forwarding(family) => forwarding::prior(*family).map(Some),
            Item::Operation(operation) => operation::prior(operation, netlink),
            _ => Ok(None),
        }
    }

    /// Takes it back; it need not be there any more.
    pub(crate) fn unset(&self, prior: Option<&str>, netlink: &mut Netlink) -> io::Result<()> {
        match self {
            Item::Sysctl { key, value } => match found(read_sysctl(key))? {
                // Somebody has set it since: it's theirs.
                Some(now) if now != *value => Ok(()),
                Some(_) => prior.map_or(Ok(()), |prior| write_sysctl(key, prior)),
                None => Ok(()),
            },
            Item::Forwarding(family) => forwarding::unset(*family, prior),
            Item::Address { interface, net } => match found(netlink.link(interface))? {
                Some(link) => gone(netlink.delete_address(link.index, *net)),
                None => Ok(()),
            },
            Item::Route(route) => match found(route.resolve(netlink))? {
                Some(route) => gone(netlink.delete_route(&route)),
                None => Ok(()),
            },
            Item::Rule(rule) => gone(netlink.delete_rule(rule)),
            Item::Firewall { interface, .. } => nft::delete(interface),
            Item::DockerUser { family, rule } => docker_user::unset(*family, rule),
            Item::Operation(operation) => operation::unset(operation, prior, netlink),
        }
    }

    /// Whether what is there under its name may be somebody else's: then it is
    /// set in any case, which tells.
    pub(super) fn is_exclusive(&self) -> bool {
        match self {
            // A table under our name is ours, and may hold something else.
            Item::Firewall { .. } => true,
            Item::Operation(operation) => operation::is_exclusive(operation),
            _ => false,
        }
    }

    /// Whether it is still there when the host has booted anew: what was there
    /// before then is another host's past.
    pub(super) fn outlives_boot(&self) -> bool {
        matches!(self, Item::Operation(Operation::File { .. }))
    }

    /// Whether setting `other` replaces this one at once, without a gap.
    pub(super) fn is_replaced_by(&self, other: &Item) -> bool {
        match (self, other) {
            (Item::Firewall { interface: a, .. }, Item::Firewall { interface: b, .. }) => a == b,
            (Item::Operation(a), Item::Operation(b)) => operation::is_replaced_by(a, b),
            _ => false,
        }
    }
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Item::Sysctl { key, value } => write!(f, "sysctl {}={value}", key.replace('/', ".")),
            Item::Forwarding(family) => {
                write!(f, "sysctl {}=1", forwarding::switch(*family).replace('/', "."))
            }
            Item::Address { interface, net } => write!(f, "address {net} dev {interface}"),
            Item::Route(route) => {
                let kind = match route.kind {
                    RouteKind::Unicast => "",
                    RouteKind::Unreachable => "unreachable ",
                    RouteKind::Blackhole => "blackhole ",
                    RouteKind::Prohibit => "prohibit ",
                    RouteKind::Throw => "throw ",
                    RouteKind::Local => "local ",
                };
                write!(f, "route {kind}{}", route.destination)?;
                if let Some(gateway) = route.gateway {
                    write!(f, " via {gateway}")?;
                }
                if let Some(interface) = &route.interface {
                    write!(f, " dev {interface}")?;
                }
                write!(f, " table {}", route.table)
            }
            Item::Rule(rule) => write_rule(rule, f),
            Item::Firewall { interface, .. } => {
                write!(f, "nftables table inet {}", nft::table(interface))
            }
            Item::DockerUser { family, rule } => {
                write!(f, "{} -I DOCKER-USER {rule}", docker_user::program(*family))
            }
            Item::Operation(operation) => operation.fmt(f),
        }
    }
}

fn write_rule(rule: &Rule, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    use crate::netlink::RuleAction;
    write!(f, "rule {}:{}", rule.priority, if rule.not { " not" } else { "" })?;
    match rule.from {
        Some(net) => write!(f, " from {net}")?,
        None => write!(f, " from all")?,
    }
    if let Some(net) = rule.to {
        write!(f, " to {net}")?;
    }
    if let Some(mark) = rule.fwmark {
        write!(f, " fwmark {mark:#x}")?;
        rule.mask.map_or(Ok(()), |mask| write!(f, "/{mask:#x}"))?;
    }
    for (side, name) in [("iif", &rule.incoming), ("oif", &rule.outgoing)] {
        if let Some(name) = name {
            write!(f, " {side} {name}")?;
        }
    }
    match rule.action {
        RuleAction::Lookup { table, suppress_prefix_len } => {
            write!(f, " lookup {table}")?;
            suppress_prefix_len.map_or(Ok(()), |len| write!(f, " suppress_prefixlength {len}"))?;
        }
        RuleAction::Unreachable => write!(f, " unreachable")?,
        RuleAction::Blackhole => write!(f, " blackhole")?,
    }
    let version = match rule.family {
        Family::V4 => "IPv4",
        Family::V6 => "IPv6",
    };
    write!(f, " ({version})")
}

fn sysctl_path(key: &str) -> PathBuf {
    PathBuf::from("/proc/sys").join(key)
}

pub(super) fn read_sysctl(key: &str) -> io::Result<String> {
    Ok(fs::read_to_string(sysctl_path(key))?.trim().to_owned())
}

pub(super) fn write_sysctl(key: &str, value: &str) -> io::Result<()> {
    fs::write(sysctl_path(key), value)
}

/// None instead of an error when it isn't there.
pub(crate) fn found<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if is_absence(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Success also when it wasn't there.
pub(crate) fn gone(result: io::Result<()>) -> io::Result<()> {
    found(result).map(drop)
}

fn is_absence(error: &io::Error) -> bool {
    let absent = [libc::ENOENT, libc::ESRCH, libc::ENODEV, libc::EADDRNOTAVAIL];
    error.kind() == io::ErrorKind::NotFound
        || error.raw_os_error().is_some_and(|code| absent.contains(&code))
}
