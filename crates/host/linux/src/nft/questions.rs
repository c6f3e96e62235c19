//! Resets tracked DNS connections when their redirection changes. The kernel translates all packets
//! of a connection like its first one until it times out: a client that always asks from the same
//! port would keep asking a forwarder that no longer exists.

use super::learnt::{Key, key};
use crate::netlink::{Tracked, forget_each, tracked_connections};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, PoisonError};

/// The redirecting rules of tables, as far as this process installed them.
static REDIRECTED: Mutex<BTreeMap<Key, Vec<String>>> = Mutex::new(BTreeMap::new());

const UDP: u8 = 17;
const DNS: u16 = 53;

/// Call it after an interface's table was replaced by one with these rules: the next query of each
/// connection follows them.
pub(super) fn redirected_by(interface: &str, rules: &[String]) {
    let mut redirected = REDIRECTED.lock().unwrap_or_else(PoisonError::into_inner);
    // The rules of another process, which may have crashed, aren't known.
    if redirected.get(&key(interface)).is_some_and(|before| before == rules) {
        return;
    }
    redirected.insert(key(interface), rules.to_vec());
    // If that fails (other than on a kernel without connection tracking), they stay until they time
    // out.
    let _ = begin_anew();
}

/// TCP connections end with the server.
fn begin_anew() -> io::Result<()> {
    let mut questions: Vec<Tracked> = Vec::new();
    tracked_connections(|it| {
        if it.protocol == UDP && it.original.dst.1 == DNS {
            questions.push(it);
        }
    })?;
    forget_each(&questions)
}

#[cfg(test)]
mod tests {
    use super::super::{Firewall, NameForwarder, delete, replace};
    use crate::netlink::Netlink;
    use crate::netns::NetNs;
    use std::net::UdpSocket;
    use std::time::Duration;

    /// A host that asks a name server from one port while a forwarder comes and goes.
    #[test]
    fn who_asks_from_one_port_asks_whom_the_table_says() {
        let (Ok(host), Ok(other)) = (NetNs::new(), NetNs::new()) else {
            eprintln!("skipped: network namespaces need root or a user namespace");
            return;
        };
        let mut netlink = host.run(Netlink::open).unwrap().unwrap();
        netlink.add_veth("w1", "c1", Some(&other)).unwrap();
        let script = |of: &NetNs, script: &str| {
            assert!(of.command("sh").args(["-ec", script]).status().unwrap().success(), "{script}");
        };
        script(&host, "ip link set lo up; ip addr add 10.1.0.2/24 dev w1; ip link set w1 up");
        // Either with another firewall present, or connections aren't tracked while our table
        // doesn't exist.
        let firewall = "type nat hook output priority 0; ct state new counter";
        script(&host, &format!("nft 'table inet others {{ chain output {{ {firewall}; }}; }}'"));
        script(&other, "ip addr add 10.1.0.1/24 dev c1; ip link set c1 up");
        let server = other.run(|| UdpSocket::bind("10.1.0.1:53")).unwrap().unwrap();
        let (forwarder, client) = host
            .run(|| (UdpSocket::bind("10.1.0.2:5300"), UdpSocket::bind("10.1.0.2:4000")))
            .unwrap();
        let (forwarder, client) = (forwarder.unwrap(), client.unwrap());
        let asks = |whom: &UdpSocket, when: &str| {
            client.send_to(b"?", "10.1.0.1:53").unwrap();
            whom.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            whom.recv(&mut [0; 9]).unwrap_or_else(|error| panic!("{when}: {error}"));
        };
        let table = |mark| {
            let forwarder = NameForwarder {
                addresses: vec!["10.1.0.2".parse().unwrap()],
                port: 5300,
                mark,
                heard_by: None,
            };
            let interface = "names0".to_owned();
            Firewall { interface, forwarder: Some(forwarder), ..Firewall::default() }
        };
        asks(&server, "no table");
        host.run(|| replace(&table(7).table().unwrap())).unwrap().unwrap();
        asks(&forwarder, "a forwarder came");
        host.run(|| replace(&table(8).table().unwrap())).unwrap().unwrap();
        asks(&forwarder, "it is another");
        host.run(|| delete("names0")).unwrap().unwrap();
        asks(&server, "it went");
        host.run(|| replace(&table(7).table().unwrap())).unwrap().unwrap();
        asks(&forwarder, "it is back");
        // As another process would after a crash of this one.
        script(&host, "nft delete table inet braid_names0");
        super::REDIRECTED.lock().unwrap().clear();
        host.run(|| delete("names0")).unwrap().unwrap();
        asks(&server, "what a crash left is gone");
    }
}
