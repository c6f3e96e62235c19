//! Connections that come in by a link while the tunnel is the default route: port
//! forwards of the home's router, and services on it.

use crate::world::{Uplink, World, assert_unchanged, settled_state, sh};
use braid_linux::netns::NetNs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

/// Forwards port 8080 of every uplink to the LAN's host, and lets only what has the
/// program's own mark through, as other programs' firewalls do.
const FORWARDS: &str = r#"nft -f - <<'END'
table inet theirs {
    chain dstnat {
        type nat hook prerouting priority dstnat;
        iifname "wan*" meta l4proto { tcp, udp } th dport 8080 dnat ip to 192.168.7.2:80
        iifname "wan*" meta l4proto { tcp, udp } th dport 8080 dnat ip6 to [fd00:77::2]:80
    }
    chain marks {
        type filter hook prerouting priority mangle;
        iifname "wan*" ct mark set ct mark | 0x2a
        ct mark & 0xff == 0x2a meta mark set meta mark | 0x2a
    }
    chain forward {
        type filter hook forward priority filter; policy accept;
        iifname "lan0" ct direction reply meta mark & 0xff != 0x2a drop
        ct mark & 0xff != 0x2a ct direction reply drop
    }
}
END"#;

/// firewalld's check of the way back by IPv6 (`IPv6_rpfilter=yes`), and the kernel's by IPv4.
const STRICT: &str = r#"for f in all lan0 wan1 wan2; do echo 1 > /proc/sys/net/ipv4/conf/$f/rp_filter; done
nft -f - <<'END'
table inet firewalld {
    chain filter_PREROUTING {
        type filter hook prerouting priority filter + 10; policy accept;
        icmpv6 type { nd-router-advert, nd-neighbor-solicit } accept
        meta nfproto ipv6 fib saddr . mark . iif oif missing drop
    }
}
END"#;

/// As Docker has it: nothing is forwarded but what it published.
pub const DOCKER: &str = "for t in iptables ip6tables; do
    $t -P FORWARD DROP; $t -N DOCKER-USER; $t -A FORWARD -j DOCKER-USER
    $t -A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
    $t -A FORWARD -o lan0 -p tcp --dport 80 -j ACCEPT
    $t -A FORWARD -o lan0 -p udp --dport 80 -j ACCEPT
done";

#[test]
fn answers_leave_by_the_link_that_the_question_came_by() {
    let Some((mut world, lan)) = world_with_lan() else { return };
    world.home.sh(FORWARDS);
    check(&mut world, &lan);
}

#[test]
fn answers_pass_strict_checks_of_the_way_back() {
    let Some((mut world, lan)) = world_with_lan() else { return };
    world.home.sh(FORWARDS);
    world.home.sh(STRICT);
    check(&mut world, &lan);
}

#[test]
fn answers_pass_a_firewall_like_dockers() {
    let Some((mut world, lan)) = world_with_lan() else { return };
    if world.home.namespace.command("iptables").arg("--version").output().is_err() {
        eprintln!("SKIPPED: iptables is not installed (try: apt install iptables)");
        return;
    }
    world.home.sh(FORWARDS);
    world.home.sh(DOCKER);
    check(&mut world, &lan);
}

