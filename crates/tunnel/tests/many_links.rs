//! Where nothing is lost nothing is sent again, by however many links: their
//! reports don't fit into one datagram then.

#[path = "../benches/star/mod.rs"]
mod star;

use star::{Load, Star, TURN};

#[test]
fn a_stream_by_many_links_is_repaired_nowhere() {
    let down = Load { size: 1500, packets: 16, up: false, down: true, busy: 1 };
    for (links, load) in [(2, down), (32, down), (64, down), (32, Load { up: true, ..down })] {
        let mut star = Star::new(1, links);
        let delivered = star.run(load, TURN * 2_000);
        assert!(delivered.packets > 10_000, "{links} links: {delivered:?}");
        assert_eq!(star.repaired(), 0, "{links} links");
    }
}
