//! Pairs of links such as others publish figures of: one TCP connection, or several, by
//! what sends.

use super::{Options, of_each};
use braid_simulator::{
    Congestion, DirectionModel, Lane, LinkSpec, Loss, Scenario, Simulation, Traffic, TrafficKind,
    play_plain,
};
use braid_units::{ByteSize, Rate, Ratio};
use std::time::Duration;

const FROM: Duration = Duration::from_secs(1);
const LASTING: Duration = Duration::from_secs(15);

/// One link, both directions alike but for the rate.
#[derive(Clone, Copy)]
struct Link {
    down_mbit: f64,
    up_mbit: f64,
    round_trip_ms: f64,
    jitter_ms: f64,
    loss: f64,
    queue_ms: f64,
}

const fn link(mbit: f64, round_trip_ms: f64) -> Link {
    Link {
        down_mbit: mbit,
        up_mbit: mbit / 4.0,
        round_trip_ms,
        jitter_ms: 0.0,
        loss: 0.0,
        queue_ms: 100.0,
    }
}

struct Profile {
    name: &'static str,
    links: [Link; 2],
    lane: Lane,
    flows: usize,
}

fn profiles() -> Vec<Profile> {
    let down = |name, links| Profile { name, links, lane: Lane::Down, flows: 1 };
    let near = link(50.0, 20.0);
    let jittery = Link { jitter_ms: 20.0, ..link(50.0, 40.0) };
    let lossy = Link { loss: 0.02, ..link(45.0, 40.0) };
    let congested = Link { loss: 0.005, queue_ms: 600.0, jitter_ms: 15.0, ..link(15.0, 60.0) };
    let geo = Link { queue_ms: 500.0, loss: 0.002, ..link(20.0, 600.0) };
    let starlink = Link { jitter_ms: 12.0, loss: 0.005, ..link(120.0, 45.0) };
    let lte = Link { jitter_ms: 8.0, queue_ms: 300.0, ..link(40.0, 50.0) };
    let up = |flows| Profile {
        name: if flows == 1 { "1 up, 300 and 80" } else { "16 up, 300 and 80" },
        links: [
            Link { up_mbit: 300.0, ..link(300.0, 10.0) },
            Link { up_mbit: 80.0, ..link(80.0, 30.0) },
        ],
        lane: Lane::Up,
        flows,
    };
    vec![
        down("equal", [near, near]),
        down("delays 1 : 2", [near, link(50.0, 40.0)]),
        down("delays 1 : 3", [near, link(50.0, 60.0)]),
        down("delays 1 : 4", [near, link(50.0, 80.0)]),
        down("delays 1 : 6", [near, link(50.0, 120.0)]),
        down("delays 1 : 16", [near, link(50.0, 320.0)]),
        down("16 Mbit/s 10 ms, 150 50", [link(16.0, 10.0), link(150.0, 50.0)]),
        down("50 Mbit/s 8 ms, 200 40", [link(50.0, 8.0), link(200.0, 40.0)]),
        down("LTE and GEO", [lte, geo]),
        down("jitter as large as the delay", [jittery, jittery]),
        down("2 % lost each way", [lossy, lossy]),
        down("300 and 30 Mbit/s", [link(300.0, 20.0), link(30.0, 40.0)]),
        down("LTE and Starlink", [lte, starlink]),
        down("two congested LTE", [congested, congested]),
        up(1),
        up(16),
    ]
}

pub(super) fn print(options: &Options) {
    println!(
        "{:32} {:>9} | {:>23} | {:>23} | {:>23}",
        "of the links' sum by BBR, least, med.", "best link", "cubic", "BBR", "BBRv3"
    );
    for profile in profiles().into_iter().filter(|it| it.name.contains(&options.profile)) {
        let sum: Vec<f64> = (0..2).map(|link| alone(&profile, Congestion::Bbr, link)).collect();
        let best = sum.iter().copied().fold(0.0, f64::max);
        let sum: f64 = sum.iter().sum();
        print!("{:36} {:9.2}", profile.name, best / sum);
        for congestion in [Congestion::Cubic, Congestion::Bbr, Congestion::Bbr3] {
            let alone = match congestion {
                Congestion::Bbr => best,
                _ => (0..2).map(|l| alone(&profile, congestion, l)).fold(0.0, f64::max),
            };
            let mut by_tunnel =
                of_each(options, |seed| tunnel(&profile, congestion, seed, options) / sum);
            by_tunnel.sort_by(f64::total_cmp);
            print!(
                " | {:.2} {:.2} (best {:.2})",
                by_tunnel[0],
                by_tunnel[by_tunnel.len() / 2],
                alone / sum
            );
        }
        println!();
    }
}

fn alone(profile: &Profile, congestion: Congestion, link: usize) -> f64 {
    let mut scenario = scenario(profile, 1);
    scenario.traffic = traffic(profile, congestion, false);
    goodput(&play_plain(&scenario, link))
}

fn tunnel(profile: &Profile, congestion: Congestion, seed: u64, options: &Options) -> f64 {
    let mut scenario = scenario(profile, seed);
    scenario.heuristics = options.heuristics;
    scenario.traffic = traffic(profile, congestion, true);
    goodput(&Simulation::play(scenario).flows)
}

fn goodput(flows: &[braid_simulator::FlowOutcome]) -> f64 {
    flows.iter().map(|flow| flow.mbit(FROM, LASTING)).sum()
}

fn traffic(profile: &Profile, congestion: Congestion, super_packets: bool) -> Vec<Traffic> {
    let kind = TrafficKind::Tcp { congestion, super_packets };
    vec![Traffic::new(profile.lane, kind).from(FROM); profile.flows]
}

fn scenario(profile: &Profile, seed: u64) -> Scenario {
    let links = profile.links.iter().map(|link| {
        let direction = |mbit: f64| DirectionModel {
            jitter: Duration::from_secs_f64(link.jitter_ms * 1e-3),
            loss: Loss::random(Ratio::from_fraction(link.loss)),
            queue: ByteSize::from_bytes((mbit * 125.0 * link.queue_ms) as u64),
            ..DirectionModel::clean(
                Rate::from_bits_per_sec((mbit * 1e6) as u64),
                Duration::from_secs_f64(link.round_trip_ms * 0.5e-3),
            )
        };
        LinkSpec::new(direction(link.down_mbit), direction(link.up_mbit))
    });
    let mut scenario = Scenario::new(links.collect()).lasting(LASTING);
    scenario.seed = seed;
    scenario
}
