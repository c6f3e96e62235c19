//! Keys are new before they are worn out, whoever wears them out.

#[path = "../benches/star/mod.rs"]
mod star;

use star::{Load, Star, TURN};

/// A key of AES-256-GCM may seal 2^23 datagrams (RFC 9001, section 6.6), which a
/// quick line does in seconds.
const WORN: u64 = 1 << 23;
/// A super-packet takes as many datagrams at the least.
const DATAGRAMS: u64 = 44;
const SLICES: u64 = 24;

fn carries_on(up: bool) {
    let load = Load { size: Load::SUPER, packets: 1, up, down: !up, busy: 1 };
    let mut star = Star::new(1, 2);
    star.run(load, TURN * 1000);
    let turns = WORN / DATAGRAMS * 5 / 4 / SLICES;
    for slice in 0..SLICES {
        let delivered = star.run(load, TURN * turns as u32);
        assert!(delivered.packets > turns * 9 / 10, "slice {slice}: {delivered:?} of {turns}");
    }
}

#[test]
fn a_home_that_sends_much_gets_new_keys_in_time() {
    carries_on(true);
}

#[test]
fn a_home_that_receives_much_asks_for_new_keys_in_time() {
    carries_on(false);
}
