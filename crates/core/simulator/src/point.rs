//! Points of the space that a tunnel must hold in: links, ends, senders drawn at
//! random, and what the tunnel gives there beside the links by themselves.

mod lab;

pub use lab::link_name;

use crate::network::LinkSpec;
use crate::plain::play_plain;
use crate::scenario::{Action, Scenario, Stalls};
use crate::simulation::Simulation;
use crate::traffic::{Congestion, Lane, Traffic, TrafficKind};
use crate::{FlowOutcome, Outcome};
use braid_link_model::{Capacity, DirectionModel, Loss, Reorder};
use braid_tunnel::Heuristics;
use braid_units::{ByteSize, Rate, Ratio};
use fastrand::Rng;
use std::fmt;
use std::time::Duration;

/// The tunnel is up by then, whatever the delay, and the flows begin.
const START: Duration = Duration::from_secs(2);
/// Flows last so long that the links could carry this, within the bounds: 2,000
/// points shall take two processors a quarter of an hour.
const CARRIED: f64 = 20e6 * 8.0;
const LASTING: std::ops::RangeInclusive<f64> = 4.0..=12.0;
/// The part of a run that doesn't count: slow start over other delays is another
/// figure.
const WARM_UP: f64 = 0.25;
/// Of the links' rates, what UDP offers.
const OFFERED: f64 = 0.7;
/// Payload of a UDP packet.
const UDP: usize = 1200;
/// What plain TCP takes on a link for each byte of payload (MTU 1500,
/// timestamps).
const PLAIN: f64 = 1500.0 / 1448.0;
/// The 95th percentile of two uniform jitters' sum, as a multiple of one.
const JITTERS_P95: f64 = 1.684;

/// What sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    /// TCP or QUIC with this congestion control.
    Tcp(Congestion),
    /// UDP at a constant rate.
    Udp,
}

impl Sender {
    /// The one that is shown by this name.
    pub fn named(name: &str) -> Option<Self> {
        SENDERS.into_iter().find(|sender| sender.to_string() == name)
    }

    /// Whether the lab has it, too: one of the kernel's own.
    pub fn is_in_lab(self) -> bool {
        !matches!(self, Self::Tcp(Congestion::Bbr3 | Congestion::Quic))
    }
}

/// All of them.
pub const SENDERS: [Sender; 6] = [
    Sender::Tcp(Congestion::Cubic),
    Sender::Tcp(Congestion::Bbr),
    Sender::Tcp(Congestion::Bbr3),
    Sender::Tcp(Congestion::Reno),
    Sender::Tcp(Congestion::Quic),
    Sender::Udp,
];

/// A point.
#[derive(Clone, Debug)]
pub struct Point {
    /// What sends.
    pub sender: Sender,
    /// How many flows each way.
    pub flows: usize,
    /// Towards the home, from it.
    pub lanes: Vec<Lane>,
    /// Some link changes its rate all the time.
    pub volatile: bool,
    /// The links, events, stalls and lasting; without traffic.
    pub scenario: Scenario,
}

/// What the links give without a tunnel, megabits of payload a second.
#[derive(Clone, Copy, Debug)]
pub struct ByLinks {
    /// The most by one link, from the same sender.
    pub best: f64,
    /// Which link that is, counted from 0.
    pub best_link: usize,
    /// Of all links, each by the better of BBR and the same sender (UDP: what
    /// was offered and not lost).
    pub sum: f64,
}

/// What came of a point.
#[derive(Clone, Copy, Debug)]
pub struct Figures {
    /// Megabits of payload a second by the tunnel over all links.
    pub tunnel: f64,
    /// [`ByLinks::best`].
    pub best: f64,
    /// [`ByLinks::sum`].
    pub sum: f64,
    /// The 95th percentile of pings beside it, less that of the best link at rest.
    pub ping_ms: f64,
    /// IP bytes on the links for each byte of payload, by what plain TCP takes.
    pub bytes: f64,
    /// Rules that the tunnel broke.
    pub violations: usize,
}

