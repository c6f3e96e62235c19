//! Scenarios that have a name, to look at and to tune by.

use crate::network::LinkSpec;
use crate::scenario::{Action, Scenario};
use crate::traffic::{Lane, Traffic};
use braid_link_model::{Capacity, DirectionModel, Loss, Trace};
use braid_units::{ByteSize, Rate, Ratio};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The names that [`named`] knows.
pub const NAMES: [&str; 15] = [
    "six-3g",
    "cable-dsl-lte",
    "starlink-lte",
    "step",
    "recorded-3g",
    "recorded-4g",
    "recorded-mix",
    "swinging",
    "blackout-best",
    "blackout-all",
    "gigabit",
    "single",
    "mixed-N",
    "slow-N",
    "harsh-N",
];

/// Recordings; the scenarios named after them need them.
const TRACES: &str = "../shared/traces";
const UMTS: &str = "TMobile-UMTS-driving";
const ATT: &str = "ATT-LTE-driving-2016";
const TMOBILE: &str = "TMobile-LTE-short";
const VERIZON: &str = "Verizon-LTE-short";

/// The scenario of this name: one TCP download (cubic) and pings. `None` if
/// there is none, or its recording can't be read.
pub fn named(name: &str) -> Option<Scenario> {
    let secs = Duration::from_secs;
    let scenario = match name {
        "six-3g" => Scenario::new(six_3g()).lasting(secs(20)),
        "cable-dsl-lte" => Scenario::new(cable_dsl_lte()).lasting(secs(20)),
        "starlink-lte" => starlink_lte(),
        "step" => step(),
        "recorded-3g" => recorded(&[10, 130, 250, 370, 490, 610].map(|at| (UMTS, at)))?,
        "recorded-4g" => {
            recorded(&[(ATT, 0), (ATT, 55), (VERIZON, 5), (VERIZON, 75), (TMOBILE, 30)])?
        }
        "recorded-mix" => recorded(&[(UMTS, 10), (UMTS, 610), (ATT, 30), (VERIZON, 40)])?,
        "swinging" => swinging()?,
        "blackout-best" => Scenario::new(cable_dsl_lte())
            .lasting(secs(20))
            .event(secs(6), Action::Blackout(0, true))
            .event(secs(12), Action::Blackout(0, false)),
        "blackout-all" => {
            let mut scenario = Scenario::new(cable_dsl_lte()).lasting(secs(40));
            for link in 0..3 {
                scenario = scenario
                    .event(secs(6), Action::Blackout(link, true))
                    .event(secs(26), Action::Blackout(link, false));
            }
            scenario
        }
        "gigabit" => {
            let rate = Rate::from_mbit(500);
            let link = LinkSpec::clean(rate, rate, Duration::from_millis(3));
            Scenario::new(vec![link.clone(), link]).lasting(secs(4))
        }
        "single" => Scenario::new(vec![six_3g().swap_remove(0)]).lasting(secs(20)),
        _ => match name.split_once('-')? {
            ("mixed", number) => mixed(number.parse().ok()?, 300e6),
            ("slow", number) => mixed(number.parse().ok()?, 40e6),
            ("harsh", number) => harsh(number.parse().ok()?),
            _ => return None,
        },
    };
    Some(scenario.traffic(Traffic::tcp(Lane::Down)).traffic(Traffic::ping()))
}

fn six_3g() -> Vec<LinkSpec> {
    [6_000, 6_000, 6_000, 5_000, 3_500, 2_000]
        .map(|kbit| {
            let direction = |kbit: u64, queue| DirectionModel {
                jitter: Duration::from_millis(20),
                loss: Loss::Random(Ratio::from_fraction(0.005)),
                queue: ByteSize::from_bytes(queue),
                ..DirectionModel::clean(
                    Rate::from_bits_per_sec(kbit * 1000),
                    Duration::from_millis(30),
                )
            };
            LinkSpec {
                mtu: 1492,
                ..LinkSpec::new(direction(kbit, 200_000), direction(500, 64_000))
            }
        })
        .into()
}

