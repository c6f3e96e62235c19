//! A kill switch beside rules: what a rule sends beside the tunnel leaves by that rule's link, and
//! nothing else leaves anywhere.

use crate::capture::Capture;
use crate::name_server::NameServer;
use crate::network::{BANK_V4, BANK_V6, ENDPOINT_NAME, Network};
use crate::talk::Talk;
use std::cell::RefCell;
use std::time::Duration;

/// Without the second one nobody forwards questions for names.
const RULES: &str = r#"
[[rule]]
name = "bank"
match = { to = ["198.51.100.81", "2001:db8:80::81"], protocol = "tcp", ports = "443" }
do = "direct"
links = "w1"
otherwise = "block"
[[rule]]
name = "names"
match = { domain = "bank.example" }
do = "direct"
links = "w1"
otherwise = "block"
"#;

#[test]
fn only_what_a_rule_sends_beside_the_tunnel_leaves_beside_it_and_only_by_its_link() {
    let Some(mut network) = Network::new() else { return };
    let _names = NameServer::start(&network.internet, "10.1.0.1", "203.0.113.1");
    let capture = Capture::start(&network.internet, &["c1", "c2", "c3"]);
    let _talk = [
        Talk::start(&network.home, &["w1", "w2", "x1"]),
        Talk::with_bank(&network.home, &["w1", "w2", "x1"]),
        Talk::start(&network.lan, &[]),
        Talk::with_bank(&network.lan, &[]),
    ];
    network.join(ENDPOINT_NAME, &["--kill-switch"]);
    network.edit("home", |text| text + RULES);
    network.start("internet");
    network.links_go();
    std::thread::sleep(Duration::from_millis(500));
    capture.leaks();

    network.start("home");
    network.links_come();
    network.wait_until("it connects", || network.connected());
    seen_direct(&network, &capture, "it has started");

    network.signal("internet", "-KILL");
    network.wait_until("the concentrator is gone", || !network.connected());
    seen_direct(&network, &capture, "the concentrator is gone");
    network.braid_ok("home", &["reload"]);
    seen_direct(&network, &capture, "it was told to reload");
    network.inside("home", "ip link set w1 down");
    only_direct(&capture, "the rule's link is gone");
    network.links_come();
    seen_direct(&network, &capture, "its link is back");
    network.inside("home", "ip route add default via 10.3.0.1 dev x1 metric 1");
    seen_direct(&network, &capture, "a device that is no link has the best default route");

    let pid = network.status()["pid"].clone();
    network.inside("home", &format!("kill -STOP {pid}"));
    only_direct(&capture, "it stands still");
    network.inside("home", "ip link set w1 down");
    only_direct(&capture, "the rule's link goes meanwhile");
    network.links_come();
    network.inside("home", &format!("kill -CONT {pid}"));
    seen_direct(&network, &capture, "it goes on");

    network.signal("home", "-KILL");
    only_direct(&capture, "it crashed");
    network.start("home");
    seen_direct(&network, &capture, "it starts again after a crash");
    network.braid_ok("home", &["rule", "remove", "names"]);
    seen_direct(&network, &capture, "a rule is gone");
    network.signal("home", "-TERM");
    only_direct(&capture, "its service is stopped");
    network.start("home");
    network.start("internet");
    network.wait_until("it connects again", || network.connected());
    seen_direct(&network, &capture, "all is back");
    network.braid_ok("home", &["down"]);
    network.wait_until("it leaves all as it was", || !others(&capture).is_empty());
}

/// Until a connection of the rule leaves by its link; nothing else does, also in the time that
/// every kind of packet needs to be tried many times.
fn seen_direct(network: &Network, capture: &Capture, when: &str) {
    let seen = RefCell::new(Vec::new());
    for bank in [BANK_V4, BANK_V6] {
        network.wait_until(&format!("{bank} is called directly: {when}"), || {
            seen.borrow_mut().extend(capture.leaks());
            seen.borrow().contains(&direct(bank))
        });
    }
    std::thread::sleep(Duration::from_millis(1500));
    let mut all = seen.into_inner();
    all.extend(capture.leaks());
    all.retain(|leak| !is_direct(leak));
    assert_eq!(all, Vec::<String>::new(), "{when}");
}

fn only_direct(capture: &Capture, when: &str) {
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(others(capture), Vec::<String>::new(), "{when}");
}

fn others(capture: &Capture) -> Vec<String> {
    capture.leaks().into_iter().filter(|leak| !is_direct(leak)).collect()
}

fn is_direct(leak: &str) -> bool {
    [BANK_V4, BANK_V6].iter().any(|bank| leak == direct(bank))
}

fn direct(bank: &str) -> String {
    format!("c1: protocol 6 to {bank} port 443")
}