impl Point {
    /// Point `number` of the space, always the same.
    pub fn draw(number: u64) -> Self {
        let mut rng = Rng::with_seed(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let links: Vec<LinkSpec> = (0..rng.usize(1..=6)).map(|_| link(&mut rng)).collect();
        let sender = SENDERS[rng.usize(0..SENDERS.len())];
        let flows = [1, 4, 32][rng.usize(0..3)];
        let lanes = [vec![Lane::Down], vec![Lane::Up], vec![Lane::Down, Lane::Up]];
        let lanes = lanes[rng.usize(0..3)].clone();
        let rate: f64 = links.iter().map(|l| bits(&l.down) + bits(&l.up)).sum();
        let slowest = links.iter().map(round_trip).fold(0.0, f64::max);
        let lasting = (CARRIED / rate).max(slowest * 15.0).clamp(*LASTING.start(), *LASTING.end());
        let mut scenario = Scenario::new(links).lasting(START + Duration::from_secs_f64(lasting));
        scenario.seed = number + 1;
        scenario.drain = Duration::from_millis(100);
        if rng.f64() < 0.25 {
            scenario.stalls = Some(Stalls { every: Duration::from_millis(500) });
        }
        let volatile = rng.f64() < 0.25;
        if volatile {
            change_rates(&mut scenario, &mut rng);
        }
        // Drawn last: what was drawn before is as in points without it.
        if rng.f64() < 0.25 {
            add_faults(&mut scenario, &mut rng);
        }
        Self { sender, flows, lanes, volatile, scenario }
    }

    /// Plays it, by the tunnel and by each link alone.
    pub fn play(&self) -> Figures {
        self.figures(self.by_links(), &self.by_tunnel())
    }

    /// What the links give without a tunnel.
    pub fn by_links(&self) -> ByLinks {
        let links = self.scenario.links.len();
        let alone: Vec<f64> = (0..links).map(|link| self.alone(self.sender, link)).collect();
        let sum = match self.sender {
            Sender::Udp => alone.iter().sum(),
            Sender::Tcp(_) => {
                let bbr = Sender::Tcp(Congestion::Bbr);
                (0..links).map(|link| self.alone(bbr, link).max(alone[link])).sum()
            }
        };
        let best_link = (0..links).max_by(|&a, &b| alone[a].total_cmp(&alone[b])).unwrap_or(0);
        ByLinks { best: alone[best_link], best_link, sum }
    }

    /// What came of it, from a play by the links and one by the tunnel.
    pub fn figures(&self, ByLinks { best, sum, .. }: ByLinks, outcome: &Outcome) -> Figures {
        let data = &outcome.flows[1..];
        let payload: u64 = data.iter().map(|flow| flow.tenths.iter().sum::<u64>()).sum();
        let carried: u64 = outcome.link_bytes.iter().map(|(down, up)| down + up).sum();
        let p95 = outcome.flows[0].delay_percentile(0.95).unwrap_or(self.scenario.duration);
        Figures {
            tunnel: self.goodput(data),
            best,
            sum,
            ping_ms: p95.as_secs_f64() * 1e3 - self.idle_ping_ms(),
            bytes: carried as f64 / (payload as f64 * PLAIN).max(1.0),
            violations: outcome.violations.len(),
        }
    }

    /// What the tunnel's simulation came to: pings, then the flows.
    pub fn by_tunnel(&self) -> Outcome {
        self.with(Heuristics::ALL)
    }

    /// The same with some heuristics off.
    pub fn with(&self, heuristics: Heuristics) -> Outcome {
        Simulation::play(Scenario { heuristics, ..self.tunnelled() })
    }

    /// The tunnel over all links: pings, then the flows.
    pub fn tunnelled(&self) -> Scenario {
        let mut scenario = self.scenario.clone();
        scenario.traffic = vec![Traffic::ping().from(START)];
        let rate = |lane| self.scenario.links.iter().map(|link| bits(of(link, lane))).sum();
        scenario.traffic.extend(self.traffic(self.sender, true, rate));
        scenario
    }

    /// With one of its links only: what the tunnel takes from a link by itself.
    #[must_use]
    pub fn only(&self, link: usize) -> Self {
        let mut point = self.clone();
        let scenario = &mut point.scenario;
        scenario.links = vec![scenario.links.swap_remove(link)];
        scenario.events.retain_mut(|event| match &mut event.action {
            Action::SetDown(of, _) | Action::SetUp(of, _) if *of == link => {
                *of = 0;
                true
            }
            _ => false,
        });
        point
    }

    /// What becomes of the flows by this link without a tunnel.
    pub fn plain(&self, link: usize) -> Vec<FlowOutcome> {
        self.plain_by(self.sender, link)
    }

    fn alone(&self, sender: Sender, link: usize) -> f64 {
        self.goodput(&self.plain_by(sender, link))
    }

    fn plain_by(&self, sender: Sender, link: usize) -> Vec<FlowOutcome> {
        let Self { mut scenario, .. } = self.only(link);
        let spec = scenario.links[0].clone();
        scenario.traffic = self.traffic(sender, false, |lane| bits(of(&spec, lane)));
        play_plain(&scenario, 0)
    }

    fn traffic(
        &self,
        sender: Sender,
        super_packets: bool,
        rate: impl Fn(Lane) -> f64,
    ) -> Vec<Traffic> {
        let kind = |lane| match sender {
            Sender::Tcp(congestion) => TrafficKind::Tcp { congestion, super_packets },
            Sender::Udp => {
                let bits = rate(lane) * OFFERED / self.flows as f64;
                TrafficKind::Constant { rate: Rate::from_bits_per_sec(bits as u64), size: UDP }
            }
        };
        let flows = self.lanes.iter().flat_map(|&lane| std::iter::repeat_n(lane, self.flows));
        flows.map(|lane| Traffic::new(lane, kind(lane)).from(START)).collect()
    }

    /// Megabits of payload a second of these flows, after their beginning.
    pub fn goodput(&self, flows: &[FlowOutcome]) -> f64 {
        let end = self.scenario.duration;
        let from = START + (end - START).mul_f64(WARM_UP);
        flows.iter().map(|flow| flow.mbit(from, end)).sum()
    }

    /// The same with their beginning, as `braid lab` counts.
    pub fn whole(&self, flows: &[FlowOutcome]) -> f64 {
        flows.iter().map(|flow| flow.mbit(START, self.scenario.duration)).sum()
    }

    /// The rates of all links in both directions, together.
    pub fn rate(&self) -> Rate {
        let bits = |link: &LinkSpec| bits(&link.down) + bits(&link.up);
        Rate::from_bits_per_sec(self.scenario.links.iter().map(bits).sum::<f64>() as u64)
    }

    fn idle_ping_ms(&self) -> f64 {
        let p95 = |link: &LinkSpec| {
            let jitter = link.down.jitter.max(link.up.jitter).as_secs_f64() * JITTERS_P95;
            round_trip(link) + jitter
        };
        self.scenario.links.iter().map(p95).fold(f64::INFINITY, f64::min) * 1e3
    }
}

impl Figures {
    /// By the best link alone.
    pub fn of_best(&self) -> f64 {
        self.tunnel / self.best.max(1e-9)
    }