fn cable_dsl_lte() -> Vec<LinkSpec> {
    [(30, 6, 7_500, 1), (20, 2, 20_000, 1), (10, 4, 40_000, 2)]
        .map(|(down, up, delay_us, jitter)| {
            let direction = |mbit| {
                let rate = Rate::from_mbit(mbit);
                DirectionModel {
                    jitter: Duration::from_millis(jitter),
                    queue: ByteSize::from_bytes(rate.bytes_in(Duration::from_millis(200))),
                    ..DirectionModel::clean(rate, Duration::from_micros(delay_us))
                }
            };
            LinkSpec::new(direction(down), direction(up))
        })
        .into()
}

/// The `number`th random set of two to five steady links, as homes have them,
/// the fastest with `most` bits a second.
fn mixed(number: u64, most: f64) -> Scenario {
    let mut rng = fastrand::Rng::with_seed(number);
    let mut between = |low: f64, high: f64| low * (high / low).powf(rng.f64());
    let links = (0..between(2.0, 6.0) as usize).map(|_| {
        let down = Rate::from_bits_per_sec(between(most / 40.0, most) as u64);
        let up = Rate::from_bits_per_sec(down.bits_per_sec() / between(1.0, 10.0) as u64);
        let delay = Duration::from_secs_f64(between(0.004, 0.100));
        let jitter = delay.mul_f64(between(0.03, 0.4));
        let loss = Loss::Random(Ratio::from_fraction(between(1e-5, 5e-3)));
        let queue = Duration::from_secs_f64(between(0.03, 0.3));
        let direction = |rate: Rate| DirectionModel {
            jitter,
            loss,
            queue: ByteSize::from_bytes(rate.bytes_in(queue).max(32_000)),
            ..DirectionModel::clean(rate, delay)
        };
        LinkSpec::new(direction(down), direction(up))
    });
    Scenario::new(links.collect()).lasting(Duration::from_secs(10))
}

/// The `number`th random set of one to five steady links that may each be as odd
/// as links are: from a modem's 9600 bits a second to a cable's hundred million,
/// a jitter of up to 200 ms, queues from one packet on. One is no modem.
fn harsh(number: u64) -> Scenario {
    let mut rng = fastrand::Rng::with_seed(number);
    let mut between = |low: f64, high: f64| low * (high / low).powf(rng.f64());
    let links = (0..between(1.0, 6.0) as usize).map(|link| {
        let slowest = if link == 0 { 2e6 } else { 9600.0 };
        let down = between(slowest, 100e6);
        let up = (down / between(1.0, 10.0)).max(9600.0);
        let delay = Duration::from_secs_f64(between(0.002, 0.300));
        let jitter = Duration::from_secs_f64(between(0.0005, 0.200));
        let loss = Loss::Random(Ratio::from_fraction(between(1e-5, 0.03)));
        let queue = ByteSize::from_bytes(between(1500.0, down / 8.0 * 0.5 + 1500.0) as u64);
        let direction = |rate: f64| DirectionModel {
            jitter,
            loss,
            queue,
            ..DirectionModel::clean(Rate::from_bits_per_sec(rate as u64), delay)
        };
        LinkSpec::new(direction(down), direction(up))
    });
    Scenario::new(links.collect()).lasting(Duration::from_secs(12))
}

fn starlink_lte() -> Scenario {
    let satellite = |delay| DirectionModel {
        jitter: Duration::from_millis(5),
        loss: Loss::bursty(Ratio::from_fraction(0.005), 8.0),
        ..DirectionModel::clean(Rate::from_mbit(60), Duration::from_millis(delay))
    };
    let starlink = LinkSpec {
        down: satellite(30),
        ..LinkSpec::clean(Rate::ZERO, Rate::from_mbit(10), Duration::from_millis(30))
    };
    let lte = LinkSpec {
        down: DirectionModel {
            jitter: Duration::from_millis(5),
            ..DirectionModel::clean(Rate::from_mbit(25), Duration::from_millis(35))
        },
        ..LinkSpec::clean(Rate::ZERO, Rate::from_mbit(8), Duration::from_millis(35))
    };
    let mut scenario = Scenario::new(vec![starlink, lte]).lasting(Duration::from_secs(60));
    for (turn, delay) in [80, 30, 60].into_iter().enumerate() {
        let at = Duration::from_secs(15 * (turn as u64 + 1));
        scenario = scenario.event(at, Action::SetDown(0, satellite(delay)));
    }
    scenario
}

