//! Many links cost no more than one. Where nothing is lost nothing is sent again:
//! their reports don't fit into one datagram then. Where the processor is the
//! limit a stream keeps to one of them for a while.

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

#[test]
fn a_stream_changes_links_seldom_where_the_cpu_is_the_bottleneck() {
    let stream = Load { size: Load::SUPER, packets: 1, up: false, down: true, busy: 1 };
    // A packet a turn is 10 Gbit/s; with pauses it's what slower processors take.
    for (links, pauses) in [(2, 1), (8, 1), (2, 8), (8, 8)] {
        let mut star = Star::new(1, links).with_pauses(pauses).cpu_bound();
        star.run(stream, TURN * 4_000 * pauses as u32);
        star.take_streamed();
        let delivered = star.run(stream, TURN * 8_000 * pauses as u32);
        let streamed = star.take_streamed();
        let load = format!("{links} links, a packet in {pauses} turns");
        assert!(delivered.packets > 7_500, "{load}: {delivered:?}");
        assert!(streamed.changes * 20 < streamed.batches, "{load}: {streamed:?}");
    }
}