    /// By the sum of all links.
    pub fn of_sum(&self) -> f64 {
        self.tunnel / self.sum.max(1e-9)
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lanes = match self.lanes.as_slice() {
            [Lane::Down] => "down",
            [Lane::Up] => "up",
            _ => "both ways",
        };
        write!(f, "{} × {} {lanes} over", self.flows, self.sender)?;
        for (place, link) in self.scenario.links.iter().enumerate() {
            let ms = |time: Duration| time.as_secs_f64() * 1e3;
            write!(
                f,
                "{} {:.3}/{:.3} Mbit/s {:.0}+{:.0} ms",
                if place == 0 { "" } else { "," },
                bits(&link.down) / 1e6,
                bits(&link.up) / 1e6,
                ms(link.down.delay) * 2.0,
                ms(link.down.jitter),
            )?;
            let loss = link.down.loss;
            if loss != Loss::None {
                write!(f, " {:.1}%", loss.mean().fraction() * 100.0)?;
            }
            if let Some(packets) = loss.burst_packets() {
                write!(f, "×{packets:.0}")?;
            }
            let reorder = link.down.reorder;
            if !reorder.is_none() {
                let percent = |share: Ratio| share.fraction() * 100.0;
                write!(
                    f,
                    " reordered {:.1}%×{:.0}ms twice {:.1}% damaged {:.1}%",
                    percent(reorder.share),
                    ms(reorder.by),
                    percent(link.down.duplicate),
                    percent(link.down.corrupt),
                )?;
            }
            write!(f, " q{:.0}ms", link.down.queue.bytes() as f64 * 8e3 / bits(&link.down))?;
        }
        let stalls = if self.scenario.stalls.is_some() { ", ends stall" } else { "" };
        let volatile = if self.volatile { ", rates change" } else { "" };
        write!(f, "{volatile}{stalls}")
    }
}

impl fmt::Display for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp(Congestion::Cubic) => "cubic",
            Self::Tcp(Congestion::Reno) => "reno",
            Self::Tcp(Congestion::Bbr) => "bbr",
            Self::Tcp(Congestion::Bbr3) => "bbr3",
            Self::Tcp(Congestion::Quic) => "quic",
            Self::Udp => "udp",
        })
    }
}

