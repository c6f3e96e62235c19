//! Measures how accurate the emulator is on this machine now: real packets over emulated links, all
//! at once.

mod stamped;

use super::{CONCENTRATOR_V4, Topology, TopologyError, TopologyOptions};
use crate::emulator::{Capacity, Direction, DirectionModel, LinkModel};
use braid_link_model::Packet;
use braid_units::{ByteSize, Rate, Time, format_duration};
use fastrand::Rng;
use serde::ser::{Serialize, SerializeStruct, Serializer};
use stamped::{Arrival, StampedSocket, wall_clock};
use std::fmt;
use std::io;
use std::net::{SocketAddr, SocketAddrV4};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Size of full IP packets on Ethernet.
const PACKET: u32 = 1500;
/// The UDP payload in it.
const PAYLOAD: usize = PACKET as usize - 28;
/// The configured one-way delay.
const DELAY: Duration = Duration::from_millis(30);
/// Large enough that it doesn't run empty if the sender is late.
const QUEUE: ByteSize = ByteSize::from_bytes(500_000);
/// The sets of links for the promised accuracy: how many, and their rate.
const SETS: [(usize, Rate); 2] = [(6, Rate::from_mbit(8)), (3, Rate::from_mbit(50))];

/// The accuracy of one set of links, all loaded together.
#[derive(Clone, Debug)]
pub struct Calibration {
    /// The links' rate.
    pub rate: Rate,
    /// The links' one-way delay.
    pub delay: Duration,
    /// Each link's accuracy.
    pub links: Vec<LinkAccuracy>,
    /// The share of one core that the emulator took while the rate was measured.
    pub emulator_load: f64,
}

/// The accuracy of one link.
#[derive(Clone, Debug)]
pub struct LinkAccuracy {
    /// The rate while more was offered.
    pub measured: Rate,
    /// Measured divided by configured rate, minus one.
    pub rate_error: f64,
    /// Distance of arrivals from the model's: median.
    pub delay_error_p50: Duration,
    /// 99th percentile.
    pub delay_error_p99: Duration,
}

impl Calibration {
    /// The largest error of a rate.
    pub fn worst_rate_error(&self) -> f64 {
        self.links.iter().map(|link| link.rate_error.abs()).fold(0.0, f64::max)
    }

    /// The worst link's median error of the delay.
    pub fn worst_delay_error_p50(&self) -> Duration {
        self.links.iter().map(|link| link.delay_error_p50).max().unwrap_or_default()
    }

    /// The worst link's 99th percentile of the error of the delay.
    pub fn worst_delay_error_p99(&self) -> Duration {
        self.links.iter().map(|link| link.delay_error_p99).max().unwrap_or_default()
    }

    /// Whether rates are within 1 % and the delays' medians within 1 ms.
    pub fn is_true(&self) -> bool {
        self.worst_rate_error() <= 0.01 && self.worst_delay_error_p50() <= Duration::from_millis(1)
    }
}

impl Serialize for Calibration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let mut set = serializer.serialize_struct("Calibration", 7)?;
        set.serialize_field("links", &self.links.len())?;
        set.serialize_field("rate_mbps", &self.rate.mbit())?;
        set.serialize_field("delay_ms", &ms(self.delay))?;
        set.serialize_field("worst_rate_error", &self.worst_rate_error())?;
        set.serialize_field("worst_delay_error_p50_ms", &ms(self.worst_delay_error_p50()))?;
        set.serialize_field("worst_delay_error_p99_ms", &ms(self.worst_delay_error_p99()))?;
        set.serialize_field("emulator_load", &self.emulator_load)?;
        set.end()
    }
}

impl fmt::Display for Calibration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} links of {}, {}: rate within {:.2} %, delay within {} (median), {} (p99); \
             emulator used {:.0} % of a core",
            self.links.len(),
            self.rate,
            format_duration(self.delay),
            self.worst_rate_error() * 100.0,
            format_duration(self.worst_delay_error_p50()),
            format_duration(self.worst_delay_error_p99()),
            self.emulator_load * 100.0
        )
    }
}

