//! Processors that are asked to stay awake.

use crate::own_mounts::{in_own_mounts, mount};
use crate::traffic::{Direction, Transfer};
use crate::world::{INSIDE_V4, Tunnel, World, link};
use braid_linux::wake_latency::{self, LatencyRequest};
use std::fs;
use std::path::Path;

#[test]
fn the_kernel_is_asked_while_packets_come() {
    asked_by("wake_latency = \"7us\"", 7);
}

#[test]
fn unless_told_otherwise_only_processors_of_our_own_stay_awake() {
    if !wake_latency::processors_are_dedicated() {
        return eprintln!("SKIPPED: no virtual machine with processors of its own");
    }
    asked_by("", 0);
}

/// What this daemon asks: the kernel tells only what all processes together do, so that a file
/// stands in its device's place.
fn asked_by(setting: &str, micros: i32) {
    if !Path::new(LatencyRequest::DEVICE).exists() {
        return eprintln!("SKIPPED: there is no {}", LatencyRequest::DEVICE);
    }
    let Some(mut world) = World::new(&[link("dsl")]) else { return };
    in_own_mounts(|| {
        let asked = tempfile::NamedTempFile::new().unwrap();
        mount(&format!("--bind {} {}", asked.path().display(), LatencyRequest::DEVICE));
        let home = &format!("addresses = [\"10.77.0.2/24\"]\n{setting}");
        let concentrator = "addresses = [\"10.77.0.1/24\"]\nwake_latency = \"off\"";
        world.start(&Tunnel { home, concentrator, ..Tunnel::default() });
        world.home.wait_for_ping(INSIDE_V4);
        let is_asked = || latest_limit_micros(asked.path()) == Some(micros);
        world.home.wait_until("nothing is asked while nothing comes", || !is_asked());
        let (home, concentrator) = (&world.home, &world.concentrator);
        let download = Transfer::start(home, concentrator, INSIDE_V4, Direction::Down, 8_000_000);
        world.home.wait_until("it is asked while packets come", is_asked);
        download.finish();
        world.home.wait_until("it is taken back after them", || !is_asked());
    });
}

/// What was written last; each write has come behind the one before.
fn latest_limit_micros(file: &Path) -> Option<i32> {
    let written = fs::read(file).unwrap();
    written.last_chunk().map(|limit| i32::from_ne_bytes(*limit))
}
