//! A network that wants a login first: all is dropped, and whoever asks for a page is sent to the
//! hotel's.

use crate::ruled::{BY_WAN1, TUNNEL, ruled_world, serve, start, whoami, write};
use crate::world::{assert_unchanged, settled_state};
use braid_linux::netns::NetNs;
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;

const PAGE: &str = "http://192.0.2.80:8080/login";
const AT: &str = "192.0.2.80";
const ELSEWHERE: &str = "192.0.2.90";
const HOTEL: &str = "nft -f - <<'END'
table inet hotel {
    chain pages {
        type nat hook prerouting priority dstnat
        iifname isp1 tcp dport 80 dnat ip to 192.0.2.80:8080
    }
    chain guests {
        type filter hook prerouting priority filter
        iifname isp1 ip daddr != 192.0.2.80 drop
        iifname isp1 meta nfproto ipv6 drop
    }
}
END";
const KILL_SWITCH: &str = "when_concentrator_gone = \"block\"";

#[test]
fn a_login_is_said_to_be_wanted_and_one_command_opens_the_way_there() {
    let Some((mut world, lan)) = ruled_world() else { return };
    let before = settled_state(&world.home.namespace);
    world.in_internet("ip addr add 192.0.2.80/32 dev lo; ip addr add 192.0.2.90/32 dev lo");
    send_to_login(&world.internet);
    serve(&world.internet, "192.0.2.80:444");
    serve(&world.internet, "192.0.2.90:444");
    start(&mut world, "", "");
    for routing in ["", KILL_SWITCH] {
        write(&world, routing, "");
        world.home.braid_ok(&["reload"]);
        let refused = world.home.braid(&["link", "login", "wan1"]);
        assert!(!refused.status.success(), "it works");
        world.in_internet(HOTEL);
        let wan1 = || world.home.status()["links"][0].clone();
        let is_cut = || wan1()["portal"] == PAGE;
        if routing.is_empty() {
            world.home.wait_until("the login is noticed", is_cut);
            assert!(wan1()["trouble"].as_str().unwrap().contains("requires a login"), "{}", wan1());
            assert_eq!(whoami(&lan, AT, 444).unwrap(), TUNNEL, "nobody asked to go there");
        } else {
            world.home.wait_for_active_paths(1);
        }
        let said = world.home.braid_ok(&["link", "login", "wan1", "--json"]);
        let said: Value = serde_json::from_slice(&said).unwrap();
        assert_eq!(said["portal"], PAGE);
        world.home.wait_until("the way is open", || {
            whoami(&lan, AT, 444).is_ok_and(|seen| seen == BY_WAN1)
        });
        let home = world.home.namespace.run(NetNs::current).unwrap().unwrap();
        assert_eq!(whoami(&home, AT, 444).unwrap(), BY_WAN1);
        assert_eq!(whoami(&lan, ELSEWHERE, 444).unwrap(), TUNNEL, "to nowhere else");
        world.in_internet("nft delete table inet hotel");
        world.home.wait_for_active_paths(2);
        world.home.wait_until("all is as before", || {
            wan1()["portal"].is_null() && whoami(&lan, AT, 444).is_ok_and(|seen| seen == TUNNEL)
        });
    }
    world.home.stop();
    assert_unchanged(&world.home.namespace, &before);
}

/// Whatever page is asked for.
fn send_to_login(namespace: &NetNs) {
    let listener = namespace.run(|| TcpListener::bind("192.0.2.80:8080").unwrap()).unwrap();
    std::thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            let mut lines = BufReader::new(&stream).lines();
            while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
            let _ = write!(&stream, "HTTP/1.1 302 Found\r\nLocation: {PAGE}\r\n\r\n");
        }
    });
}
