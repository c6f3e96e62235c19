use super::ScenarioError;
use super::document::{Field, Section};
use super::page::Page;
use braid_units::{ByteSize, Rate};
use std::fmt;
use std::time::Duration;

/// Default payload of a UDP datagram: fits every link's MTU down to 1428.
const DEFAULT_DATAGRAM: u16 = 1_400;
/// Default interval between two pings.
const DEFAULT_PING_INTERVAL: Duration = Duration::from_millis(50);
/// Default sizes of the objects that `web` fetches in turn.
const DEFAULT_OBJECTS: [u64; 5] = [10_000, 50_000, 100_000, 300_000, 1_000_000];

/// A typical page of today, used by default.
const DEFAULT_PAGE: u64 = 1_500_000;
const DEFAULT_PAGE_OBJECTS: u64 = 50;
const LARGEST_PAGE: u64 = 1_000_000_000;
/// The number of connections that browsers open to an HTTP/1.1 server.
const CONNECTIONS: u16 = 6;

/// Traffic of a scenario.
#[derive(Clone, Debug, PartialEq)]
pub struct Traffic {
    /// What it is.
    pub kind: TrafficKind,
    /// Which way the data goes.
    pub direction: TrafficDirection,
    /// Simultaneous connections, streams or calls.
    pub flows: u16,
    /// When it starts, from the start of the run.
    pub start: Duration,
    /// When it stops.
    pub stop: Duration,
}

/// A kind of traffic with its figures.
#[derive(Clone, Debug, PartialEq)]
pub enum TrafficKind {
    /// Connections that carry as much as they can.
    Tcp {
        /// The sender's congestion control.
        congestion: CongestionControl,
    },
    /// Numbered datagrams at a constant rate.
    Udp {
        /// Rate of all flows together.
        rate: OfferedRate,
        /// Bytes of UDP payload in each.
        payload: u16,
    },
    /// ICMP echo requests from the home.
    Ping {
        /// Interval between two requests.
        interval: Duration,
    },
    /// Copying a file by SMB, with Samba at both ends.
    Smb,
    /// Calls: 50 packets a second of 160 bytes and an RTP-like header.
    Voip,
    /// Objects fetched one after another.
    Web {
        /// The server's congestion control.
        congestion: CongestionControl,
        /// Sizes in bytes, taken in turn; not empty.
        objects: Vec<u64>,
        /// Whether a flow keeps its connection; otherwise each object has a new
        /// one.
        keep_alive: bool,
    },
    /// Whole pages, loaded one after another, as by a browser that visits a site for the first
    /// time.
    Pages {
        /// The server's congestion control.
        congestion: CongestionControl,
        /// The page.
        page: Page,
        /// Maximum number of connections that a browser opens for a page.
        connections: u16,
        /// Whether they are reused within the page; otherwise each object has a new one.
        keep_alive: bool,
    },
}

/// Which way data goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrafficDirection {
    /// Towards the home.
    Down,
    /// Towards the concentrator.
    Up,
    /// Both at the same time, each with all its flows.
    Both,
}

impl TrafficDirection {
    /// `down` and `up`, each if data goes that way.
    pub fn each<T>(self, down: T, up: T) -> (Option<T>, Option<T>) {
        match self {
            TrafficDirection::Down => (Some(down), None),
            TrafficDirection::Up => (None, Some(up)),
            TrafficDirection::Both => (Some(down), Some(up)),
        }
    }
}

/// TCP congestion control of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CongestionControl {
    /// CUBIC (RFC 9438), what users have.
    Cubic,
    /// BBR.
    Bbr,
    /// NewReno.
    Reno,
}

/// A rate of datagrams, IP headers included.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum OfferedRate {
    /// Bits per second.
    Absolute(Rate),
    /// A share of the sum of the links' rates (of traces: their mean over the
    /// whole recording); may be above one.
    Share(f64),
}

impl CongestionControl {
    /// The kernel's name for it (net.ipv4.tcp_available_congestion_control).
    pub fn name(self) -> &'static str {
        match self {
            CongestionControl::Cubic => "cubic",
            CongestionControl::Bbr => "bbr",
            CongestionControl::Reno => "reno",
        }
    }
}