/// Measures 6 links of 8 Mbit/s and 3 of 50 Mbit/s, each set with all links loaded; `time` is the
/// duration of each of the two measurements of a set (two seconds are enough). `begins` is told
/// what is measured next.
///
/// # Errors
/// The links can't be built, or the sockets on them fail.
pub fn calibrate(time: Duration, begins: &dyn Fn(&str)) -> Result<Vec<Calibration>, TopologyError> {
    SETS.into_iter().map(|(count, rate)| calibrate_set(count, rate, time, begins)).collect()
}

/// How often [`calibrate`] calls `begins`.
pub const CALIBRATION_PARTS: usize = 2 * SETS.len();

fn calibrate_set(
    count: usize,
    rate: Rate,
    time: Duration,
    begins: &dyn Fn(&str),
) -> Result<Calibration, TopologyError> {
    let direction = DirectionModel {
        capacity: Capacity::Rate(rate),
        delay: DELAY,
        queue: QUEUE,
        ..DirectionModel::ideal()
    };
    let model = |number| LinkModel {
        name: format!("link-{number}"),
        down: direction.clone(),
        up: direction.clone(),
        mtu: 1500,
        nat: false,
    };
    let models: Vec<LinkModel> = (1..=count).map(model).collect();
    let topology = Topology::build(&models, &TopologyOptions::default())?;
    let failed =
        |source| TopologyError::Device { link: "calibration's sockets".to_owned(), source };

    begins(&format!("the delays of {count} links of {rate}"));
    let delays = send_over_all(&topology, rate.scaled(0.8), time).map_err(failed)?;
    begins(&format!("the rates of {count} links of {rate}"));
    let before = topology.emulator_cpu_time();
    let started = std::time::Instant::now();
    let rates = send_over_all(&topology, rate.scaled(1.3), time).map_err(failed)?;
    let used = topology.emulator_cpu_time().saturating_sub(before);
    let emulator_load = used.as_secs_f64() / started.elapsed().as_secs_f64();

    let links = delays
        .iter()
        .zip(&rates)
        .map(|(delays, rates)| {
            let measured = delivered_rate(&rates.arrivals);
            let mut errors = delay_errors(&direction, delays);
            errors.sort_unstable();
            LinkAccuracy {
                measured,
                rate_error: measured.bytes_per_sec() as f64 / rate.bytes_per_sec() as f64 - 1.0,
                delay_error_p50: percentile(&errors, 0.5),
                delay_error_p99: percentile(&errors, 0.99),
            }
        })
        .collect();
    Ok(Calibration { rate, delay: DELAY, links, emulator_load })
}

/// What was sent over a link, and what arrived.
struct Flow {
    /// When packet number i was sent.
    sent: Vec<Time>,
    arrivals: Vec<Arrival>,
}

/// Sends down all links at once, evenly at `rate` each.
fn send_over_all(topology: &Topology, rate: Rate, time: Duration) -> io::Result<Vec<Flow>> {
    let sockets = topology
        .links()
        .iter()
        .map(|link| {
            let home = SocketAddrV4::new(link.addresses().home_v4, 0);
            let receiver = topology.home().run(|| StampedSocket::bind(home.into()))??;
            let sender = topology
                .concentrator()
                .run(|| StampedSocket::bind(SocketAddrV4::new(CONCENTRATOR_V4, 0).into()))??;
            let to = receiver.local_address()?;
            Ok((sender, receiver, to))
        })
        .collect::<io::Result<Vec<_>>>()?;
    let sending = AtomicBool::new(true);
    thread::scope(|scope| {
        let receivers: Vec<_> = sockets
            .iter()
            .map(|(_, receiver, _)| scope.spawn(|| receive(receiver, &sending)))
            .collect();
        let senders: Vec<(&StampedSocket, SocketAddr)> =
            sockets.iter().map(|(sender, _, to)| (sender, *to)).collect();
        let sent = send_evenly(&senders, rate, time);
        sending.store(false, Ordering::Relaxed);
        sent.into_iter()
            .zip(receivers)
            .map(|(sent, receiver)| {
                let arrivals = receiver.join().unwrap_or_else(|p| std::panic::resume_unwind(p))?;
                Ok(Flow { sent, arrivals })
            })
            .collect()
    })
}

