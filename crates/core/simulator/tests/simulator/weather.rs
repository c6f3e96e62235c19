//! Scenarios drawn at random: any weather, and calm.

use braid_simulator::{
    Action, Capacity, ClockSpec, Congestion, DirectionModel, Lane, LinkSpec, Loss, Reorder,
    Scenario, Traffic, TrafficKind,
};
use braid_tunnel::LinkConfig;
use braid_units::{ByteSize, Rate, Ratio};
use proptest::prelude::*;
use std::time::Duration;

/// Every link works again for so long before the end.
pub const QUIET_END: Duration = Duration::from_secs(3);

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn share(of: std::ops::Range<f64>) -> impl Strategy<Value = Ratio> {
    of.prop_map(Ratio::from_fraction)
}

fn loss() -> impl Strategy<Value = Loss> {
    prop_oneof![
        3 => Just(Loss::None),
        2 => share(0.0..0.03).prop_map(Loss::Random),
        1 => (share(0.001..0.03), 1.0..20.0).prop_map(|(mean, packets)| Loss::bursty(mean, packets)),
    ]
}

/// `rates` in kbit/s.
fn direction(rates: std::ops::Range<u64>) -> impl Strategy<Value = DirectionModel> {
    let rare = |most: f64| prop_oneof![3 => Just(Ratio::ZERO), 1 => share(0.0..most)];
    (rates, 1u64..120, 0u64..30, loss(), 50u64..500, rare(0.05), rare(0.03), rare(0.02)).prop_map(
        |(kbit, delay, jitter, loss, queue, reorder, duplicate, corrupt)| {
            let rate = Rate::from_bits_per_sec(kbit * 1000);
            DirectionModel {
                capacity: Capacity::Rate(rate),
                delay: millis(delay),
                jitter: millis(jitter),
                loss,
                queue: ByteSize::from_bytes(rate.bytes_in(millis(queue)).max(8_000)),
                reorder: Reorder { share: reorder, by: millis(20) },
                duplicate,
                corrupt,
            }
        },
    )
}

fn link() -> impl Strategy<Value = LinkSpec> {
    let mtu = prop_oneof![Just(1500u16), Just(1492), 1280u16..1500];
    (direction(300..20_000), direction(200..10_000), mtu, any::<bool>()).prop_map(
        |(down, up, mtu, nat)| LinkSpec {
            home: 0,
            down,
            up,
            mtu,
            nat,
            config: LinkConfig::default(),
        },
    )
}

fn traffic() -> impl Strategy<Value = Traffic> {
    let kind = prop_oneof![
        (20u64..400, 20usize..1470)
            .prop_map(|(kb, size)| TrafficKind::Greedy { backlog: kb * 1000, size }),
        (50u64..3000, 20usize..1470).prop_map(|(kbit, size)| TrafficKind::Constant {
            rate: Rate::from_bits_per_sec(kbit * 1000),
            size
        }),
        Just(TrafficKind::Voip),
        (5u64..200).prop_map(|ms| TrafficKind::Ping { interval: millis(ms) }),
        (any::<bool>(), any::<bool>()).prop_map(|(cubic, super_packets)| TrafficKind::Tcp {
            congestion: if cubic { Congestion::Cubic } else { Congestion::Reno },
            super_packets
        }),
    ];
    (any::<bool>(), kind)
        .prop_map(|(down, kind)| Traffic::new(if down { Lane::Down } else { Lane::Up }, kind))
}

/// Something that happens to one of `links` links; outages end again.
fn trouble(links: usize, until: u64) -> impl Strategy<Value = Vec<(Duration, Action)>> {
    let at = 0..until;
    (0..links, at.clone(), at, 0u8..10, direction(300..20_000)).prop_map(
        |(link, a, b, what, spec)| {
            let (from, to) = (millis(a.min(b)), millis(a.max(b)));
            match what {
                0..3 => {
                    vec![(from, Action::Blackout(link, true)), (to, Action::Blackout(link, false))]
                }
                3 => vec![(from, Action::Carrier(link, false)), (to, Action::Carrier(link, true))],
                4 => vec![(from, Action::Rebind(link))],
                5 => vec![(from, Action::Roam(link))],
                6 => vec![(from, Action::Mtu(link, 1280 + (b % 220) as u16))],
                7 => vec![(from, Action::RestartHome(0))],
                8 => vec![(from, Action::Remove(link)), (to, Action::Add(link))],
                _ => vec![(from, Action::SetDown(link, spec))],
            }
        },
    )
}

fn clocks() -> impl Strategy<Value = ClockSpec> {
    (0u64..10_000_000, -200i32..200)
        .prop_map(|(ms, drift_ppm)| ClockSpec { offset: millis(ms), drift_ppm })
}

/// Anything.
pub fn weather() -> impl Strategy<Value = Scenario> {
    let duration = 5000u64..8000;
    (proptest::collection::vec(link(), 1..5), duration).prop_flat_map(|(links, duration)| {
        let until = duration - QUIET_END.as_millis() as u64;
        (
            Just((links.clone(), duration)),
            any::<u64>(),
            proptest::collection::vec(traffic(), 1..5),
            proptest::collection::vec(trouble(links.len(), until), 0..5),
            (clocks(), clocks()),
            (2u64..32, prop_oneof![Just(600_000u64), 500u64..3000]),
        )
            .prop_map(
                |((links, duration), seed, traffic, troubles, clocks, (memory, expiry))| {
                    let mut scenario = Scenario::new(links).lasting(millis(duration));
                    scenario.seed = seed;
                    scenario.traffic = traffic;
                    scenario.memory = memory << 20;
                    scenario.path_expiry = millis(expiry);
                    (scenario.home_clock, scenario.concentrator_clock) = clocks;
                    for (at, action) in troubles.into_iter().flatten() {
                        scenario = scenario.event(at, action);
                    }
                    scenario
                },
            )
    })
}

/// Links that don't change, with buffers of 100 ms or more, and one greedy
/// download. What the links lose is lost at random, up to 3 %.
pub fn calm() -> impl Strategy<Value = Scenario> {
    (proptest::collection::vec(link(), 1..5), any::<u64>()).prop_map(|(mut links, seed)| {
        for link in &mut links {
            let Capacity::Rate(down) = link.down.capacity else { continue };
            link.down.reorder = Reorder::NONE;
            (link.down.corrupt, link.up.corrupt) = (Ratio::ZERO, Ratio::ZERO);
            link.down.loss = Loss::Random(link.down.loss.mean());
            link.up.loss = Loss::Random(link.up.loss.mean());
            let queue = ByteSize::from_bytes(down.bytes_in(millis(100)).max(16_000));
            link.down.queue = link.down.queue.max(queue);
            link.up.queue = link.up.queue.max(ByteSize::from_bytes(16_000));
        }
        let greedy = TrafficKind::Greedy { backlog: 300_000, size: 1400 };
        let mut scenario = Scenario::new(links).traffic(Traffic::new(Lane::Down, greedy));
        scenario.seed = seed;
        scenario
    })
}
