//! Equal-cost multipath routing by next-hop groups (ip-nexthop(8),
//! Documentation/networking/nexthop-group-resilient.rst).

use crate::Family;
use crate::group::{Egress, Group, Trouble};
use crate::operation::{Member, Operation, Route};
use crate::port::{self, Port};
use crate::words::words;
use crate::{Feature, policy};
use serde::{Deserialize, Serialize};

/// Settings of multipath routing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ecmp {
    /// What determines a flow's link.
    pub hash: EcmpHash,
    /// Keeps flows on their links when other links come and go.
    pub resilient: Option<Resilient>,
    /// Masquerades packets with the address of the link that they leave by (home routers, NAT).
    pub masquerade: bool,
}

words! {
    /// What is hashed (`fib_multipath_hash_policy`).
    EcmpHash {
        /// Addresses.
        Layer3 = "layer3",
        /// Addresses and ports.
        Layer34 = "layer3+4",
        /// Addresses of the packets inside a tunnel.
        Inner = "inner",
    }
}

/// A resilient group: a table of buckets, of which only idle ones move to another link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resilient {
    /// Number of buckets; needn't be a power of two.
    pub buckets: u16,
    /// Seconds without traffic after which a bucket may move.
    pub idle_timer_s: u32,
    /// Seconds of imbalance after which busy ones are moved, too; 0 for never.
    pub unbalanced_timer_s: u32,
}

impl Default for Ecmp {
    fn default() -> Ecmp {
        Ecmp { hash: EcmpHash::Layer34, resilient: None, masquerade: false }
    }
}

impl EcmpHash {
    /// The kernel's number of it.
    pub const fn number(self) -> u8 {
        match self {
            EcmpHash::Layer3 => 0,
            EcmpHash::Layer34 => 1,
            EcmpHash::Inner => 2,
        }
    }
}

pub(crate) fn check(ecmp: &Ecmp, group: &Group, found: &mut Vec<Trouble>) {
    let weights: u32 = group.links.iter().map(|link| u32::from(link.weight.get())).sum();
    if let Some(resilient) = ecmp.resilient
        && u32::from(resilient.buckets) < weights
    {
        found.push(Trouble::new(
            "buckets",
            format!("{} buckets for links with a total weight of {weights}", resilient.buckets),
            "give at least that many; 128 is usual",
        ));
    }
}

pub(crate) fn needs(ecmp: &Ecmp) -> Vec<Feature> {
    let mut needs = vec![Feature::PolicyRouting, Feature::NextHops];
    if ecmp.resilient.is_some() {
        needs.push(Feature::ResilientNextHops);
    }
    if ecmp.masquerade {
        needs.extend([Feature::Nftables, Feature::Nft]);
    }
    needs
}

pub(crate) fn operations(ecmp: &Ecmp, group: &Group, ports: &[Port]) -> Vec<Operation> {
    let mut operations = policy::sysctls(ports);
    let hash = ecmp.hash.number().to_string();
    for family in ["ipv4", "ipv6"] {
        operations.push(Operation::Sysctl {
            key: format!("net/{family}/fib_multipath_hash_policy"),
            value: hash.clone(),
        });
    }
    operations.extend(policy::link_tables(group, ports));
    operations.extend(policy::main_first(group));
    for family in Family::ALL {
        operations.extend(group_routes(ecmp, group, ports, family));
    }
    if ecmp.masquerade {
        operations.extend(policy::masquerade(group, ports, ""));
    }
    operations
}

/// The next hops of one IP version, their group and the routes that use it.
fn group_routes(ecmp: &Ecmp, group: &Group, ports: &[Port], family: Family) -> Vec<Operation> {
    let numbers = &group.numbers;
    // IPv6 has the upper half of the group's numbers.
    let first = numbers.next_hop + if family == Family::V6 { 32 } else { 0 };
    let routes: Vec<_> =
        group.routes.iter().filter(|route| Family::of(route.addr()) == family).collect();
    let usable = ports.iter().filter(|port| port.egress(family).is_some());
    let hops: Vec<(&Port, &Egress)> = port::flowing(usable)
        .into_iter()
        .filter_map(|port| Some((port, port.egress(family)?)))
        .collect();
    if hops.is_empty() || routes.is_empty() {
        return Vec::new();
    }
    let id = |port: &Port| first + port.number;
    let mut operations: Vec<Operation> = hops
        .iter()
        .map(|(port, egress)| Operation::NextHop {
            id: id(port),
            device: port.device.clone(),
            gateway: egress.gateway,
            v6: family == Family::V6,
            on_link: egress.is_beyond(),
        })
        .collect();
    let members =
        hops.iter().map(|(port, _)| Member { id: id(port), weight: port.weight }).collect();
    operations.push(Operation::NextHopGroup { id: first, members, resilient: ecmp.resilient });
    let source = group.addresses.iter().map(|net| net.addr()).find(|a| Family::of(*a) == family);
    operations.extend(routes.into_iter().map(|route| {
        Operation::Route(Route {
            next_hop: Some(first),
            source: source.filter(|_| !ecmp.masquerade),
            ..Route::new(route.trunc(), numbers.table)
        })
    }));
    operations.push(policy::lookup_group(group, family));
    operations
}
