use ipnet::IpNet;
use std::fmt::Write;

/// The nftables rules that redirect connections at home to the proxy. The other end needs none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// The proxy's port.
    pub port: u16,
    /// Mark of the proxy's own packets, which aren't redirected.
    pub mark: u32,
    /// Only connections to these networks are redirected; all if empty.
    pub toward: Vec<IpNet>,
}

impl Rules {
    /// The chains of a table of family `inet`, in nft's language.
    pub fn chains(&self) -> String {
        let mark = self.mark;
        let take = self.redirections();
        format!(
            "\tchain forwarded {{\n\
             \t\ttype nat hook prerouting priority dstnat; policy accept;\n\
             \t\tfib daddr type local return\n{take}\t}}\n\
             \tchain own {{\n\
             \t\ttype nat hook output priority -100; policy accept;\n\
             \t\tmeta mark {mark:#x} return\n\
             \t\tfib daddr type local return\n{take}\t}}\n"
        )
    }

    /// One rule per network, or one for all.
    fn redirections(&self) -> String {
        let rule = format!("meta l4proto tcp redirect to :{}", self.port);
        if self.toward.is_empty() {
            return format!("\t\t{rule}\n");
        }
        self.toward.iter().fold(String::new(), |mut text, net| {
            let family = if net.addr().is_ipv6() { "ip6" } else { "ip" };
            // Writing to a String can't fail.
            let _ = writeln!(text, "\t\t{family} daddr {net} {rule}");
            text
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_packets_pass_and_networks_limit() {
        let mut rules = Rules {
            port: 7,
            mark: 0xb1,
            toward: vec!["10.0.0.0/8".parse().unwrap(), "fd00::/8".parse().unwrap()],
        };
        let text = rules.chains();
        assert!(text.contains("meta mark 0xb1 return"), "{text}");
        assert_eq!(text.matches("ip daddr 10.0.0.0/8 meta l4proto tcp redirect to :7").count(), 2);
        assert_eq!(text.matches("ip6 daddr fd00::/8").count(), 2);
        rules.toward.clear();
        assert_eq!(rules.chains().matches("\t\tmeta l4proto tcp redirect to :7").count(), 2);
    }
}
