//! A program that the daemon needs doesn't end: the kernel holds it, or somebody holds its
//! lock. Nobody waits for it for long, and all is mended when it works again.

use crate::traffic::Pings;
use crate::world::{CARRIES_ALL, INSIDE_V4, Tunnel, World, link};
use std::fs;

#[test]
fn an_nft_that_never_ends_stops_neither_traffic_nor_answers() {
    let Some(mut world) = World::new(&[link("cable"), link("dsl")]) else { return };
    let stuck = world.scratch.path().join("stuck");
    let real = world.home.sh("command -v nft").trim().to_owned();
    // Others sleep, too.
    let mark = format!("9{}", std::process::id());
    let script =
        format!("#!/bin/sh\n[ -e {} ] && exec sleep {mark}\nexec {real} \"$@\"\n", stuck.display());
    world.home.put_program("nft", &script);
    let before = world.home.host_settings();
    world.start(&Tunnel { home_routing: CARRIES_ALL, ..Tunnel::default() });

    fs::write(&stuck, "").unwrap();
    // Somebody flushes the firewall: the daemon wants to set its table again.
    world.home.sh("nft flush ruleset");
    let pings = Pings::start(&world.home, INSIDE_V4, 20);
    world.home.wait_until("it is told", || world.home.log().contains("has not ended within"));
    // Done, or begun: never silence.
    let output = world.home.braid(&["mode", "overflow"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() || said.contains("started, but not done"), "{said}");
    world.home.braid_ok(&["status"]);
    pings.none_is_lost();

    fs::remove_file(&stuck).unwrap();
    world.home.wait_until("its table is there again", || {
        world.home.sh("nft list ruleset").contains("braid_braid0")
    });
    world.home.stop();
    assert_eq!(world.home.host_settings(), before, "nothing is left behind");
    assert_eq!(
        world.home.sh(&format!("pgrep -fx 'sleep {mark}' || true")),
        "",
        "none of them is left"
    );
}
