//! Initiations at line rate from somebody who has the concentrator's public
//! key, by `benches/star`.

#[path = "../benches/star/mod.rs"]
mod star;

use star::{Load, Star, TURN, initiations};
use std::time::Duration;

/// 1 Gbit/s of them: 444 bytes with IP and UDP headers, and Ethernet's 38.
const IN_A_TURN: usize = 14;

#[test]
fn strangers_are_answered_within_a_budget_and_homes_do_not_notice() {
    let mut star = Star::with_handshakes(1, 2, Duration::from_millis(5), 50);
    let mut initiations = initiations(64);
    let load = Load { size: 300, packets: 1, up: true, down: true, busy: 1 };
    // One rekey, so that it's held up by strangers if anything is.
    let (seconds, mut delivered, mut sent) = (125, 0, 0);
    for _ in 0..seconds {
        delivered += star.run(Load { packets: 0, ..load }, Duration::from_millis(990)).packets;
        for turn in 0..200 {
            let from = turn * IN_A_TURN % (initiations.len() - IN_A_TURN);
            star.strangers(&mut initiations[from..from + IN_A_TURN]);
            delivered += star.run(load, TURN).packets;
            sent += 2;
        }
    }
    delivered += star.run(Load { packets: 0, ..load }, Duration::from_secs(1)).packets;
    assert_eq!(delivered, sent);
    let most = (seconds + 1) * (500 + 256 * 5);
    assert!(star.answers() <= most, "{} answers", star.answers());
    assert!(star.answers() > seconds, "a cookie isn't refused for ever");
}
