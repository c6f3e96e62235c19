//! The kill switch: whatever the routes say, traffic leaves or passes through this host only by the
//! tunnel. Everything not listed here is refused, on every device.

use ipnet::IpNet;
use std::net::IpAddr;

/// What may leave outside the tunnel, besides what keeps a link alive (see [`KillSwitch::output`]).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KillSwitch {
    /// Marks of the tunnels' own datagrams and look-ups, each with its mask.
    pub marks: Vec<(u32, u32)>,
    /// Devices that aren't uplinks, with their networks.
    pub lan: Vec<(String, Vec<IpNet>)>,
    /// The links with their own addresses: connections to these are answered.
    pub links: Vec<(String, Vec<IpAddr>)>,
}

/// Ports that Linux uses for outgoing connections (`ip_local_port_range`). A connection tracking
/// entry that a stranger created for one of them would make our own connection look like a reply.
const CALLERS: &str = "32768-60999";

impl KillSwitch {
    /// What this host itself may send, without the final refusing rule.
    pub(super) fn output(&self, tunnel: &str) -> Vec<String> {
        let mut rules = vec![format!("oifname {{ \"lo\", \"{tunnel}\" }} accept")];
        for (mark, mask) in &self.marks {
            rules.push(format!("meta mark and {mask:#x} == {mark:#x} accept"));
        }
        rules.extend(
            [
                // Neighbour and router discovery, and multicast listeners.
                "icmpv6 type { nd-router-solicit, nd-router-advert, nd-neighbor-solicit, \
                 nd-neighbor-advert, mld-listener-query, mld-listener-report, \
                 mld-listener-done, mld2-listener-report } accept",
                // DHCP and DHCPv6 clients, and NTP.
                "udp sport 68 udp dport 67 accept",
                "udp sport 546 udp dport 547 accept",
                "udp dport 123 accept",
            ]
            .map(str::to_owned),
        );
        for by in self.answers() {
            rules.push(format!("{by} {TCP_ANSWER} accept"));
            rules.push(format!("{by} udp sport != {CALLERS} accept"));
            rules.push(format!("{by} icmp type echo-reply accept"));
            rules.push(format!("{by} icmpv6 type echo-reply accept"));
        }
        rules.extend(self.to_lan());
        rules
    }

    /// What may be forwarded, without the final refusing rule.
    pub(super) fn forward(&self, tunnel: &str) -> Vec<String> {
        let mut rules = vec![format!("oifname \"{tunnel}\" accept")];
        // Ports that the administrator forwards from a link to the LAN.
        for by in self.answers() {
            rules.push(format!("{by} ct status dnat {TCP_ANSWER} accept"));
            rules.push(format!("{by} ct status dnat meta l4proto udp accept"));
        }
        rules.extend(self.to_lan());
        rules
    }

    /// Replies to connections that came in over the link that they leave by.
    fn answers(&self) -> Vec<String> {
        let mut matches = Vec::new();
        for (link, addresses) in &self.links {
            for (family, addresses) in by_family(addresses.iter().map(|&ip| (ip, ip.to_string()))) {
                matches.push(format!(
                    "oifname \"{link}\" ct direction reply ct original {family} daddr {{ {addresses} }}"
                ));
            }
        }
        matches
    }

    fn to_lan(&self) -> Vec<String> {
        let mut rules = Vec::new();
        for (device, networks) in &self.lan {
            let multicast = ["255.255.255.255/32", "224.0.0.0/4", "ff00::/8", "fe80::/10"];
            let multicast = multicast.iter().filter_map(|net| net.parse().ok());
            let networks = networks.iter().map(IpNet::trunc).chain(multicast);
            let mut networks: Vec<IpNet> = networks.collect();
            networks = IpNet::aggregate(&networks);
            let networks = networks.iter().map(|net| (net.addr(), net.to_string()));
            for (family, networks) in by_family(networks) {
                rules.push(format!("oifname \"{device}\" {family} daddr {{ {networks} }} accept"));
            }
        }
        rules
    }
}

/// Not a SYN, as both ends may open a connection at the same time.
const TCP_ANSWER: &str = "tcp flags & (syn | ack) != syn";

/// Joins the texts of each IP version as elements of a set.
fn by_family(
    found: impl Iterator<Item = (IpAddr, String)>,
) -> impl Iterator<Item = (&'static str, String)> {
    let (v4, v6): (Vec<_>, Vec<_>) = found.partition(|(address, _)| address.is_ipv4());
    [("ip", v4), ("ip6", v6)].into_iter().filter(|(_, of)| !of.is_empty()).map(|(family, of)| {
        let texts: Vec<String> = of.into_iter().map(|(_, text)| text).collect();
        (family, texts.join(", "))
    })
}
