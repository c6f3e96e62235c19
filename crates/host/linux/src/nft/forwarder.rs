//! Redirects DNS queries, whatever server they are for, to a forwarder on this host, and passes
//! copies of connections' first packets, which contain the server's name, to a reader.

use std::net::IpAddr;

/// Where the forwarder listens, on addresses of the tunnel's device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameForwarder {
    /// Its addresses, at most one of each IP version.
    pub addresses: Vec<IpAddr>,
    /// Its port, for UDP and TCP.
    pub port: u16,
    /// Mark of its own queries.
    pub mark: u32,
    /// The nfnetlink_log group that receives first packets, if there is a reader.
    pub heard_by: Option<u16>,
}

/// At most this much of a packet is copied; a client's first message has some 2 KB.
pub const HEARD_BYTES: u32 = 9_000;
/// Which of a connection's packets: a TCP handshake, and a first message in several segments,
/// retransmitted once.
const HEARD_PACKETS: &str = "1-12";

const QUESTIONS: &str = "meta l4proto { tcp, udp } th dport 53";

impl NameForwarder {
    /// Queries of this host; `spared` matches those that aren't redirected.
    pub(super) fn of_host(&self, spared: &str) -> Vec<String> {
        let mark = self.mark;
        let mut rules = vec![format!("meta mark {mark:#x} return"), format!("{spared} return")];
        rules.extend(self.translated(""));
        rules
    }

    /// Queries that don't come in over a link and aren't for a resolver on this host, whose own
    /// queries are redirected anyway.
    pub(super) fn of_others(&self, tunnel: &str, links: &[String]) -> Vec<String> {
        let outside: String = links.iter().map(|link| format!(", \"{link}\"")).collect();
        self.translated(&format!("iifname != {{ \"{tunnel}\", \"lo\"{outside} }} ")).collect()
    }

    /// Before source NAT. TLS and QUIC on their standard port.
    pub(super) fn heard(&self, tunnel: &str, links: &[String], own: &[u32]) -> Vec<String> {
        let Some(group) = self.heard_by else { return Vec::new() };
        let outside: String = links.iter().map(|link| format!(", \"{link}\"")).collect();
        let own: Vec<String> = own.iter().map(|mark| format!("{mark:#x}")).collect();
        let own = own.join(", ");
        vec![
            format!("oifname != {{ \"{tunnel}\"{outside} }} return"),
            format!("meta mark {{ {own} }} return"),
            format!(
                "ct direction original ct original packets {HEARD_PACKETS} \
                 meta l4proto {{ tcp, udp }} th dport 443 \
                 log group {group} snaplen {HEARD_BYTES} queue-threshold 1"
            ),
        ]
    }

    /// Exceptions in a kill switch, which sees the device from before NAT.
    pub(super) fn let_out(&self) -> impl Iterator<Item = String> {
        self.brought_here().map(|brought| format!("{brought} accept"))
    }

    /// Therefore the real outgoing device is checked later: after a crash nothing has the
    /// forwarder's address.
    pub(super) fn only_here(&self) -> impl Iterator<Item = String> {
        self.brought_here().map(|brought| format!("oifname != \"lo\" {brought} drop"))
    }

    fn brought_here(&self) -> impl Iterator<Item = String> {
        self.addresses.iter().map(|address| {
            let (family, port) = (super::family(*address), self.port);
            let asked = "meta l4proto { tcp, udp } th dport";
            format!("ct status dnat {family} daddr {address} {asked} {port}")
        })
    }

    fn translated(&self, who: &str) -> impl Iterator<Item = String> {
        self.addresses.iter().map(move |address| {
            let (family, port) = (super::family(*address), self.port);
            let (version, to) = match address {
                IpAddr::V4(address) => ("ipv4", format!("{address}:{port}")),
                IpAddr::V6(address) => ("ipv6", format!("[{address}]:{port}")),
            };
            let elsewhere = "fib daddr type != local";
            format!("{who}meta nfproto {version} {elsewhere} {QUESTIONS} dnat {family} to {to}")
        })
    }
}