fn send_evenly(
    senders: &[(&StampedSocket, SocketAddr)],
    rate: Rate,
    time: Duration,
) -> Vec<Vec<Time>> {
    let gap = rate.time_for(u64::from(PACKET));
    let mut sent = vec![Vec::new(); senders.len()];
    let mut payload = [0; PAYLOAD];
    let start = wall_clock();
    let mut due = start;
    while due.since(start) < time {
        thread::sleep(due.since(wall_clock()));
        for ((socket, to), sent) in senders.iter().zip(&mut sent) {
            payload[..4].copy_from_slice(&(sent.len() as u32).to_be_bytes());
            let now = wall_clock();
            // A full socket buffer loses the packet; its number is reused.
            if socket.send(&payload, *to).is_ok() {
                sent.push(now);
            }
        }
        due += gap;
    }
    sent
}

/// Receives until nothing more arrives after the end of sending.
fn receive(socket: &StampedSocket, sending: &AtomicBool) -> io::Result<Vec<Arrival>> {
    let mut arrivals = Vec::new();
    loop {
        match socket.receive()? {
            Some(arrival) => arrivals.push(arrival),
            None if sending.load(Ordering::Relaxed) => {}
            None => return Ok(arrivals),
        }
    }
}

/// The rate between the first and the last arrival.
fn delivered_rate(arrivals: &[Arrival]) -> Rate {
    let (Some(first), Some(last)) = (arrivals.first(), arrivals.last()) else {
        return Rate::ZERO;
    };
    let bytes = (arrivals.len() as u64 - 1) * u64::from(PACKET);
    Rate::from_bytes_in(bytes, last.at.since(first.at)).unwrap_or(Rate::ZERO)
}

/// The distance of each arrival from the model's, given when the packets were really sent, so that
/// a late sender isn't counted as the emulator's error.
fn delay_errors(model: &DirectionModel, flow: &Flow) -> Vec<Duration> {
    let Some(&first) = flow.sent.first() else { return Vec::new() };
    let mut direction = Direction::new(model.clone(), 0, first);
    let mut expected = vec![None; flow.sent.len()];
    let mut due = |direction: &mut Direction<Number>, until: Time| {
        while let Some(deadline) = direction.next_deadline().filter(|at| *at <= until) {
            while let Some(Number(number)) = direction.poll(deadline) {
                if let Some(slot) = expected.get_mut(number) {
                    *slot = Some(deadline);
                }
            }
        }
    };
    for (number, &at) in flow.sent.iter().enumerate() {
        due(&mut direction, at);
        let _ = direction.enqueue(at, PACKET, Number(number));
    }
    due(&mut direction, Time::FAR_FUTURE);
    flow.arrivals
        .iter()
        .filter_map(|arrival| {
            let expected = (*expected.get(arrival.number)?)?;
            Some(arrival.at.since(expected).max(expected.since(arrival.at)))
        })
        .collect()
}

/// Represents the packet with this number.
#[derive(Clone)]
struct Number(usize);

impl Packet for Number {
    fn flip_bit(&mut self, _: &mut Rng) {
        // Damaged packets arrive in time.
    }
}

/// A percentile of sorted values; zero if there are none.
fn percentile(sorted: &[Duration], share: f64) -> Duration {
    let last = sorted.len().saturating_sub(1);
    sorted.get((last as f64 * share).round() as usize).copied().unwrap_or_default()
}
