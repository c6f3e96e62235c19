//! Redirects TCP connections through the tunnel to a proxy on this host, which splits them.

use super::chain;
use braid_engines::FirewallTable;

/// Where connections are redirected to be split, and how the proxy's packets are recognised. It has
/// its own table, so that a kernel without tproxy lacks only this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Split {
    /// Port of the proxy, on the loopback addresses, for connections into the tunnel.
    pub into: u16,
    /// Port for connections out of it.
    pub out_of: u16,
    /// Whether it also listens on IPv6.
    pub v6: bool,
    /// Mark of its sockets toward the tunnel.
    pub tunnel_mark: u32,
    /// Mark of its sockets toward clients and servers.
    pub outer_mark: u32,
    /// Mark of packets delivered to this host, whatever their destination.
    pub local_mark: u32,
}

/// A connection's first packet.
const SYN: &str = "tcp flags & (fin | syn | rst | ack) == syn";

/// The table's name for an interface; no interface name contains a slash.
pub fn split_table(interface: &str) -> String {
    format!("{interface}/split")
}

impl Split {
    /// The table for the tunnel of this interface. Packets with a mark in the bits `elsewhere`
    /// don't take the tunnel, whatever device the chains see; those with the mark `refused` there
    /// are refused (0 if nothing is refused).
    pub fn firewall_table(&self, interface: &str, elsewhere: u32, refused: u32) -> FirewallTable {
        let arriving = self.arriving(interface, elsewhere, refused);
        let chains = [arriving, self.sent(interface, elsewhere)];
        let chains: String = chains.into_iter().flatten().collect();
        FirewallTable::of(split_table(interface), &chains)
    }

    /// After NAT, so that clients and servers have their own addresses.
    fn arriving(&self, tunnel: &str, elsewhere: u32, refused: u32) -> Option<String> {
        // Packets for the proxy or its connections aren't forwarded, so nothing else would refuse
        // them.
        let to_be_refused = (refused != 0)
            .then(|| format!("meta mark & {elsewhere:#x} == {refused:#x} reject with tcp reset"));
        let rules = [
            format!("{SYN} goto first_packet"),
            // Not by socket marks: the kernel has no socket for a connection that is opening or has
            // closed.
            format!("socket transparent 1 meta mark set {:#x} accept", self.local_mark),
            // For connections of a proxy that no longer exists.
            format!("ct mark {:#x} ct direction original reject with tcp reset", self.local_mark),
        ];
        // ICMP errors about the proxy's packets (path MTU, unreachable). Their destination address
        // also leads elsewhere.
        let errors = format!(
            "meta l4proto {{ icmp, icmpv6 }} socket transparent 1 meta mark set {:#x} accept",
            self.local_mark
        );
        let first = [errors, "meta l4proto != tcp return".to_owned()];
        let rules = first.into_iter().chain(to_be_refused).chain(rules);
        chain("arriving", "filter", "prerouting", "dstnat + 10", rules)
            .map(|text| self.first_packet(tunnel) + &text)
    }

    fn first_packet(&self, tunnel: &str) -> String {
        let mut rules = vec![
            // From home to home: this host is neither's end.
            format!("iifname \"{tunnel}\" fib daddr . mark oifname \"{tunnel}\" return"),
        ];
        let own = format!("iifname \"lo\" meta mark {:#x}", self.local_mark);
        let into = format!("iifname != \"{tunnel}\" fib daddr . mark oifname \"{tunnel}\"");
        let out_of = format!("iifname \"{tunnel}\" ct mark set {:#x}", self.local_mark);
        for (matched, port) in [(own, self.into), (into, self.into), (out_of, self.out_of)] {
            let versions = [("ip", "127.0.0.1"), ("ip6", "[::1]")];
            for (version, address) in versions.into_iter().take(1 + usize::from(self.v6)) {
                let nfproto = if version == "ip" { "ipv4" } else { "ipv6" };
                rules.push(format!(
                    "meta nfproto {nfproto} meta l4proto tcp {matched} tproxy {version} to {address}:{port} \
                     meta mark set {:#x} accept",
                    self.local_mark
                ));
            }
        }
        let rules: String = rules.iter().map(|rule| format!("\t\t{rule}\n")).collect();
        format!("\tchain first_packet {{\n{rules}\t}}\n")
    }

    /// Packets that this host itself sends into the tunnel come back in through `lo`.
    fn sent(&self, tunnel: &str, elsewhere: u32) -> Option<String> {
        let Split { tunnel_mark, outer_mark, local_mark, .. } = self;
        let elsewhere = format!("meta mark & {elsewhere:#x} != 0 return");
        let rules = [
            "meta l4proto != tcp return".to_owned(),
            // A server on this host replies to the client's address, which is routed elsewhere:
            // packets of the proxy's connections are recognised by their mark.
            format!(
                "oifname \"lo\" meta mark {outer_mark:#x} ct direction original ct mark 0 \
                 ct mark set {outer_mark:#x}"
            ),
            format!("meta mark {{ {tunnel_mark:#x}, {outer_mark:#x} }} return"),
            elsewhere,
            format!(
                "ct direction reply ct mark {outer_mark:#x} meta mark set {local_mark:#x} return"
            ),
            format!("ct direction original oifname \"{tunnel}\" meta mark set {local_mark:#x}"),
        ];
        chain("sent", "route", "output", "mangle", rules.into_iter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_has_its_port_and_own_sockets_pass() {
        let split = Split {
            into: 1001,
            out_of: 1002,
            v6: true,
            tunnel_mark: 0xa,
            outer_mark: 0xb,
            local_mark: 0xc,
        };
        let text = split.firewall_table("braid0", 0x7f00_0000, 0x7f00_0000).ruleset;
        assert!(text.starts_with("table inet braid_braid0.2fsplit {"), "{text}");
        let count = |part: &str| text.matches(part).count();
        assert_eq!((count("127.0.0.1:1001"), count("[::1]:1001")), (2, 2), "{text}");
        assert_eq!((count("127.0.0.1:1002"), count("[::1]:1002")), (1, 1), "{text}");
        assert_eq!(count("meta mark { 0xa, 0xb } return"), 1);
        // ICMP errors reach the proxy before the rule that lets everything except TCP pass.
        let place = |part: &str| text.find(part).unwrap();
        assert!(place("icmpv6 } socket transparent 1") < place("meta l4proto != tcp return"));
        let without_v6 = Split { v6: false, ..split }.firewall_table("braid0", 0, 0).ruleset;
        assert_eq!(without_v6.matches("ip6").count(), 0);
    }
}
