//! Equal-cost multipath over all links: each flow stays on the link that the
//! hash of its addresses and ports chose.

use super::address::{HOME_V4, HOME_V6};
use super::command::{batch, nft, sysctls};
use super::routing::MIN_V6_MTU;
use super::{Topology, TopologyError, TopologyLink};
use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Preferred to the links' own default routes.
const METRIC: u32 = 50;

/// How flows must be opened to be spread over the links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EcmpSetup {
    /// The address that sockets at home bind to (and listen on).
    pub home_v4: Ipv4Addr,
    /// The same for IPv6; `None` where a link's MTU is too small for it.
    pub home_v6: Option<Ipv6Addr>,
    /// Whether the concentrator can open flows to the home, too. Not with NAT: then the home
    /// masquerades each flow as the link that it takes, and only the home can open flows.
    pub inbound: bool,
}

pub(super) fn set_up(topology: &Topology) -> Result<EcmpSetup, TopologyError> {
    let links = &topology.links;
    let has_v6 = links.iter().all(|link| link.model.mtu >= MIN_V6_MTU);
    let nat = links.iter().any(|link| link.model.nat);

    let mut home = vec![
        format!("addr add {HOME_V4}/32 dev lo"),
        format!("route add default metric {METRIC}{}", hops(links, gateway_v4)),
    ];
    let mut concentrator = Vec::new();
    if !nat {
        concentrator.push(format!("route add {HOME_V4}/32{}", hops(links, home_v4)));
    }
    if has_v6 {
        home.push(format!("addr add {HOME_V6}/128 dev lo"));
        home.push(format!("route add ::/0 metric {METRIC}{}", hops(links, gateway_v6)));
        concentrator.push(format!("route add {HOME_V6}/128{}", hops(links, home_v6)));
    }
    for (ns, lines) in [(&topology.home, home), (&topology.concentrator, concentrator)] {
        sysctls(
            ns,
            &[("ipv4/fib_multipath_hash_policy", "1"), ("ipv6/fib_multipath_hash_policy", "1")],
        )?;
        batch(ns, "ip", &lines)?;
    }
    if nat {
        nft(
            &topology.home,
            &format!(
                "table ip braid_lab_ecmp {{
                    chain leaving {{
                        type nat hook postrouting priority srcnat;
                        ip saddr {HOME_V4} masquerade
                    }}
                }}\n"
            ),
        )?;
    }
    Ok(EcmpSetup { home_v4: HOME_V4, home_v6: has_v6.then_some(HOME_V6), inbound: !nat })
}

fn hops(links: &[TopologyLink], next: impl Fn(&TopologyLink) -> (String, &str)) -> String {
    links.iter().fold(String::new(), |mut text, link| {
        let (via, device) = next(link);
        // Writing to a String can't fail.
        let _ = write!(text, " nexthop via {via} dev {device} weight 1");
        text
    })
}

fn gateway_v4(link: &TopologyLink) -> (String, &str) {
    (link.addresses.gateway_v4.to_string(), &link.device)
}

fn gateway_v6(link: &TopologyLink) -> (String, &str) {
    (link.addresses.gateway_v6.to_string(), &link.device)
}

fn home_v4(link: &TopologyLink) -> (String, &str) {
    (link.addresses.home_v4.to_string(), &link.provider_device)
}

fn home_v6(link: &TopologyLink) -> (String, &str) {
    (link.addresses.home_v6.to_string(), &link.provider_device)
}
