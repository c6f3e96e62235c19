//! Some points of the space that `map` looks over: the ledger holds everywhere.

use braid_simulator::Point;
use std::sync::atomic::{AtomicU64, Ordering};

const POINTS: u64 = 20;

#[test]
fn at_points_drawn_from_the_whole_space_no_rule_is_broken_and_data_flows() {
    let next = AtomicU64::new(0);
    let work = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= POINTS {
                return;
            }
            let point = Point::draw(number);
            let outcome = point.by_tunnel();
            assert_eq!(outcome.violations, [""; 0], "point {number}: {point}");
            let bytes: u64 = outcome.flows[1..].iter().flat_map(|flow| &flow.tenths).sum();
            assert!(bytes > 50_000, "point {number}: {bytes} bytes, {point}");
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(work);
        scope.spawn(work);
    });
}