/// Rates of 0.3 to 500 Mbit/s, delays of 2 to 300 ms there and back, jitter of up
/// to twice the delay, loss of up to 10 %, queues of 0.2 to 4 times what the
/// round trip holds.
fn link(rng: &mut Rng) -> LinkSpec {
    let mut between = |low: f64, high: f64| low * (high / low).powf(rng.f64());
    let down = between(0.3e6, 500e6);
    let up = (down / between(1.0, 10.0)).max(0.3e6);
    let delay = between(0.001, 0.150);
    let (jitter, queue) = (between(0.02, 2.0) * delay, between(0.2, 4.0));
    let (share, length) = (between(1e-4, 0.10), between(1.0, 20.0));
    let jitter = if rng.bool() { jitter } else { 0.0 };
    let loss = match rng.u8(0..3) {
        0 => Loss::None,
        1 => Loss::Random(Ratio::from_fraction(share)),
        _ => Loss::bursty(Ratio::from_fraction(share), length),
    };
    let direction = |rate: f64| DirectionModel {
        jitter: Duration::from_secs_f64(jitter),
        loss,
        queue: ByteSize::from_bytes((rate / 8.0 * delay * 2.0 * queue).max(5.0 * 1500.0) as u64),
        ..DirectionModel::clean(
            Rate::from_bits_per_sec(rate as u64),
            Duration::from_secs_f64(delay),
        )
    };
    LinkSpec::new(direction(down), direction(up))
}

/// One link or all get another rate each second or sooner, between a tenth and
/// all of what they have.
fn change_rates(scenario: &mut Scenario, rng: &mut Rng) {
    let links = scenario.links.clone();
    let one = rng.bool().then(|| rng.usize(0..links.len()));
    for (place, link) in links.iter().enumerate().filter(|(p, _)| one.is_none_or(|o| o == *p)) {
        let mut at = START.mul_f64(rng.f64());
        while at < scenario.duration {
            let part = 0.1_f64.powf(rng.f64());
            let down = scaled(&link.down, part);
            let up = scaled(&link.up, part);
            let events = [Action::SetDown(place, down), Action::SetUp(place, up)];
            for action in events {
                scenario.events.push(crate::Timed { at, action });
            }
            at += Duration::from_secs_f64(0.1 + 0.9 * rng.f64());
        }
    }
}

/// Each link in two lets packets be overtaken, arrive twice and be damaged, in its
/// way: up to 5 %, 2 % and 1 % of them.
fn add_faults(scenario: &mut Scenario, rng: &mut Rng) {
    for place in 0..scenario.links.len() {
        if rng.bool() {
            continue;
        }
        let mut share = |most: f64| Ratio::from_fraction(most * rng.f64());
        let (reordered, duplicate, corrupt) = (share(0.05), share(0.02), share(0.01));
        let by = Duration::from_secs_f64(0.001 * 30_f64.powf(rng.f64()));
        let add = |direction: &mut DirectionModel| {
            direction.reorder = Reorder { share: reordered, by };
            (direction.duplicate, direction.corrupt) = (duplicate, corrupt);
        };
        add(&mut scenario.links[place].down);
        add(&mut scenario.links[place].up);
        for event in &mut scenario.events {
            if let Action::SetDown(of, direction) | Action::SetUp(of, direction) = &mut event.action
                && *of == place
            {
                add(direction);
            }
        }
    }
}

fn scaled(direction: &DirectionModel, part: f64) -> DirectionModel {
    let rate = Rate::from_bits_per_sec((bits(direction) * part) as u64);
    DirectionModel { capacity: Capacity::Rate(rate), ..direction.clone() }
}

fn of(link: &LinkSpec, lane: Lane) -> &DirectionModel {
    match lane {
        Lane::Down => &link.down,
        Lane::Up => &link.up,
    }
}

fn bits(direction: &DirectionModel) -> f64 {
    match &direction.capacity {
        Capacity::Rate(rate) => rate.bits_per_sec() as f64,
        Capacity::Unlimited | Capacity::Trace { .. } => 0.0,
    }
}

/// Without jitter, in seconds.
fn round_trip(link: &LinkSpec) -> f64 {
    (link.down.delay + link.up.delay).as_secs_f64()
}