fn check(world: &mut World, lan: &NetNs) {
    let servers = [
        serve(lan, "192.168.7.2:80"),
        serve(lan, "[fd00:77::2]:80"),
        serve(&world.home.namespace, "[::]:9090"),
    ];
    serve_udp(lan, "192.168.7.2:80");
    serve_udp(lan, "[fd00:77::2]:80");
    let every_way = |world: &World| {
        for n in [1, 2] {
            for port in [8080, 9090] {
                ask(&world.internet, &format!("10.1.{n}.2:{port}"));
                ask(&world.internet, &format!("[fd00:{n}::2]:{port}"));
            }
            ask_udp(&world.internet, &format!("10.1.{n}.2:8080"));
            ask_udp(&world.internet, &format!("[fd00:{n}::2]:8080"));
        }
    };
    // Without the tunnel the second uplink is no way for answers; the first is.
    ask(&world.internet, "10.1.1.2:8080");
    ask(&world.internet, "[fd00:1::2]:8080");
    let before = settled_state(&world.home.namespace);
    world.write_configs(2, "default_route = true\nmasquerade = true", "masquerade = true");
    world.concentrator.start();
    world.home.start();
    world.home.wait_for_active_paths(2);
    every_way(world);
    // A link that goes takes its own connections with it, no others, and returns.
    world.home.sh("ip link set wan1 down");
    world.home.wait_for_active_paths(1);
    ask(&world.internet, "10.1.2.2:8080");
    world.home.sh("ip link set wan1 up; ip addr add fd00:1::2/64 dev wan1 nodad
         ip route replace default via 10.1.1.1 metric 10
         ip route replace default via fd00:1::1 metric 10");
    world.home.wait_for_active_paths(2);
    every_way(world);
    world.home.stop();
    assert_unchanged(&world.home.namespace, &before);
    drop(servers);
}

pub fn world_with_lan() -> Option<(World, NetNs)> {
    let world = World::new(&[Uplink::Static, Uplink::Static])?;
    // Asked from an address that isn't beside the home.
    for n in [1, 2] {
        world.in_internet(&format!(
            "ip route add 10.1.{n}.2/32 dev isp{n} src 192.0.2.1
             ip route add fd00:{n}::2/128 dev isp{n} src 2001:db8:ffff::1"
        ));
    }
    let lan = world.add_lan();
    Some((world, lan))
}

/// Answers `pong` to everybody, until the listener is dropped.
pub fn serve(namespace: &NetNs, address: &str) -> TcpListener {
    let listener = namespace.run(|| TcpListener::bind(address).unwrap()).unwrap();
    let accepting = listener.try_clone().unwrap();
    std::thread::spawn(move || {
        for stream in accepting.incoming() {
            // A client that went away needs no answer.
            let _ = stream.and_then(|mut stream| stream.write_all(b"pong"));
        }
    });
    listener
}

fn serve_udp(namespace: &NetNs, address: &str) {
    let socket = namespace.run(|| UdpSocket::bind(address).unwrap()).unwrap();
    std::thread::spawn(move || {
        let mut bytes = [0; 16];
        while let Ok((_, from)) = socket.recv_from(&mut bytes) {
            if socket.send_to(b"pong", from).is_err() {
                return;
            }
        }
    });
}

pub fn ask(namespace: &NetNs, address: &str) {
    let remote: SocketAddr = address.parse().unwrap();
    let ask = || {
        let mut stream = TcpStream::connect_timeout(&remote, Duration::from_secs(10))?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).map(|_| answer)
    };
    let answer = namespace.run(ask).unwrap();
    assert!(answer.as_ref().is_ok_and(|answer| answer == "pong"), "{address}: {answer:?}");
}

fn ask_udp(namespace: &NetNs, address: &str) {
    let ask = || {
        let any = if address.starts_with('[') { "[::]:0" } else { "0.0.0.0:0" };
        let socket = UdpSocket::bind(any)?;
        socket.connect(address)?;
        socket.set_read_timeout(Some(Duration::from_secs(1)))?;
        let mut bytes = [0; 16];
        // Datagrams may be lost while neighbours are looked for.
        let mut answer = Err(std::io::ErrorKind::TimedOut.into());
        for _ in 0..5 {
            socket.send(b"ping")?;
            answer = socket.recv(&mut bytes);
            if answer.is_ok() {
                break;
            }
        }
        answer
    };
    let answer = namespace.run(ask).unwrap();
    assert!(matches!(answer, Ok(4)), "{address} by UDP: {answer:?}");
}

#[test]
fn the_lan_reaches_the_internet_through_the_tunnel() {
    let Some((mut world, lan)) = world_with_lan() else { return };
    let servers = [serve(&world.internet, "192.0.2.1:80")];
    world.write_configs(2, "default_route = true\nmasquerade = true", "masquerade = true");
    world.concentrator.start();
    world.home.start();
    world.home.wait_for_active_paths(2);
    // What began before would keep the way and the address that it had.
    let by_tunnel = || world.home.status()["traffic"]["goes"] == "tunnel";
    world.home.wait_until("traffic takes the tunnel", by_tunnel);
    ask(&lan, "192.0.2.1:80");
    let by =
        sh(&world.concentrator.namespace, "cat /proc/net/dev | grep braid0 | awk '{print $3}'");
    assert_ne!(by.trim(), "0", "through the tunnel");
    drop(servers);
}
