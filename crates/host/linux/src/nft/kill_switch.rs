//! The kill switch: whatever the routes say, nothing leaves this host or passes
//! through it but by the tunnel. Everything is refused, by every device, that
//! isn't named here.

use ipnet::IpNet;
use std::net::IpAddr;

/// What may leave beside the tunnel, apart from what keeps a link alive (see
/// [`KillSwitch::output`]).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KillSwitch {
    /// Marks of the tunnels' own datagrams and look-ups, with the bits of each
    /// that count.
    pub marks: Vec<(u32, u32)>,
    /// Devices that aren't a way out, with the networks on them.
    pub lan: Vec<(String, Vec<IpNet>)>,
    /// The links with their own addresses: who calls there is answered.
    pub links: Vec<(String, Vec<IpAddr>)>,
}

/// Where Linux takes the ports of its own calls from (`ip_local_port_range`). An
/// entry of a stranger's making for one of them would make a call of ours look
/// like an answer.
const CALLERS: &str = "32768-60999";

impl KillSwitch {
    /// What this host itself may send, without the last rule, which refuses.
    pub(super) fn output(&self, tunnel: &str) -> Vec<String> {
        let mut rules = vec![format!("oifname {{ \"lo\", \"{tunnel}\" }} accept")];
        for (mark, mask) in &self.marks {
            rules.push(format!("meta mark and {mask:#x} == {mark:#x} accept"));
        }
        rules.extend(
            [
                // Neighbours, routers, and who listens to which multicast address.
                "icmpv6 type { nd-router-solicit, nd-router-advert, nd-neighbor-solicit, \
                 nd-neighbor-advert, mld-listener-query, mld-listener-report, \
                 mld-listener-done, mld2-listener-report } accept",
                // DHCP's client, DHCPv6's, and the time.
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

    /// What may pass through this host, without the last rule, which refuses.
    pub(super) fn forward(&self, tunnel: &str) -> Vec<String> {
        let mut rules = vec![format!("oifname \"{tunnel}\" accept")];
        // Ports that somebody forwards from a link to the LAN.
        for by in self.answers() {
            rules.push(format!("{by} ct status dnat {TCP_ANSWER} accept"));
            rules.push(format!("{by} ct status dnat meta l4proto udp accept"));
        }
        rules.extend(self.to_lan());
        rules
    }

    /// What belongs to a call that came in by the link that it leaves by.
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

/// Not what begins a connection, which both ends may do at once.
const TCP_ANSWER: &str = "tcp flags & (syn | ack) != syn";

/// The texts of each IP version, joined as elements of a set.
fn by_family(
    found: impl Iterator<Item = (IpAddr, String)>,
) -> impl Iterator<Item = (&'static str, String)> {
    let (v4, v6): (Vec<_>, Vec<_>) = found.partition(|(address, _)| address.is_ipv4());
    [("ip", v4), ("ip6", v6)].into_iter().filter(|(_, of)| !of.is_empty()).map(|(family, of)| {
        let texts: Vec<String> = of.into_iter().map(|(_, text)| text).collect();
        (family, texts.join(", "))
    })
}
