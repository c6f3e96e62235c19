//! What the tunnel itself costs on a slow link: reports, headers.

use crate::support::{constant, link, play_without_loss, secs};
use braid_simulator::{Lane, Scenario};
use braid_tunnel::Heuristics;

/// IP bytes that a link of a megabit delivers, of the same packets each way.
fn bytes(heuristics: Heuristics) -> f64 {
    let mut scenario = Scenario::new(vec![link(1, 1, 10)])
        .lasting(secs(8))
        .traffic(constant(Lane::Down, 600, 1000))
        .traffic(constant(Lane::Up, 600, 1000));
    scenario.heuristics = heuristics;
    let (down, up) = play_without_loss(scenario).link_bytes[0];
    (down + up) as f64
}

#[test]
fn reports_ride_with_data() {
    let (with, without) =
        (bytes(Heuristics::ALL), bytes(Heuristics { report_riding: false, ..Heuristics::ALL }));
    assert!(with < 0.97 * without, "{with} and {without}");
}

#[test]
fn headers_are_compressed() {
    let (with, without) = (
        bytes(Heuristics::ALL),
        bytes(Heuristics { header_compression: false, ..Heuristics::ALL }),
    );
    assert!(with < 0.985 * without, "{with} and {without}");
}
