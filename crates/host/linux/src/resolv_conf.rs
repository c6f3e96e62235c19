//! This host's name servers, wherever they are configured.

use std::fs;
use std::net::IpAddr;

/// The file that programs use (resolv.conf(5)): a plain file, one that a DHCP client writes, a link
/// to either.
pub const FILE: &str = "/etc/resolv.conf";
/// Where a local resolver's own name servers are listed: systemd-resolved, NetworkManager,
/// resolvconf, OpenWrt.
const BEHIND: [&str; 5] = [
    "/run/systemd/resolve/resolv.conf",
    "/run/NetworkManager/no-stub-resolv.conf",
    "/run/dnsmasq/resolv.conf",
    "/run/resolvconf/resolv.conf",
    "/tmp/resolv.conf.d/resolv.conf.auto",
];
/// glibc uses at most three (`MAXNS`); each file may have different ones.
const MOST: usize = 8;

/// The name servers outside this host. Reread each time, as a DHCP client may change them at any
/// moment.
pub fn name_servers() -> Vec<IpAddr> {
    let read =
        |file: &str| fs::read_to_string(file).map(|text| servers_in(&text)).unwrap_or_default();
    choose(read(FILE), || BEHIND.into_iter().flat_map(read).collect())
}

/// The servers in the first file; if one is a local resolver, the servers that it uses.
fn choose(named: Vec<IpAddr>, behind: impl FnOnce() -> Vec<IpAddr>) -> Vec<IpAddr> {
    let here = |address: &IpAddr| address.is_loopback() || address.is_unspecified();
    let mut all = named.clone();
    if named.iter().any(here) {
        all.extend(behind());
    }
    let mut found: Vec<IpAddr> = Vec::new();
    for address in all {
        if !here(&address) && !found.contains(&address) && found.len() < MOST {
            found.push(address);
        }
    }
    found
}

/// Parses such a file. Addresses with a zone are left out, as they depend on the device.
pub fn servers_in(text: &str) -> Vec<IpAddr> {
    let mut servers = Vec::new();
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        if words.next() == Some("nameserver") {
            servers.extend(words.next().and_then(|word| word.parse::<IpAddr>().ok()));
        }
    }
    servers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ips(texts: &[&str]) -> Vec<IpAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn servers_are_read_as_the_c_library_does() {
        let text = "# nameserver 192.0.2.9\nsearch lan\nnameserver 192.168.1.1\n\
                    nameserver\t2001:db8::1 # here\nnameserver fe80::1%eth0\nnameserver nonsense\n";
        assert_eq!(servers_in(text), ips(&["192.168.1.1", "2001:db8::1"]));
    }

    #[test]
    fn behind_a_resolver_of_this_host_are_others() {
        let behind = || ips(&["192.168.1.1", "192.168.1.1", "127.0.0.1"]);
        assert_eq!(choose(ips(&["127.0.0.53"]), behind), ips(&["192.168.1.1"]));
        assert_eq!(choose(ips(&["9.9.9.9"]), behind), ips(&["9.9.9.9"]));
    }

    proptest::proptest! {
        #[test]
        fn anything_is_read(text: String, words in "(nameserver[ \t]+[0-9a-f.:%]{0,40}[\n ]){0,12}") {
            servers_in(&text);
            let all = choose(servers_in(&words), || servers_in(&text));
            assert!(all.len() <= MOST && !all.iter().any(|address| address.is_loopback()));
        }
    }
}
