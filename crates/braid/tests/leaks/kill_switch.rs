//! `when_concentrator_gone = "block"`: nothing gets out but by the tunnel, from
//! before the links are there until `down`.

use crate::capture::Capture;
use crate::name_server::NameServer;
use crate::network::{ENDPOINT_NAME, Network, SECRET_V4, SECRET_V6};
use crate::talk::Talk;
use crate::wrong_clock::wrong_clock;
use braid_linux::netns::NetNs;
use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

#[test]
fn nothing_leaks_while_everything_fails_in_turn() {
    let Some(mut network) = Network::new() else { return };
    let names = NameServer::start(&network.internet, "10.1.0.1", "203.0.113.1");
    let (capture, _talk) = joined_with_leaks_seen(&mut network);
    network.start("home");
    network.links_come();
    network.wait_until("it finds the name and connects", || network.connected());
    for (secret, from) in [(SECRET_V4, "10.77.0."), (SECRET_V6, "fd77:")] {
        assert!(hears(&network.internet, secret).starts_with(from), "the tunnel carries it");
    }
    nothing_leaked(&capture, "starts before its links");

    network.inside(
        "home",
        "for net in 0.0.0.0/1 128.0.0.0/1; do ip route add $net via 10.1.0.1 dev w1; done
         for net in ::/1 8000::/1; do ip -6 route add $net via 2001:db8:1::1 dev w1; done",
    );
    nothing_leaked(&capture, "routes are injected by a link");
    network.inside(
        "home",
        "for net in 0.0.0.0/1 128.0.0.0/1; do ip route del $net; done
         for net in ::/1 8000::/1; do ip -6 route del $net; done
         ip route add 198.51.100.0/24 via 10.3.0.1 dev x1
         ip -6 route add 2001:db8:80::/64 via 2001:db8:3::1 dev x1",
    );
    nothing_leaked(&capture, "a route leads by a device that is no link");
    network.inside(
        "home",
        "ip route del 198.51.100.0/24; ip -6 route del 2001:db8:80::/64
         ip route add default via 10.3.0.1 dev x1 metric 1",
    );
    nothing_leaked(&capture, "a device that is no link has the best default route");

    network.braid_ok("home", &["restart"]);
    nothing_leaked(&capture, "another program goes on");
    network.wait_until("it connects again", || network.connected());
    network.signal("internet", "-KILL");
    network.wait_until("the concentrator is gone", || !network.connected());
    nothing_leaked(&capture, "the concentrator is gone");
    network.braid_ok("home", &["restart"]);
    nothing_leaked(&capture, "another program goes on, and nobody answers");
    network.braid_ok("home", &["reload"]);
    network.braid_ok("home", &["link", "remove", "w2"]);
    nothing_leaked(&capture, "it takes over a changed config");
    network.signal("home", "-KILL");
    nothing_leaked(&capture, "it crashed");
    network.links_go();
    network.links_come();
    network.start("home");
    nothing_leaked(&capture, "it starts again after a crash");
    network.signal("home", "-TERM");
    nothing_leaked(&capture, "its service is stopped");
    network.start("home");
    nothing_leaked(&capture, "it starts again");
    network.inside("home", "nft flush ruleset");
    network.wait_until("its rules are back", || {
        network.inside("home", "nft list tables").contains("braid")
    });
    std::thread::sleep(Duration::from_millis(500));
    capture.leaks();
    nothing_leaked(&capture, "another program flushed all rules");

    network.start("internet");
    network.inside("internet", "ip addr del 203.0.113.1/32 dev lo");
    names.answer_with("203.0.113.2");
    network.wait_until("the name's other address is found", || network.connected());
    nothing_leaked(&capture, "the concentrator has another address");
    network.inside("home", "ip link del braid0");
    nothing_leaked(&capture, "its device is gone, and it ends");

    network.braid_ok("home", &["down"]);
    network.wait_until("it leaves all as it was", || !capture.leaks().is_empty());
    let left = network.inside("home", "nft list tables");
    assert!(!left.contains("braid"), "{left}");
}