impl fmt::Display for TrafficDirection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TrafficDirection::Down => "down",
            TrafficDirection::Up => "up",
            TrafficDirection::Both => "both",
        })
    }
}

impl fmt::Display for Traffic {
    /// The name in reports: `tcp-down-1-cubic`, `udp-up-1-90%`, `ping`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (direction, flows) = (self.direction, self.flows);
        match &self.kind {
            TrafficKind::Tcp { congestion } => {
                write!(f, "tcp-{direction}-{flows}-{}", congestion.name())
            }
            TrafficKind::Udp { rate: OfferedRate::Absolute(rate), .. } => {
                write!(f, "udp-{direction}-{flows}-{rate}")
            }
            TrafficKind::Udp { rate: OfferedRate::Share(share), .. } => {
                write!(f, "udp-{direction}-{flows}-{}%", (share * 1e4).round() / 1e2)
            }
            TrafficKind::Ping { .. } => f.write_str("ping"),
            TrafficKind::Smb => write!(f, "smb-{direction}-{flows}"),
            TrafficKind::Voip => write!(f, "voip-{direction}-{flows}"),
            TrafficKind::Web { congestion, objects, keep_alive } => {
                write!(f, "web-{direction}-{flows}-{}", congestion.name())?;
                if let [size] = objects[..] {
                    write!(f, "-{}", ByteSize::from_bytes(size))?;
                }
                if *keep_alive { f.write_str("-keep-alive") } else { Ok(()) }
            }
            TrafficKind::Pages { congestion, keep_alive, .. } => {
                write!(f, "pages-{flows}-{}", congestion.name())?;
                if *keep_alive { Ok(()) } else { f.write_str("-new") }
            }
        }
    }
}

/// A kind by its name alone.
#[derive(Clone, Copy)]
enum Kind {
    Tcp,
    Udp,
    Ping,
    Voip,
    Web,
    Pages,
    Smb,
}

pub(super) fn read(section: Section<'_>, end: Duration) -> Result<Traffic, ScenarioError> {
    let kinds = [
        ("tcp", Kind::Tcp),
        ("udp", Kind::Udp),
        ("ping", Kind::Ping),
        ("voip", Kind::Voip),
        ("web", Kind::Web),
        ("pages", Kind::Pages),
        ("smb", Kind::Smb),
    ];
    let kind = section.choice("kind", &kinds)?.ok_or_else(|| {
        section.missing("kind").hint("write one of: tcp, udp, ping, voip, web, pages, smb")
    })?;
    let directions = [
        ("down", TrafficDirection::Down),
        ("up", TrafficDirection::Up),
        ("both", TrafficDirection::Both),
    ];
    let natural = match kind.value {
        Kind::Ping | Kind::Voip => TrafficDirection::Both,
        Kind::Tcp | Kind::Udp | Kind::Web | Kind::Pages | Kind::Smb => TrafficDirection::Down,
    };
    let direction = match kind.value {
        Kind::Pages => natural,
        _ => section.choice("direction", &directions)?.map_or(natural, |d| d.value),
    };
    let flows = section.count("flows", 1..=1_000)?.map_or(1, |flows| flows.value as u16);
    let kind = match kind.value {
        Kind::Tcp => TrafficKind::Tcp { congestion: congestion(&section)? },
        Kind::Udp => TrafficKind::Udp {
            rate: offered_rate(&section)?.unwrap_or(OfferedRate::Share(0.9)),
            payload: datagram(&section)?,
        },
        Kind::Ping => TrafficKind::Ping { interval: ping_interval(&section)? },
        Kind::Voip => TrafficKind::Voip,
        Kind::Smb => TrafficKind::Smb,
        Kind::Web => TrafficKind::Web {
            congestion: congestion(&section)?,
            objects: objects(&section)?,
            keep_alive: section.flag("keep_alive")?.is_some_and(|flag| flag.value),
        },
        Kind::Pages => TrafficKind::Pages {
            congestion: congestion(&section)?,
            page: page(&section)?,
            connections: section
                .count("connections", 1..=64)?
                .map_or(CONNECTIONS, |c| c.value as u16),
            keep_alive: section.flag("keep_alive")?.is_none_or(|flag| flag.value),
        },
    };
    let start = section.duration("start")?;
    let stop = section.duration("stop")?;
    if let Some(start) = &start
        && start.value >= end
    {
        return Err(start.error("the traffic starts when the run is over"));
    }
    let begin = start.map_or(Duration::ZERO, |start| start.value);
    if let Some(stop) = &stop
        && (stop.value > end || stop.value <= begin)
    {
        return Err(stop.error("the traffic stops after its start and within the duration"));
    }
    let stop = stop.map_or(end, |stop| stop.value);
    let traffic = Traffic { kind, direction, flows, start: begin, stop };
    section.finish()?;
    Ok(traffic)
}

