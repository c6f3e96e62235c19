//! Links that lose a tenth, are overtaken in by a tenth of a second, and repeat: datagrams at 70 %
//! of what they have come out, in order, and TCP gets what they carry net.

use braid_simulator::{
    DirectionModel, FlowOutcome, Lane, LinkSpec, Loss, Reorder, Scenario, Simulation, Traffic,
    TrafficKind,
};
use braid_units::{ByteSize, Rate, Ratio};
use std::time::Duration;

/// Mbit/s down and up, ms there and back.
const LINKS: [(u64, u64, u64); 3] = [(20, 5, 30), (10, 4, 50), (6, 2, 80)];
const UDP: usize = 1200;
/// What it's counted from, after slow start.
const FROM: Duration = Duration::from_secs(3);
const LASTING: Duration = Duration::from_secs(10);

/// What makes a link hard.
#[derive(Clone, Copy, Debug)]
struct Weather {
    lost: f64,
    late: f64,
    twice: f64,
}

const WEATHERS: [Weather; 3] = [
    Weather { lost: 0.10, late: 0.0, twice: 0.0 },
    Weather { lost: 0.0, late: 0.05, twice: 0.0 },
    Weather { lost: 0.0, late: 0.0, twice: 0.05 },
];

fn play(weather: Weather, kind: TrafficKind) -> FlowOutcome {
    let direction = |mbit: u64, round_trip: u64| DirectionModel {
        loss: Loss::random(Ratio::from_fraction(weather.lost)),
        reorder: Reorder {
            share: Ratio::from_fraction(weather.late),
            by: Duration::from_millis(100),
        },
        duplicate: Ratio::from_fraction(weather.twice),
        queue: ByteSize::from_bytes(mbit * 12_500),
        ..DirectionModel::clean(Rate::from_mbit(mbit), Duration::from_millis(round_trip / 2))
    };
    let links = LINKS.map(|(down, up, round_trip)| {
        LinkSpec::new(direction(down, round_trip), direction(up, round_trip))
    });
    let traffic = Traffic::new(Lane::Down, kind).from(Duration::from_secs(2));
    let outcome = Simulation::play(Scenario::new(links.to_vec()).lasting(LASTING).traffic(traffic));
    assert_eq!(outcome.violations, [""; 0], "{weather:?}");
    outcome.flows[0].clone()
}

fn sum() -> Rate {
    Rate::from_mbit(LINKS.iter().map(|(down, ..)| down).sum())
}

#[test]
fn datagrams_at_70_percent_of_the_sum_come_out_in_order() {
    for weather in WEATHERS {
        let rate = sum().scaled(0.7 * UDP as f64 / (UDP + 28) as f64);
        let flow = play(weather, TrafficKind::Constant { rate, size: UDP });
        let lost = flow.lost() as f64 / flow.sent[0] as f64;
        assert!(lost <= 0.001, "{weather:?}: {lost}");
        assert_eq!(flow.reordered, 0, "{weather:?}");
    }
}

#[test]
fn tcp_gets_what_the_links_carry_net() {
    for weather in WEATHERS {
        let Traffic { kind, .. } = Traffic::tcp(Lane::Down);
        let mbit = play(weather, kind).mbit(FROM, LASTING);
        let net =
            sum().bytes_per_sec() as f64 * 8e-6 * (1.0 - weather.lost) / (1.0 + weather.twice);
        let share = mbit / (net * 1448.0 / 1500.0);
        assert!(share > 0.8, "{weather:?}: {mbit:.1} Mbit/s, {share:.2} of it");
    }
}
