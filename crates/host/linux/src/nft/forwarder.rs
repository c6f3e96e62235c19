//! Brings questions for names, whichever server they are for, to a forwarder on this host.

use std::net::IpAddr;

/// Where the forwarder is, on addresses of the tunnel's device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameForwarder {
    /// Its addresses, at most one of each IP version.
    pub addresses: Vec<IpAddr>,
    /// Its port, for UDP and TCP.
    pub port: u16,
    /// Marks its own questions.
    pub mark: u32,
}

const QUESTIONS: &str = "meta l4proto { tcp, udp } th dport 53";

impl NameForwarder {
    /// What this host asks of others; `spared` matches what goes where it is sent.
    pub(super) fn of_host(&self, spared: &str) -> Vec<String> {
        let mark = self.mark;
        let mut rules = vec![format!("meta mark {mark:#x} return"), format!("{spared} return")];
        rules.extend(self.translated(""));
        rules
    }

    /// What comes in by no link, and isn't for a resolver on this host: that one asks, too.
    pub(super) fn of_others(&self, tunnel: &str, links: &[String]) -> Vec<String> {
        let outside: String = links.iter().map(|link| format!(", \"{link}\"")).collect();
        self.translated(&format!("iifname != {{ \"{tunnel}\", \"lo\"{outside} }} ")).collect()
    }

    /// What a kill switch lets out: the device that it sees is the one before the translation.
    pub(super) fn let_out(&self) -> impl Iterator<Item = String> {
        self.addresses.iter().map(|address| {
            let (family, port) = (super::family(*address), self.port);
            let asked = "meta l4proto { tcp, udp } th dport";
            format!("ct status dnat {family} daddr {address} {asked} {port} accept")
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