fn step() -> Scenario {
    let kbit = |kbit: u64| DirectionModel {
        queue: ByteSize::from_bytes(200_000),
        ..DirectionModel::clean(Rate::from_bits_per_sec(kbit * 1000), Duration::from_millis(30))
    };
    let link = LinkSpec {
        down: kbit(6000),
        ..LinkSpec::clean(Rate::ZERO, Rate::from_mbit(1), Duration::from_millis(30))
    };
    let mut scenario = Scenario::new(vec![link]).lasting(Duration::from_secs(30));
    for turn in 1..6u64 {
        let to = if turn % 2 == 1 { 500 } else { 6000 };
        scenario = scenario.event(Duration::from_secs(5 * turn), Action::SetDown(0, kbit(to)));
    }
    scenario
}

/// Links that play recordings, each from an offset in seconds.
fn recorded(links: &[(&str, u64)]) -> Option<Scenario> {
    let mut read: BTreeMap<PathBuf, Arc<Trace>> = BTreeMap::new();
    let mut direction = |name: &str, way: &str, offset, queue| {
        let file = Path::new(TRACES).join(format!("{name}.{way}.gz"));
        let trace = match read.get(&file) {
            Some(trace) => Arc::clone(trace),
            None => Arc::new(Trace::load(&file).ok()?),
        };
        read.insert(file, Arc::clone(&trace));
        Some(DirectionModel {
            capacity: Capacity::Trace { trace, offset: Duration::from_secs(offset) },
            queue: ByteSize::from_bytes(queue),
            ..DirectionModel::clean(Rate::ZERO, Duration::from_millis(30))
        })
    };
    let links = links.iter().map(|&(name, offset)| {
        Some(LinkSpec {
            mtu: 1492,
            ..LinkSpec::new(
                direction(name, "down", offset, 200_000)?,
                direction(name, "up", offset, 64_000)?,
            )
        })
    });
    let links = links.collect::<Option<Vec<_>>>()?;
    Some(Scenario::new(links).lasting(Duration::from_secs(40)))
}

/// Three fast mobile links whose capacities swing, each at its own pace: from a
/// tenth to the whole, some of them in a second, as on a train.
fn swinging() -> Option<Scenario> {
    let links = [(40.0, 1.3, 15), (20.0, 2.9, 25), (60.0, 0.7, 10)];
    let links = links.into_iter().map(|(mbit, period, delay)| {
        let delay = Duration::from_millis(delay);
        Some(LinkSpec {
            down: DirectionModel {
                capacity: Capacity::Trace { trace: swing(mbit, period)?, offset: Duration::ZERO },
                queue: ByteSize::from_bytes(500_000),
                ..DirectionModel::clean(Rate::ZERO, delay)
            },
            ..LinkSpec::clean(Rate::ZERO, Rate::from_mbit(8), delay)
        })
    });
    let links = links.collect::<Option<Vec<_>>>()?;
    Some(Scenario::new(links).lasting(Duration::from_secs(40)))
}

/// Opportunities whose rate is swept through a decade, log-linearly, up and
/// down again in `period` seconds (times one to two, by turns).
fn swing(mbit: f64, period: f64) -> Option<Arc<Trace>> {
    let mut millis = Vec::new();
    let (mut due, mut phase) = (0.0, 0.0f64);
    for ms in 0..120_000u32 {
        let turn = phase.floor();
        phase += 0.001 / (period * (1.0 + (turn * 0.618).fract()));
        let swept = (phase.fract() * 2.0 - 1.0).abs();
        due += mbit * 10f64.powf(swept - 1.0) * 1e6 / 8.0 / 1000.0 / 1500.0;
        while due >= 1.0 {
            millis.push(ms);
            due -= 1.0;
        }
    }
    Trace::from_millis(millis).map(Arc::new)
}
