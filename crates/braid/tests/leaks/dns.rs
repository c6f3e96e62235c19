//! Names are found as long as any link works, whoever the name server is that
//! the host was given, and by nobody's eyes that shouldn't see it.

use crate::capture::Capture;
use crate::name_server::{NameServer, Resolver, ask};
use crate::network::{Network, SECRET_V4};
use crate::talk::query;
use braid_linux::netns::NetNs;
use std::net::Ipv4Addr;
use std::time::Duration;

/// What the name servers of the first link, the second, and the concentrator say.
const FIRST: &str = "192.0.2.1";
const SECOND: &str = "192.0.2.2";
const AT_CONCENTRATOR: &str = "192.0.2.53";
/// What the tests' hosts look up.
pub const ASKED: &str = "any";
/// The name server of the first link, which the host was given.
const GIVEN: &str = "10.1.0.1";

#[test]
fn names_are_found_while_any_link_works() {
    let Some(mut network) = Network::new() else { return };
    let _servers = servers(&network);
    let capture = Capture::start(&network.internet, &["c1", "c2", "c3"]);
    connect(&mut network, &[]);
    network.wait_until("the first link's answers", || found(&network.home, GIVEN) == Some(FIRST));
    asked(&capture);
    ask_often(&network, GIVEN);
    assert_eq!(asked(&capture), ["c1: 10.1.0.1"], "only whom the host was given, and by its link");

    unplug_first(&network);
    for host in [&network.home, &network.lan] {
        let answers = || found(host, GIVEN) == Some(AT_CONCENTRATOR);
        network.wait_until("the concentrator's answers in its place", answers);
    }
    asked(&capture);
    ask_often(&network, GIVEN);
    assert_eq!(asked(&capture), Vec::<String>::new(), "what is asked by the tunnel nobody sees");
    let told = String::from_utf8(network.braid_ok("home", &["status"]).stdout).unwrap();
    assert!(told.contains(GIVEN) && told.contains("10.77.0.1"), "{told}");
    network.signal("internet", "-KILL");
    for host in [&network.home, &network.lan] {
        let answers = || found(host, GIVEN) == Some(SECOND);
        network.wait_until("without the tunnel the second link's answers", answers);
    }
    asked(&capture);
    ask_often(&network, GIVEN);
    assert_eq!(asked(&capture), ["c2: 10.2.0.1"], "only the second link's, and by it");
    network.inside("internet", "ip link set c1 up");
    network.links_come();
    network.wait_until("the first link's answers again", || {
        found(&network.home, GIVEN) == Some(FIRST)
            && !network.inside("home", "nft list ruleset").contains("dport 53")
    });
    network.braid_ok("home", &["down"]);
    let left = network.inside("home", "nft list tables; ip route show table all");
    assert!(!left.contains("braid"), "{left}");
}

/// As with systemd-resolved, whose servers are not those of /etc/resolv.conf.
#[test]
fn names_are_found_behind_a_resolver_on_the_host_itself() {
    let Some(mut network) = Network::new() else { return };
    let _servers = servers(&network);
    const OWN: &str = "127.0.0.53";
    network.inside("home", "ip link set lo up");
    std::fs::write(network.resolv_conf("home"), format!("nameserver {OWN}\n")).unwrap();
    network.give_resolved(&format!("nameserver {GIVEN}\n"));
    let _resolver = Resolver::start(&network.home, OWN, GIVEN);
    connect(&mut network, &[]);
    network.wait_until("the first link's answers", || found(&network.home, OWN) == Some(FIRST));
    unplug_first(&network);
    network.wait_until("the concentrator's answers in its place", || {
        found(&network.home, OWN) == Some(AT_CONCENTRATOR)
    });
    network.signal("internet", "-KILL");
    network.wait_until("without the tunnel the second link's answers", || {
        found(&network.home, OWN) == Some(SECOND)
    });
    network.braid_ok("home", &["down"]);
}

