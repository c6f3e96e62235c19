//! What was carried and what happened is known: while it runs, after it was killed,
//! and when it is down.

use crate::traffic::Pings;
use crate::world::{INSIDE_V4, Tunnel, World, link};
use braid_lab::emulator::LinkChange;
use serde_json::Value;

#[test]
fn history_and_events_are_told_by_the_daemon_and_by_the_file_it_leaves() {
    let Some(mut world) = World::new(&[link("dsl"), link("lte")]) else { return };
    world.start(&Tunnel::default());
    Pings::start(&world.home, INSIDE_V4, 3).none_is_lost();
    for series in [&["--link", "dsl"][..], &["--peer", "concentrator"], &[]] {
        world.home.wait_until("what was carried is known", || {
            let arguments = [&["history", "--by", "month", "--json"], series].concat();
            let output = world.home.braid(&arguments);
            let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
            let last = report["periods"].as_array().and_then(|periods| periods.last().cloned());
            last.is_some_and(|last| last["rx_bytes"].as_u64() > Some(0))
        });
    }
    let home = world.concentrator.braid_ok(&["history", "--peer", "home", "--csv"]);
    assert_eq!(String::from_utf8(home).unwrap().lines().count(), 2);

    let refused = world.home.braid(&["history", "--link", "dls"]);
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && told.contains("link/dsl"), "{told}");

    world.change(1, &LinkChange::Blackout(true));
    let events = |world: &World| -> Vec<(String, String)> {
        let events = world.home.braid_ok(&["events", "--json"]);
        let events: Vec<Value> = serde_json::from_slice(&events).unwrap();
        let word = |event: &Value, key| event[key].as_str().unwrap().to_owned();
        events.iter().map(|event| (word(event, "kind"), word(event, "text"))).collect()
    };
    let is_told = |world: &World| {
        events(world)
            .iter()
            .any(|(kind, text)| kind == "link_down" && text.contains("continues over dsl"))
    };
    world.home.wait_until("the link's end is told", || is_told(&world));
    // It is written at once, or with the next sums.
    world.home.stop();
    let left = world.home.braid_ok(&["history", "--link", "dsl", "--json"]);
    let left: Value = serde_json::from_slice(&left).unwrap();
    assert!(left["periods"][0]["rx_bytes"].as_u64() > Some(0), "{left}");
    world.home.start();
    let kinds: Vec<String> = events(&world).into_iter().map(|(kind, _)| kind).collect();
    assert!(is_told(&world), "{kinds:?}");
    assert_eq!(kinds.iter().filter(|kind| *kind == "stopped").count(), 1, "{kinds:?}");
}
