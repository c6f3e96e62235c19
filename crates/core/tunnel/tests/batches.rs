//! A batch is cut by the kernel at each multiple of its first datagram's length:
//! what is written must fit that, or all after it is lost.

#[path = "../benches/star/mod.rs"]
mod star;

use star::{Load, Star, TURN};

#[test]
fn packets_of_any_size_fill_batches_that_are_cut_right() {
    // Their ends come to lie at each place of a datagram.
    let stream = Load { size: 600, packets: 16, up: false, down: true, busy: 1 };
    let mut star = Star::new(1, 1);
    star.run(stream, TURN * 4_000);
    for size in 600..1600 {
        let stream = Load { size, ..stream };
        let delivered = star.run(stream, TURN * 20);
        assert!(delivered.packets > 200, "{size} bytes: {delivered:?}");
        assert_eq!(star.repaired(), 0, "{size} bytes");
    }
}