#[test]
fn a_server_that_an_administrator_chose_is_asked_by_whatever_works() {
    let Some(mut network) = Network::new() else { return };
    let _chosen = NameServer::start(&network.internet, SECRET_V4, "192.0.2.80");
    std::fs::write(network.resolv_conf("home"), format!("nameserver {SECRET_V4}\n")).unwrap();
    network.join("203.0.113.1", &[]);
    network.start("internet");
    network.start("home");
    network.wait_until("the tunnel carries all", || {
        network.inside("home", "ip route show table all").contains("default dev braid0")
    });
    let capture = Capture::start(&network.internet, &["c1", "c2", "c3"]);
    let answers = |network: &Network, host: &NetNs| {
        network.wait_until("it answers", || found(host, SECRET_V4) == Some("192.0.2.80"));
    };
    answers(&network, &network.home);
    answers(&network, &network.lan);
    unplug_first(&network);
    answers(&network, &network.home);
    answers(&network, &network.lan);
    assert_eq!(asked(&capture), Vec::<String>::new(), "what is asked by the tunnel nobody sees");
    network.signal("internet", "-KILL");
    // The LAN's own addresses nobody knows out there.
    answers(&network, &network.home);
    network.braid_ok("home", &["down"]);
}

#[test]
fn around_a_kill_switch_nobody_is_asked() {
    let Some(mut network) = Network::new() else { return };
    let _servers = servers(&network);
    let _named = NameServer::start(&network.internet, SECRET_V4, "192.0.2.80");
    connect(&mut network, &["--kill-switch"]);
    let capture = Capture::start(&network.internet, &["c1", "c2", "c3"]);
    for host in [&network.home, &network.lan] {
        let answers = || found(host, GIVEN) == Some(AT_CONCENTRATOR);
        network.wait_until("the concentrator's answers", answers);
    }
    // As a DHCP client does.
    std::fs::write(network.resolv_conf("home"), "nameserver 10.2.0.1\n").unwrap();
    network.wait_until("still", || found(&network.home, "10.2.0.1") == Some(AT_CONCENTRATOR));

    network.edit("home", |text| {
        text.replace("[routing]\n", &format!("[routing]\ndns = [\"{SECRET_V4}\"]\n"))
    });
    network.braid_ok("home", &["reload"]);
    for host in [&network.home, &network.lan] {
        let answers = |asked| found(host, asked) == Some("192.0.2.80");
        network.wait_until("that of the config answers for all", || {
            answers("10.2.0.1") && answers("192.0.2.200")
        });
    }
    assert_eq!(capture.leaks(), Vec::<String>::new());
    network.edit("home", |text| text.replace(&format!("[\"{SECRET_V4}\"]"), "[]"));
    network.braid_ok("home", &["reload"]);
    network.wait_until("name servers are left alone", || {
        !network.inside("home", "nft list ruleset").contains("dport 53")
    });
}

/// The home joins, with these options, and is connected.
fn connect(network: &mut Network, options: &[&str]) {
    network.join("203.0.113.1", options);
    network.start("internet");
    network.start("home");
    network.wait_until("it connects", || network.connected());
}

/// Each heard only where it is: the first link's not through the tunnel.
fn servers(network: &Network) -> [NameServer; 3] {
    network.inside(
        "internet",
        "nft 'table inet where { chain input { type filter hook input priority 0; policy accept;
           iifname != c1 ip daddr 10.1.0.1 udp dport 53 drop
           iifname != c2 ip daddr 10.2.0.1 udp dport 53 drop
         }
         }'",
    );
    [("10.1.0.1", FIRST), ("10.2.0.1", SECOND), ("203.0.113.53", AT_CONCENTRATOR)]
        .map(|(on, answer)| NameServer::start(&network.internet, on, answer))
}

/// From host and LAN, some times.
fn ask_often(network: &Network, server: &str) {
    for host in [&network.home, &network.lan] {
        for _ in 0..5 {
            found(host, server);
        }
    }
}

/// Which name servers were seen to be asked since the last call, by which devices.
fn asked(capture: &Capture) -> Vec<String> {
    // What is still on its way into the capture.
    std::thread::sleep(Duration::from_millis(300));
    let leaks = capture.leaks().into_iter();
    let asked = leaks.filter_map(|leak| {
        let (device, who) = leak.split_once(": asks ")?;
        Some(format!("{device}: {}", who.strip_suffix(&format!(" for {ASKED}"))?))
    });
    asked.collect()
}

fn unplug_first(network: &Network) {
    network.inside("internet", "ip link set c1 down");
}

/// The address that a host finds, asking one name server.
fn found(host: &NetNs, server: &str) -> Option<&'static str> {
    let patience = Duration::from_millis(500);
    let reply = host.run(|| ask(server, &query(ASKED), patience)).unwrap().ok()?;
    let address = Ipv4Addr::from(*reply.last_chunk::<4>()?).to_string();
    [FIRST, SECOND, AT_CONCENTRATOR, "192.0.2.80"].into_iter().find(|known| *known == address)
}