/// By decades both ways, from before the network is there, while it runs, and over a crash: as on
/// a router without a battery, and when somebody tells it the time.
#[test]
fn nothing_leaks_while_the_clock_is_wrong() {
    let Some(mut network) = Network::new() else { return };
    let _names = NameServer::start(&network.internet, "10.1.0.1", "203.0.113.1");
    let wrong = network.scratch.path().join("wrong");
    let jump = |years: i64| {
        let new = wrong.with_extension("new");
        fs::write(&new, (years * 365 * 86_400).to_string()).unwrap();
        fs::rename(new, &wrong).unwrap();
    };
    let clock = wrong_clock(network.scratch.path());
    network.environment = vec![("LD_PRELOAD", clock), ("SECONDS_WRONG_FILE", wrong.clone().into())];
    let (capture, _talk) = joined_with_leaks_seen(&mut network);
    jump(30);
    network.start("home");
    network.links_come();
    network.wait_until("it connects", || network.connected());
    assert!(network.log("home").contains(&format!("{}-", year_in(30))), "its clock is wrong");
    nothing_leaked(&capture, "it starts 30 years ahead");
    for years in [-50, 0] {
        jump(years);
        nothing_leaked(&capture, "the clock jumps while it runs");
        network.braid_ok("home", &["reload"]);
        network.wait_until("it is still connected", || network.connected());
    }
    jump(-50);
    network.signal("home", "-KILL");
    nothing_leaked(&capture, "it crashed");
    network.start("home");
    network.wait_until("it connects half a century late", || network.connected());
    nothing_leaked(&capture, "it starts 50 years late");

    network.signal("internet", "-KILL");
    network.wait_until("the concentrator is gone", || !network.connected());
    jump(40);
    nothing_leaked(&capture, "the clock jumps while the concentrator is gone");
    // Who can't know the time can ask for it.
    asks_for_the_time(&network);
    jump(0);
    network.start("internet");
    network.wait_until("it connects again", || network.connected());
    nothing_leaked(&capture, "the clock is right again");
    network.braid_ok("home", &["down"]);
    network.wait_until("it leaves all as it was", || !capture.leaks().is_empty());
}

/// What a clock says that goes ahead by so many times 365 days.
fn year_in(years: u64) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    // 365.2425 days are a mean year.
    1970 + (now + years * 365 * 86_400) / 31_556_952
}

/// By NTP, of a host of the internet.
fn asks_for_the_time(network: &Network) {
    let server = SocketAddr::new(SECRET_V4.parse().unwrap(), 123);
    let server = network.internet.run(|| UdpSocket::bind(server)).unwrap().unwrap();
    server.set_read_timeout(Some(crate::PATIENCE)).unwrap();
    let client = network.home.run(|| UdpSocket::bind("10.1.0.2:0")).unwrap().unwrap();
    client.set_read_timeout(Some(crate::PATIENCE)).unwrap();
    client.send_to(b"what time is it", (SECRET_V4, 123)).unwrap();
    let (_, from) = server.recv_from(&mut [0; 64]).unwrap();
    server.send_to(b"late", from).unwrap();
    client.recv_from(&mut [0; 64]).unwrap();
}

#[test]
fn it_is_in_force_before_the_tunnel_is_and_after_a_start_that_failed() {
    let Some(network) = Network::new() else { return };
    let capture = Capture::start(&network.internet, &["c1", "c2", "c3"]);
    let _host = Talk::start(&network.home, &["w1", "w2", "x1"]);
    network.join("203.0.113.1", &["--kill-switch"]);
    let at_boot = ["up", "--only-kill-switch"];
    network.braid_ok("home", &at_boot);
    std::thread::sleep(Duration::from_millis(500));
    capture.leaks();
    nothing_leaked(&capture, "at boot");
    network.braid_ok("home", &at_boot);
    // A device of that name that is no tunnel's.
    network.inside("home", "ip link add braid0 type bridge");
    assert!(!network.braid("home", &["up", "--foreground"]).status.success());
    nothing_leaked(&capture, "it can't come up");
    network.braid_ok("home", &["down"]);
    network.wait_until("it is lifted", || !capture.leaks().is_empty());

    network.edit("home", |text| text.replace("\"block\"", "\"direct\""));
    network.braid_ok("home", &at_boot);
    assert_eq!(network.inside("home", "nft list tables"), "", "the config asks for none");
}

/// The home has joined, hasn't started, and its links are away; what its host and its LAN say
/// all the time is seen where it leaves.
fn joined_with_leaks_seen(network: &mut Network) -> (Capture, [Talk; 2]) {
    let capture = Capture::start(&network.internet, &["c1", "c2", "c3"]);
    let host = Talk::start(&network.home, &["w1", "w2", "x1"]);
    let lan = Talk::start(&network.lan, &[]);
    network.wait_until("what leaks is seen", || !capture.leaks().is_empty());
    network.join(ENDPOINT_NAME, &["--kill-switch"]);
    network.start("internet");
    network.links_go();
    // What is still on its way into the capture.
    std::thread::sleep(Duration::from_millis(500));
    capture.leaks();
    (capture, [host, lan])
}

/// For long enough that every kind of packet was tried, many times.
fn nothing_leaked(capture: &Capture, when: &str) {
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(capture.leaks(), Vec::<String>::new(), "{when}");
}

/// Who is heard next at an address of a host.
fn hears(host: &NetNs, address: &str) -> String {
    let address = SocketAddr::new(address.parse().unwrap(), 9);
    let socket = host.run(|| UdpSocket::bind(address)).unwrap().unwrap();
    socket.set_read_timeout(Some(crate::PATIENCE)).unwrap();
    let (_, from) = socket.recv_from(&mut [0; 64]).unwrap();
    from.ip().to_string()
}
