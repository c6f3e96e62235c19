//! Keys are replaced before they are worn out, whichever end wears them out.

#[path = "../benches/star/mod.rs"]
mod star;

use braid_handshake::{Aead, AeadOffer};
use star::{Load, Star, TURN};

/// A fast line wears its keys out in seconds; those of ChaCha20-Poly1305 never are.
const AEAD: Aead = Aead::Aes256Gcm;
/// A super-packet takes at least this many datagrams.
const DATAGRAMS: u64 = 44;
const SLICES: u64 = 12;

/// Runs a little longer than until new keys are due, which is long before the old ones expire: by
/// then nothing uses the first session any longer, and no data was held up.
fn carries_on(up: bool) {
    let here = AeadOffer::of_this_cpu();
    if here.agree(here) != AEAD {
        println!("SKIPPED: this processor has no instructions for AES");
        return;
    }
    let load = Load { size: Load::SUPER, packets: 1, up, down: !up, busy: 1 };
    let mut star = Star::new(1, 2);
    star.run(load, TURN * 1000);
    let first = star.sessions();
    assert!(!first.is_empty());
    let turns = AEAD.rekey_after_packets() * 9 / 8 / DATAGRAMS / SLICES;
    assert!(turns * SLICES * DATAGRAMS < AEAD.reject_after_packets());
    for slice in 0..SLICES {
        let delivered = star.run(load, TURN * turns as u32);
        assert!(delivered.packets > turns * 9 / 10, "slice {slice}: {delivered:?} of {turns}");
    }
    let last = star.sessions();
    assert!(!last.is_empty() && last.is_disjoint(&first), "{first:?}, {last:?}");
}

#[test]
fn a_home_that_sends_much_gets_new_keys_in_time() {
    carries_on(true);
}

#[test]
fn a_home_that_receives_much_asks_for_new_keys_in_time() {
    carries_on(false);
}
