//! The scheduler's policies, changed while the tunnel runs.

use crate::traffic::{Direction, Pings, Transfer};
use crate::world::{INSIDE_V4, Tunnel, World, link};

#[test]
fn traffic_passes_in_every_mode() {
    let Some(mut world) = World::new(&[link("dsl"), link("lte")]) else { return };
    world.start(&Tunnel::default());
    let bytes = 1_000_000;
    for mode in ["balance-rr", "balance-xor", "active-backup", "broadcast", "overflow", "adaptive"]
    {
        println!("{mode}");
        world.home.braid_ok(&["mode", mode]);
        world.home.wait_until("the mode shows", || world.home.status()["mode"] == mode);
        // The links carry both directions of it as the mode says.
        let before = sent(&world);
        Pings::start(&world.home, INSIDE_V4, 5).none_is_lost();
        for direction in [Direction::Up, Direction::Down] {
            let (home, concentrator) = (&world.home, &world.concentrator);
            Transfer::start(home, concentrator, INSIDE_V4, direction, bytes).finish();
        }
        let grown = sent(&world).iter().zip(before).map(|(now, then)| now - then).collect();
        let used = |at_least: usize| {
            let grown: &Vec<u64> = &grown;
            grown.iter().filter(|bytes| **bytes as usize >= at_least).count()
        };
        match mode {
            "balance-rr" => assert_eq!(used(bytes / 4), 2, "by turns: {grown:?}"),
            "broadcast" => assert_eq!(used(bytes), 2, "everything on every link: {grown:?}"),
            "active-backup" => assert_eq!(used(bytes / 4), 1, "one link: {grown:?}"),
            _ => assert_ne!(used(bytes / 4), 0, "{grown:?}"),
        }
    }
}

/// Bytes sent from home on each path, all that went before the call.
fn sent(world: &World) -> Vec<u64> {
    let status = world.home.fresh_status();
    let paths = status["peers"][0]["paths"].as_array().unwrap();
    paths.iter().map(|path| path["tx_bytes"].as_u64().unwrap()).collect()
}
