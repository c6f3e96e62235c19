//! Links that lose, are dark, overtake and repeat: UDP at 70 % of what they have, and
//! TCP, beside the best link alone and what is left of the links.

use super::{Options, heading, of_each, row};
use braid_simulator::{
    Action, Congestion, DirectionModel, Lane, LinkSpec, Loss, Reorder, Scenario, Simulation,
    Traffic, TrafficKind, play_plain,
};
use braid_units::{ByteSize, Rate, Ratio};
use fastrand::Rng;
use std::time::Duration;

/// Tunnel and slow start are over.
const FROM: Duration = Duration::from_secs(4);
const LASTING: Duration = Duration::from_secs(16);
/// Of the links' rates.
const OFFERED: f64 = 0.7;
/// Payload of a UDP packet, and with its headers.
const UDP: [usize; 2] = [1200, 1228];
/// What TCP's payload can be of IP bytes (MTU 1500, timestamps).
const PAYLOAD: f64 = 1448.0 / 1500.0;

/// What is wrong with each link, both ways.
#[derive(Clone, Copy)]
struct Weather {
    name: &'static str,
    loss: f64,
    /// Dark for 300 ms, each 2 to 8 s.
    dark: bool,
    /// Of the packets, by 100 ms.
    reordered: f64,
    twice: f64,
}

const WEATHERS: [Weather; 5] = [
    Weather { name: "10 % lost", loss: 0.10, dark: false, reordered: 0.0, twice: 0.0 },
    Weather { name: "dark for 300 ms", loss: 0.0, dark: true, reordered: 0.0, twice: 0.0 },
    Weather { name: "5 % late by 100 ms", loss: 0.0, dark: false, reordered: 0.05, twice: 0.0 },
    Weather { name: "5 % twice", loss: 0.0, dark: false, reordered: 0.0, twice: 0.05 },
    Weather { name: "all of it", loss: 0.10, dark: true, reordered: 0.05, twice: 0.05 },
];

pub(super) fn print(options: &Options) {
    for weather in WEATHERS {
        let udp = of_each(options, |seed| udp(seed, weather, options));
        heading(&format!("{}: UDP at 70 %", weather.name));
        row("lost, %", udp.iter().map(|f| f[0]));
        row("out of order, %", udp.iter().map(|f| f[1]));
        for (name, congestion) in [("cubic", Congestion::Cubic), ("bbr", Congestion::Bbr)] {
            let tcp = of_each(options, |seed| tcp(seed, weather, congestion, options));
            row(&format!("{name}, by the best link alone"), tcp.iter().map(|f| f[0]));
            row(&format!("{name}, by what the links carry net"), tcp.iter().map(|f| f[1]));
        }
    }
}

fn udp(seed: u64, weather: Weather, options: &Options) -> [f64; 2] {
    let mut scenario = scenario(seed, weather, options);
    let sum: f64 = scenario.links.iter().map(|link| bits(&link.down)).sum();
    let rate = sum * OFFERED * UDP[0] as f64 / UDP[1] as f64;
    let rate = Rate::from_bits_per_sec(rate as u64);
    let kind = TrafficKind::Constant { rate, size: UDP[0] };
    scenario.traffic = vec![Traffic::new(Lane::Down, kind).from(FROM)];
    let outcome = Simulation::play(scenario);
    let flow = &outcome.flows[0];
    let sent = flow.sent[0].max(1) as f64;
    [(1.0 - flow.delivered[0] as f64 / sent) * 100.0, flow.reordered as f64 / sent * 100.0]
}

fn tcp(seed: u64, weather: Weather, congestion: Congestion, options: &Options) -> [f64; 2] {
    let mut scenario = scenario(seed, weather, options);
    let traffic = |super_packets| {
        let kind = TrafficKind::Tcp { congestion, super_packets };
        vec![Traffic::new(Lane::Down, kind).from(Duration::from_secs(1))]
    };
    scenario.traffic = traffic(false);
    let alone =
        (0..scenario.links.len()).map(|link| play_plain(&scenario, link)[0].mbit(FROM, LASTING));
    let best = alone.fold(0.0, f64::max);
    let net = scenario.capacity(true, FROM, LASTING) as f64 * 8e-6 / (LASTING - FROM).as_secs_f64();
    let net = net * (1.0 - weather.loss) / (1.0 + weather.twice) * PAYLOAD;
    scenario.traffic = traffic(true);
    let got = Simulation::play(scenario).flows[0].mbit(FROM, LASTING);
    [got / best, got / net]
}

/// Two to four links of 4 to 40 Mbit/s and 10 to 100 ms.
fn scenario(seed: u64, weather: Weather, options: &Options) -> Scenario {
    let mut rng = Rng::with_seed(seed);
    let links: Vec<LinkSpec> = (0..rng.usize(2..=4)).map(|_| link(&mut rng, weather)).collect();
    let count = links.len();
    let mut scenario = Scenario::new(links).lasting(LASTING);
    (scenario.seed, scenario.heuristics) = (seed, options.heuristics);
    if weather.dark {
        for link in 0..count {
            let mut at = Duration::from_secs_f64(8.0 * rng.f64());
            while at < LASTING {
                scenario = scenario.event(at, Action::Blackout(link, true));
                at += Duration::from_millis(300);
                scenario = scenario.event(at, Action::Blackout(link, false));
                at += Duration::from_secs_f64(2.0 + 6.0 * rng.f64());
            }
        }
    }
    scenario
}

fn link(rng: &mut Rng, weather: Weather) -> LinkSpec {
    let mut between = |low: f64, high: f64| low * (high / low).powf(rng.f64());
    let (rate, up, delay) = (between(4e6, 40e6), between(1.0, 6.0), between(0.005, 0.050));
    let direction = |rate: f64| DirectionModel {
        loss: Loss::random(Ratio::from_fraction(weather.loss)),
        reorder: Reorder {
            share: Ratio::from_fraction(weather.reordered),
            by: Duration::from_millis(100),
        },
        duplicate: Ratio::from_fraction(weather.twice),
        queue: ByteSize::from_bytes((rate / 8.0 * 0.1) as u64),
        ..DirectionModel::clean(
            Rate::from_bits_per_sec(rate as u64),
            Duration::from_secs_f64(delay),
        )
    };
    LinkSpec::new(direction(rate), direction(rate / up))
}

fn bits(direction: &DirectionModel) -> f64 {
    direction.capacity.mean_rate().bits_per_sec() as f64
}
