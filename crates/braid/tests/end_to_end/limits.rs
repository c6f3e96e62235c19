//! Quotas, standby links, tiers, and changes of links while the tunnel runs.

use crate::side::Side;
use crate::traffic::{Direction, Transfer};
use crate::world::{INSIDE_V4, Tunnel, World, link};
use braid_lab::emulator::LinkChange;

const MEGABYTE: usize = 1_000_000;

#[test]
fn a_link_whose_allowance_is_used_up_rests() {
    let Some(mut world) = World::new(&[link("dsl"), link("lte")]) else { return };
    world.start(&Tunnel::default());
    world.home.braid_ok(&["link", "set", "lte", "--quota", "2MB/month"]);
    download(&world, 8 * MEGABYTE);
    world.home.wait_until("the link rests", || state(&world.home, "lte") == "over_quota");
    assert_eq!(state(&world.home, "dsl"), "active");
    let status = world.home.status();
    let quota = &status["links"][1]["quota"];
    assert_eq!(quota["limit_bytes"], 2 * MEGABYTE);
    let used = quota["used_bytes"].as_u64().unwrap();
    assert!(used >= 2 * MEGABYTE as u64, "{quota}");

    let before = carried(&world.home, "lte");
    download(&world, 4 * MEGABYTE);
    let since = carried(&world.home, "lte") - before;
    assert!(since < MEGABYTE as u64 / 10, "{since} bytes more by the link that rests");

    // The month isn't over with the program.
    world.home.stop();
    world.home.start();
    world.home.wait_until("it still rests", || state(&world.home, "lte") == "over_quota");
    world.home.braid_ok(&["link", "set", "lte", "--quota", "none"]);
    world.home.wait_for_active_paths(2);
}

#[test]
fn an_allowance_outlives_a_crash_and_the_links_absence() {
    let Some(mut world) = World::new(&[link("dsl"), link("lte")]) else { return };
    world.start(&Tunnel::default());
    world.home.braid_ok(&["link", "set", "lte", "--quota", "3MB/day"]);
    download(&world, 3 * MEGABYTE);
    assert_eq!(state(&world.home, "lte"), "active");
    let before = used(&world.home);
    assert!(before > MEGABYTE as u64 / 4, "{before}");

    world.home.braid_ok(&["link", "remove", "lte"]);
    world.home.wait_until("it is gone", || world.home.paths().len() == 1);
    let again = ["link", "add", "lte", "--interface", "lte", "--quota", "3MB/day"];
    world.home.braid_ok(&again);
    world.home.wait_for_active_paths(2);
    let after = used(&world.home);
    // Handshakes and probes take some bytes too.
    assert!((before..before + MEGABYTE as u64 / 2).contains(&after), "{before}, then {after}");

    download(&world, 12 * MEGABYTE);
    let rests = || state(&world.home, "lte") == "over_quota";
    world.home.wait_until("the link rests", rests);
    let file = world.scratch.path().join("home/state/braid0.quota.json");
    let written = || -> u64 {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        let counters: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
        counters["content"]["lte"]["used_bytes"].as_u64().unwrap_or(0)
    };
    world.home.wait_until("it's written", || written() >= 3 * MEGABYTE as u64);
    world.home.kill();
    world.home.start();
    world.home.wait_until("it still rests", || state(&world.home, "lte") == "over_quota");
    assert_eq!(state(&world.home, "dsl"), "active");
    download(&world, MEGABYTE);
}

#[test]
fn a_standby_link_waits_until_nothing_else_works() {
    let Some(mut world) = World::new(&[link("dsl"), link("lte")]) else { return };
    world.start(&Tunnel::default());
    world.home.braid_ok(&["link", "set", "lte", "--standby", "true"]);
    world.home.wait_until("it stands by", || state(&world.home, "lte") == "standby");
    let before = carried(&world.home, "lte");
    download(&world, 4 * MEGABYTE);
    let since = carried(&world.home, "lte") - before;
    assert!(since < MEGABYTE as u64 / 10, "{since} bytes by the standby link");

    let (home, concentrator) = (&world.home, &world.concentrator);
    let transfer = Transfer::start(home, concentrator, INSIDE_V4, Direction::Down, 8 * MEGABYTE);
    transfer.wait_until_received(2 * MEGABYTE);
    world.change(0, &LinkChange::Blackout(true));
    transfer.finish();
    assert!(carried(&world.home, "lte") > before + 3 * MEGABYTE as u64, "it stepped in");
}

#[test]
fn a_higher_tier_is_used_when_the_lower_one_is_full() {
    let Some(mut world) = World::new(&[link("dsl"), link("lte")]) else { return };
    world.start(&Tunnel::default());
    world.home.braid_ok(&["mode", "overflow"]);
    world.home.braid_ok(&["link", "set", "lte", "--tier", "1"]);
    world.home.wait_until("both ends know", || {
        world.home.status()["mode"] == "overflow"
            && world.concentrator.paths().iter().any(|path| path["tier"] == 1)
    });
    let before = carried(&world.home, "lte");
    download(&world, 8 * MEGABYTE);
    assert!(carried(&world.home, "lte") > before + MEGABYTE as u64, "it took what was too much");
}

#[test]
fn links_come_and_go_by_command() {
    let Some(mut world) = World::new(&[link("dsl"), link("lte")]) else { return };
    world.start(&Tunnel::default());
    let (home, concentrator) = (&world.home, &world.concentrator);
    let transfer = Transfer::start(home, concentrator, INSIDE_V4, Direction::Down, 8 * MEGABYTE);
    transfer.wait_until_received(MEGABYTE);
    home.braid_ok(&["link", "remove", "dsl"]);
    home.wait_until("it is gone", || home.paths().len() == 1);
    home.braid_ok(&["link", "add", "fibre", "--interface", "dsl", "--cap-down", "15Mbit"]);
    home.wait_for_active_paths(2);
    transfer.finish();
    let tested = home.braid_ok(&["link", "test", "fibre", "--json"]);
    let tested: serde_json::Value = serde_json::from_slice(&tested).unwrap();
    assert_eq!(tested["works"], true, "{tested}");
    world.change(0, &LinkChange::Blackout(true));
    home.wait_until("the test fails", || !home.braid(&["link", "test", "fibre"]).status.success());
}

fn download(world: &World, bytes: usize) {
    let (home, concentrator) = (&world.home, &world.concentrator);
    Transfer::start(home, concentrator, INSIDE_V4, Direction::Down, bytes).finish();
}

fn path(home: &Side, link: &str) -> serde_json::Value {
    home.paths().into_iter().find(|path| path["link"] == link).unwrap_or_default()
}

fn state(home: &Side, link: &str) -> String {
    path(home, link)["state"].as_str().unwrap_or_default().to_owned()
}

/// Of the allowance of `lte`, all of it that was used before the call.
fn used(home: &Side) -> u64 {
    home.fresh_status()["links"][1]["quota"]["used_bytes"].as_u64().unwrap()
}

/// Bytes in both directions, all that went before the call.
fn carried(home: &Side, link: &str) -> u64 {
    let status = home.fresh_status();
    let paths = status["peers"][0]["paths"].as_array().unwrap();
    let path = paths.iter().find(|path| path["link"] == link).unwrap();
    path["tx_bytes"].as_u64().unwrap() + path["rx_bytes"].as_u64().unwrap()
}