fn ping_interval(section: &Section<'_>) -> Result<Duration, ScenarioError> {
    let Some(interval) = section.duration("interval")? else { return Ok(DEFAULT_PING_INTERVAL) };
    match (Duration::from_millis(1)..=Duration::from_secs(60)).contains(&interval.value) {
        true => Ok(interval.value),
        false => Err(interval.error("pings are 1ms to 60s apart")),
    }
}

fn congestion(section: &Section<'_>) -> Result<CongestionControl, ScenarioError> {
    let choices = [
        ("cubic", CongestionControl::Cubic),
        ("bbr", CongestionControl::Bbr),
        ("reno", CongestionControl::Reno),
    ];
    Ok(section.choice("congestion", &choices)?.map_or(CongestionControl::Cubic, |c| c.value))
}

fn offered_rate(section: &Section<'_>) -> Result<Option<OfferedRate>, ScenarioError> {
    let Some(text) = section.as_written("rate")? else { return Ok(None) };
    if let Some(percent) = text.value.trim().strip_suffix('%') {
        return match percent.trim().parse::<f64>() {
            Ok(percent) if percent > 0.0 && percent <= 1_000.0 => {
                Ok(Some(OfferedRate::Share(percent / 100.0)))
            }
            _ => Err(text.error("a share of the links' rates lies above 0% and up to 1000%")),
        };
    }
    let rate = text.value.parse::<Rate>().map_err(|error| {
        text.error(error.to_string()).hint("or a share of the links' rates, as \"90%\"")
    })?;
    if rate < Rate::from_bits_per_sec(1_000) {
        return Err(text.error("the least rate is 1kbit"));
    }
    Ok(Some(OfferedRate::Absolute(rate)))
}

fn datagram(section: &Section<'_>) -> Result<u16, ScenarioError> {
    let Some(size) = section.quantity::<ByteSize>("size")? else { return Ok(DEFAULT_DATAGRAM) };
    match u16::try_from(size.value.bytes()) {
        Ok(bytes @ 32..=65_000) => Ok(bytes),
        _ => Err(size.error("a datagram has between 32 and 65000 bytes")),
    }
}

fn page(section: &Section<'_>) -> Result<Page, ScenarioError> {
    let bytes = match section.quantity::<ByteSize>("size")? {
        Some(size) if !(1..=LARGEST_PAGE).contains(&size.value.bytes()) => {
            return Err(size.error("a page has between 1 B and 1 GB"));
        }
        Some(size) => size.value.bytes(),
        None => DEFAULT_PAGE,
    };
    let objects = section.count("objects", 1..=bytes.min(10_000))?;
    let objects = objects.map_or(DEFAULT_PAGE_OBJECTS.min(bytes), |count| count.value);
    Ok(Page::of(bytes, objects as usize))
}

fn objects(section: &Section<'_>) -> Result<Vec<u64>, ScenarioError> {
    let Some(sizes) = section.texts("size")? else { return Ok(DEFAULT_OBJECTS.to_vec()) };
    let mut objects = Vec::new();
    for size in &sizes {
        objects.push(object(size)?);
    }
    if objects.is_empty() {
        return Err(section.missing("size").hint("the list of sizes is empty"));
    }
    Ok(objects)
}

fn object(size: &Field<'_, &str>) -> Result<u64, ScenarioError> {
    let bytes = size.value.parse::<ByteSize>().map_err(|error| size.error(error.to_string()))?;
    match bytes.bytes() {
        bytes @ 1..=1_000_000_000 => Ok(bytes),
        _ => Err(size.error("an object has between 1 B and 1 GB")),
    }
}
