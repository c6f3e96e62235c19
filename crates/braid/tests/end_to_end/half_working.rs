//! Links that work in part: the others carry on, and none of it is lost.

use crate::traffic::{Direction, Pings, Transfer};
use crate::world::{INSIDE_V4, Tunnel, World, link};
use braid_lab::emulator::{DirectionChange, LinkChange, Loss};
use braid_lab::topology::CONCENTRATOR_V4;
use braid_linux::netns::NetNs;
use braid_units::Ratio;
use std::net::UdpSocket;

/// What becomes of the first of two links.
fn carries_on(what: &str, damage: impl Fn(&World)) {
    let Some(mut world) = World::new(&[link("dsl"), link("lte")]) else { return };
    world.start(&Tunnel::default());
    for direction in [Direction::Down, Direction::Up] {
        println!("{what}, {direction:?}");
        let pings = Pings::start(&world.home, INSIDE_V4, 30);
        let (home, concentrator) = (&world.home, &world.concentrator);
        let transfer = Transfer::start(home, concentrator, INSIDE_V4, direction, 8_000_000);
        transfer.wait_until_received(1_000_000);
        damage(&world);
        transfer.finish();
        pings.none_is_lost();
    }
}

fn loses(share: f64) -> Option<DirectionChange> {
    let loss = Some(Loss::Random(Ratio::from_fraction(share)));
    Some(DirectionChange { loss, ..DirectionChange::default() })
}

#[test]
fn a_link_that_only_sends_or_only_receives() {
    for (what, down, up) in [("deaf", loses(1.0), None), ("dumb", None, loses(1.0))] {
        let (down, up) = (&down, &up);
        carries_on(what, |world| {
            let (down, up) = (down.clone(), up.clone());
            world.change(0, &LinkChange::Set { down, up, mtu: None });
        });
    }
}

#[test]
fn a_link_that_loses_a_third() {
    carries_on("lossy", |world| {
        world.change(0, &LinkChange::Set { down: loses(0.3), up: loses(0.3), mtu: None });
    });
}

#[test]
fn a_link_that_passes_small_packets_only() {
    carries_on("narrow", |world| {
        world.change(0, &LinkChange::Set { down: None, up: None, mtu: Some(600) });
    });
}

/// Whether it is the links or the concentrators that are dead.
#[test]
fn where_no_concentrator_answers_a_known_host_is_asked_by_each_link() {
    let Some(mut world) = World::new(&[link("dsl"), link("lte")]) else { return };
    answer_all_names(&world.concentrator.namespace);
    world.write_configs(&Tunnel::default());
    world.concentrator.start();
    let file = world.scratch.path().join("resolv.conf");
    std::fs::write(&file, format!("nameserver {CONCENTRATOR_V4}\n")).unwrap();
    let mount = format!("mount --bind {} /etc/resolv.conf && exec \"$@\"", file.display());
    world.home.begin_by(&["unshare", "-m", "sh", "-c", &mount, "sh"]);
    let answers = || world.home.braid(&["status", "--json"]).status.success();
    world.home.wait_until("the daemon answers", answers);
    world.home.wait_for_active_paths(2);
    let says = |text: &str, link: usize| {
        let trouble = world.home.status()["links"][link]["trouble"].clone();
        trouble.as_str().is_some_and(|trouble| trouble.contains(text))
    };
    let known = format!("name server {CONCENTRATOR_V4} does");
    assert!(!says(&known, 0) && !says(&known, 1));
    let dark = loses(1.0);
    world.change(1, &LinkChange::Set { down: dark.clone(), up: dark, mtu: None });
    world.concentrator.kill();
    world.home.wait_until("the link is said to work", || says(&known, 0));
    assert!(!says(&known, 1), "it doesn't");
    world.concentrator.start();
    world.home.wait_until("all is well by it", || !says(&known, 0));
}

/// With nothing but the question, in which it says that it is an answer.
fn answer_all_names(namespace: &NetNs) {
    let socket = namespace.run(|| UdpSocket::bind((CONCENTRATOR_V4, 53)).unwrap()).unwrap();
    // It ends with the test.
    std::thread::spawn(move || {
        let mut bytes = [0; 512];
        while let Ok((length, from)) = socket.recv_from(&mut bytes) {
            bytes[2] |= 0x80;
            let _ = socket.send_to(&bytes[..length], from);
        }
    });
}

#[test]
fn a_link_that_lets_only_web_and_names_pass() {
    // What a captive portal does before somebody logs in, from the start on.
    let Some(mut world) = World::new(&[link("hotel"), link("lte")]) else { return };
    world.home.sh(
        "nft 'add table inet portal; add chain inet portal out { type filter hook output priority 0; }; \
         add rule inet portal out oifname \"hotel\" udp dport != 53 drop'",
    );
    world.write_configs(&Tunnel::default());
    world.concentrator.start();
    world.home.start();
    world.home.wait_for_active_paths(1);
    Pings::start(&world.home, INSIDE_V4, 5).none_is_lost();
    let (home, concentrator) = (&world.home, &world.concentrator);
    Transfer::start(home, concentrator, INSIDE_V4, Direction::Down, 3_000_000).finish();
    assert!(world.home.braid(&["status"]).status.success());
    // Logged in.
    world.home.sh("nft delete table inet portal");
    world.home.wait_for_active_paths(2);
}
