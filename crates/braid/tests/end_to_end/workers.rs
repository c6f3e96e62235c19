//! A concentrator whose homes are carried by several processors.

use crate::homes::{neighbour, neighbour_as_peer, start_neighbour};
use crate::side::Side;
use crate::traffic::{Direction, Pings, Transfer};
use crate::world::{INSIDE_V4, Tunnel, World, link};
use std::net::IpAddr;

const BYTES: usize = 4 << 20;

/// Two homes, of which the second is another worker's.
fn world(workers: &str) -> Option<(World, Side)> {
    let mut world = World::new(&[link("dsl"), link("lte")])?;
    let mut other = neighbour(&world);
    let peer = neighbour_as_peer(&other, "\"10.77.0.3\"");
    let tunnel = Tunnel { more_homes: &peer, ..Tunnel::default() };
    let concentrator = format!("{}\nhome_to_home = true\n{workers}", tunnel.concentrator);
    let tunnel = Tunnel { concentrator: &concentrator, ..tunnel };
    world.concentrator.sh("echo 1 > /proc/sys/net/ipv4/ip_forward");
    world.start(&tunnel);
    start_neighbour(&mut other, &world, "\"10.77.0.3/24\"");
    other.wait_for_active_paths(1);
    Some((world, other))
}

#[test]
fn each_home_has_its_worker_and_all_reach_all() {
    let Some((world, other)) = world("workers = 3") else { return };
    let [home, neighbour] = ["10.77.0.2", "10.77.0.3"].map(|text| text.parse::<IpAddr>().unwrap());
    // What the concentrator begins comes to any of the device's queues.
    for (from, to) in [
        (&world.home, INSIDE_V4),
        (&other, INSIDE_V4),
        (&world.concentrator, home),
        (&world.concentrator, neighbour),
        (&world.home, neighbour),
        (&other, home),
    ] {
        Pings::start(from, to, 10).none_is_lost();
    }
    for direction in [Direction::Down, Direction::Up] {
        let both = [&world.home, &other].map(|client| {
            Transfer::start(client, &world.concentrator, INSIDE_V4, direction, BYTES)
        });
        both.into_iter().for_each(Transfer::finish);
    }
    Transfer::start(&other, &world.home, home, Direction::Down, BYTES).finish();

    let process = world.concentrator.status()["pid"].clone();
    let threads = world.concentrator.sh(&format!("cat /proc/{process}/task/*/comm"));
    let worker = |name: &str| threads.lines().any(|thread| thread == name);
    assert!(["braid-data", "braid-data-1", "braid-data-2"].iter().all(|name| worker(name)));
    let status = world.concentrator.fresh_status();
    let peers = status["peers"].as_array().unwrap();
    for peer in peers {
        let paths = peer["paths"].as_array().unwrap();
        let sent: u64 = paths.iter().map(|path| path["tx_bytes"].as_u64().unwrap()).sum();
        assert!(sent > BYTES as u64, "{status}");
    }
    assert_eq!((peers.len(), status["drops"]["not_fetched"].as_u64()), (2, Some(0)), "{status}");
}

#[test]
fn homes_come_and_go_at_any_worker() {
    let Some((world, mut other)) = world("workers = 2") else { return };
    let text = world.concentrator.config_text();
    let (without, _) = text.split_once("[[peer]]\nname = \"neighbour\"").unwrap();
    world.concentrator.write_text(without);
    world.concentrator.braid_ok(&["reload"]);
    let reached = |side: &Side| side.sh("ping -q -c 3 -i 0.2 -W 1 10.77.0.1 || true");
    world.home.wait_until("the neighbour is let out", || reached(&other).contains(" 0 received"));
    Pings::start(&world.home, INSIDE_V4, 5).none_is_lost();
    world.concentrator.write_text(&text);
    world.concentrator.braid_ok(&["reload"]);
    other.wait_for_ping(INSIDE_V4);
    other.kill();
    other.start();
    other.wait_for_ping(INSIDE_V4);
}

#[test]
fn another_program_goes_on_with_all_queues() {
    let Some((world, other)) = world("workers = 2") else { return };
    let device = || world.concentrator.sh("ip -o link show braid0 | cut -d: -f1");
    let process = world.concentrator.status()["pid"].clone();
    let queues = || {
        let shown = format!("ls -l /proc/{process}/fd | grep -c net/tun");
        world.concentrator.sh(&shown).trim().parse::<u32>().unwrap()
    };
    let (before, had) = (device(), queues());
    // The neighbour's line is as quick as this machine.
    let downloads = [(&world.home, 3 * BYTES), (&other, 60 * BYTES)].map(|(client, bytes)| {
        Transfer::start(client, &world.concentrator, INSIDE_V4, Direction::Down, bytes)
    });
    for download in &downloads {
        download.wait_until_received(BYTES / 4);
    }
    for _ in 0..3 {
        world.concentrator.braid_ok(&["restart"]);
        world.home.wait_for_active_paths(2);
        other.wait_for_active_paths(1);
    }
    downloads.into_iter().for_each(Transfer::finish);
    assert_eq!((device(), queues()), (before, had));

    // To fewer at once, and back.
    let text = world.concentrator.config_text();
    for (workers, queues_are) in [("workers = 1", had / 2), ("workers = 2", had)] {
        world.concentrator.write_text(&text.replace("workers = 2", workers));
        world.concentrator.braid_ok(&["restart"]);
        world.home.wait_until("they are as many", || queues() == queues_are);
        for side in [&world.home, &other] {
            side.wait_for_ping(INSIDE_V4);
        }
    }
}
