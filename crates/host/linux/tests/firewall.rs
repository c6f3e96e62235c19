//! The concentrator's firewall with real traffic: a host behind the tunnel,
//! the concentrator, a host outside.

mod namespaces;

use braid_linux::netlink::Netlink;
use braid_linux::netns::NetNs;
use braid_linux::nft::{self, Firewall, KillSwitch, PortForward, Transport};
use namespaces::namespace;
use std::net::UdpSocket;
use std::process::Command;
use std::time::Duration;

#[test]
fn inner_hosts_go_out_under_our_address_and_forwarded_ports_come_in() {
    with_concentrator(|home, outside| {
        let firewall = Firewall {
            interface: "tunnel".into(),
            masquerade: vec!["10.99.0.0/24".parse().unwrap()],
            forwards: vec![PortForward {
                transport: Transport::Udp,
                address: None,
                ports: (8000, 8001),
                to: "10.99.0.2".parse().unwrap(),
                to_port: Some(9000),
            }],
            ..Firewall::default()
        };
        let inner = home.run(|| socket("10.99.0.2:9000")).unwrap();
        let outer = outside.run(|| socket("192.0.2.1:7000")).unwrap();

        outer.send_to(b"in", "192.0.2.254:8000").unwrap();
        assert!(hears_nothing(&inner), "no port is forwarded yet");
        nft::replace(&firewall.table().unwrap()).unwrap();

        inner.send_to(b"out", "192.0.2.1:7000").unwrap();
        assert_eq!(heard(&outer), Some(("out".into(), "192.0.2.254".into())));
        // Another source port, so that it isn't taken for a reply to the above.
        let caller = outside.run(|| socket("192.0.2.1:7001")).unwrap();
        caller.send_to(b"in", "192.0.2.254:8001").unwrap();
        assert_eq!(heard(&inner), Some(("in".into(), "192.0.2.1".into())));
    });
}

#[test]
fn the_kill_switch_lets_only_the_tunnels_own_datagrams_out() {
    with_concentrator(|home, outside| {
        let links = vec![("wan".into(), vec!["192.0.2.254".parse().unwrap()])];
        let firewall = Firewall {
            interface: "tunnel".into(),
            kill_switch: Some(KillSwitch { links, ..KillSwitch::default() }),
            ..Firewall::default()
        };
        let outer = outside.run(|| socket("192.0.2.1:7000")).unwrap();
        let (own, inner) =
            (socket("192.0.2.254:7000"), home.run(|| socket("10.99.0.2:9000")).unwrap());
        own.send_to(b"open", "192.0.2.1:7000").unwrap();
        assert!(heard(&outer).is_some());
        nft::replace(&firewall.table().unwrap()).unwrap();

        // From another port, since packets of an existing connection keep its direction.
        let other = outside.run(|| socket("192.0.2.1:7002")).unwrap();
        assert!(own.send_to(b"leak", "192.0.2.1:7002").is_err(), "refused by the firewall");
        inner.send_to(b"leak", "192.0.2.1:7002").unwrap();
        assert!(hears_nothing(&other));
        other.send_to(b"ask", "192.0.2.254:7000").unwrap();
        assert!(heard(&own).is_some());
        own.send_to(b"answer", "192.0.2.1:7002").unwrap();
        assert_eq!(heard(&other).map(|(said, _)| said), Some("answer".into()));
    });
}

/// Runs a test on the concentrator: `tunnel` leads home, `wan` outside.
fn with_concentrator(test: impl FnOnce(&NetNs, &NetNs) + Send) {
    let (Some(home), Some(middle), Some(outside)) = (namespace(), namespace(), namespace()) else {
        return;
    };
    let prepare = || {
        let mut netlink = Netlink::open().unwrap();
        netlink.add_veth("tunnel", "home0", Some(&home)).unwrap();
        netlink.add_veth("wan", "outside0", Some(&outside)).unwrap();
        set_up("tunnel", "10.99.0.1/24");
        set_up("wan", "192.0.2.254/24");
        home.run(|| {
            set_up("home0", "10.99.0.2/24");
            ip("route add default via 10.99.0.1");
        })
        .unwrap();
        outside
            .run(|| {
                set_up("outside0", "192.0.2.1/24");
                ip("route add 10.99.0.0/24 via 192.0.2.254");
            })
            .unwrap();
        std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap();
        test(&home, &outside);
    };
    middle.run(prepare).unwrap();
}

fn set_up(interface: &str, address: &str) {
    ip(&format!("addr add {address} dev {interface}"));
    ip(&format!("link set {interface} up"));
}

fn socket(address: &str) -> UdpSocket {
    UdpSocket::bind(address).unwrap()
}

/// What arrives, and from which address. On a busy machine new interfaces and neighbour discovery
/// take some time.
fn heard(socket: &UdpSocket) -> Option<(String, String)> {
    heard_within(socket, Duration::from_secs(20))
}

fn hears_nothing(socket: &UdpSocket) -> bool {
    heard_within(socket, Duration::from_millis(500)).is_none()
}

fn heard_within(socket: &UdpSocket, patience: Duration) -> Option<(String, String)> {
    socket.set_read_timeout(Some(patience)).unwrap();
    let mut bytes = [0; 100];
    let (len, from) = socket.recv_from(&mut bytes).ok()?;
    Some((String::from_utf8_lossy(&bytes[..len]).into_owned(), from.ip().to_string()))
}

fn ip(arguments: &str) {
    let status = Command::new("ip").args(arguments.split(' ')).status().unwrap();
    assert!(status.success(), "ip {arguments}");
}
