//! One run: traffic over a network with its events, all on one clock.

use crate::cancel::Cancel;
use crate::engines::{PING_BYTES, Running, cpu_seconds};
use crate::live::Live;
use crate::report::{CpuSeconds, LinkSeries};
use crate::scenario::{Scenario, Traffic, TrafficDirection, TrafficKind};
use crate::topology::{Backend, Topology, TopologyError};
use crate::traffic::{self, Measured, OfferedRates, Setting, SmbServer};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// From the decision to start to the start: every thread is ready by then.
const LEAD: Duration = Duration::from_millis(300);
/// The same with Samba's client, which is a process to be started, in a VM a
/// slow one.
const SMB_LEAD: Duration = Duration::from_secs(2);
/// Between two samples of the links' counters.
const SAMPLE: Duration = Duration::from_millis(100);
/// The concentrator's first port for traffic.
const FIRST_PORT: u16 = 20_000;
/// IP bytes for a payload byte of plain TCP: MTU 1500, timestamps on.
const PLAIN_TCP: f64 = 1500.0 / 1448.0;

/// Traffic and the way it takes.
#[derive(Clone)]
pub(crate) struct Flow<'a> {
    pub(crate) traffic: &'a Traffic,
    pub(crate) rates: OfferedRates,
    /// Device that it is bound to instead of the engine's.
    pub(crate) device: Option<&'a str>,
}

/// What a run showed.
pub(crate) struct Outcome {
    /// In the order of the flows.
    pub(crate) measured: Vec<Measured>,
    /// CPU time of the engine's processes.
    pub(crate) cpu: Option<CpuSeconds>,
    wire: WireLog,
    /// Whether the links count IP bytes.
    counts_ip: bool,
}

/// Why a run has no result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MeasureError {
    #[error("{traffic}: {source}")]
    Traffic { traffic: String, source: io::Error },
    #[error(transparent)]
    Topology(#[from] TopologyError),
    #[error("interrupted")]
    Cancelled,
}

/// Runs all flows at the same time, from the scenario's start to its end.
pub(crate) fn measure(
    topology: &Topology,
    running: &Running,
    scenario: &Scenario,
    flows: &[Flow<'_>],
    cancel: &Cancel,
    live: &Live,
) -> Result<Outcome, MeasureError> {
    let servers = smb_servers(topology, flows, cancel)?;
    let lead = if servers.iter().any(Option::is_some) { SMB_LEAD } else { LEAD };
    let start = Instant::now() + lead;
    let arrived = AtomicU64::new(0);
    let cpu_before = cpu_seconds(&running.processes);
    let (results, wire, events) = thread::scope(|scope| {
        let events = scope.spawn(|| play_events(topology, scenario, start, cancel));
        let mut port = FIRST_PORT;
        let threads: Vec<_> = flows
            .iter()
            .zip(&servers)
            .map(|(flow, smb)| {
                let first_port = port;
                port = port.saturating_add(traffic::ports(flow.traffic));
                let arrived = &arrived;
                scope.spawn(move || {
                    let setting = Setting {
                        home: topology.home(),
                        concentrator: topology.concentrator(),
                        server: running.server,
                        source: running.source,
                        device: flow.device.or(running.device.as_deref()),
                        streams: running.streams,
                        port: first_port,
                        start: start + flow.traffic.start,
                        stop: start + flow.traffic.stop,
                        cancel,
                        smb: smb.as_ref(),
                        arrived,
                    };
                    traffic::run(flow.traffic, flow.rates, &setting)
                })
            })
            .collect();
        let mut wire = WireLog::new(topology, start);
        let mut next = start;
        while !threads.iter().all(thread::ScopedJoinHandle::is_finished) {
            thread::sleep(next.saturating_duration_since(Instant::now()).min(SAMPLE));
            if Instant::now() < next {
                continue;
            }
            wire.sample(topology);
            live.sample(&wire, arrived.load(Ordering::Relaxed), scenario);
            next += SAMPLE;
        }
        wire.sample(topology);
        let results: Vec<_> = threads.into_iter().map(joined).collect();
        (results, wire, joined(events))
    });
    if cancel.is_cancelled() {
        return Err(MeasureError::Cancelled);
    }
    events?;
    let cpu_after = cpu_seconds(&running.processes);
    let measured = results
        .into_iter()
        .zip(flows)
        .map(|(result, flow)| {
            result.map_err(|source| MeasureError::Traffic {
                traffic: flow.traffic.to_string(),
                source,
            })
        })
        .collect::<Result<_, _>>()?;
    let cpu = cpu_before.zip(cpu_after).map(|(before, after)| CpuSeconds {
        home: (after.home - before.home).max(0.0),
        concentrator: (after.concentrator - before.concentrator).max(0.0),
    });
    let kernel_plays =
        topology.links().iter().any(|link| matches!(link.backend(), Backend::Kernel { .. }));
    Ok(Outcome { measured, cpu, wire, counts_ip: !kernel_plays })
}

/// The servers of the flows that need one, which take their time to start.
fn smb_servers(
    topology: &Topology,
    flows: &[Flow<'_>],
    cancel: &Cancel,
) -> Result<Vec<Option<SmbServer>>, MeasureError> {
    let mut port = FIRST_PORT;
    let mut servers = Vec::new();
    for flow in flows {
        let failed = |source| MeasureError::Traffic { traffic: flow.traffic.to_string(), source };
        let server = matches!(flow.traffic.kind, TrafficKind::Smb)
            .then(|| SmbServer::start(port, topology.concentrator(), cancel))
            .transpose()
            .map_err(failed)?;
        servers.push(server);
        port = port.saturating_add(traffic::ports(flow.traffic));
    }
    Ok(servers)
}

fn play_events(
    topology: &Topology,
    scenario: &Scenario,
    start: Instant,
    cancel: &Cancel,
) -> Result<(), TopologyError> {
    if !cancel.sleep_until(start) {
        return Ok(());
    }
    topology.restart_traces()?;
    for step in scenario.timeline() {
        if !cancel.sleep_until(start + step.at) {
            break;
        }
        topology.apply(step.link, &step.change)?;
    }
    Ok(())
}

impl Outcome {
    /// Rates of the links over time.
    pub(crate) fn links(&self) -> Vec<LinkSeries> {
        self.wire.series()
    }

    /// IP bytes on the links for each payload byte, relative to plain TCP's;
    /// `None` where the flow was not the only one besides pings, delivered
    /// nothing, or the links' bytes are not known.
    pub(crate) fn overhead(&self, flows: &[Flow<'_>], number: usize) -> Option<f64> {
        let flow = flows.get(number)?;
        if !self.counts_ip || matches!(flow.traffic.kind, TrafficKind::Voip) {
            return None;
        }
        let mut pings = 0;
        for (other, (_, measured)) in flows.iter().zip(&self.measured).enumerate() {
            match &measured.pings {
                Some(seen) => pings += seen.answered.len(),
                None if other != number => return None,
                None => {}
            }
        }
        let payload = self.measured.get(number)?.delivered.as_ref()?.total() as f64;
        let (down, up) = self.wire.between(flow.traffic.start, flow.traffic.stop);
        let (wire, ways) = match flow.traffic.direction {
            TrafficDirection::Down => (down, 1.0),
            TrafficDirection::Up => (up, 1.0),
            TrafficDirection::Both => (down + up, 2.0),
        };
        let data = wire - (pings as u64 * PING_BYTES) as f64 * ways;
        (payload > 0.0 && data > 0.0).then(|| data / payload / PLAIN_TCP)
    }
}

/// The links' counters over time.
pub(crate) struct WireLog {
    start: Instant,
    names: Vec<String>,
    base: Vec<(u64, u64)>,
    /// Seconds since the start; bytes down and up of each link so far.
    samples: Vec<(f64, Vec<(u64, u64)>)>,
}

impl WireLog {
    fn new(topology: &Topology, start: Instant) -> Self {
        WireLog {
            start,
            names: topology.links().iter().map(|link| link.model().name.clone()).collect(),
            base: counters(topology),
            samples: Vec::new(),
        }
    }

    fn sample(&mut self, topology: &Topology) {
        let now = Instant::now().saturating_duration_since(self.start).as_secs_f64();
        let bytes = counters(topology)
            .into_iter()
            .zip(&self.base)
            .map(|((down, up), base)| (down.saturating_sub(base.0), up.saturating_sub(base.1)))
            .collect();
        self.samples.push((now, bytes));
    }

    /// The links' rates over the last `samples` samples.
    pub(crate) fn latest(&self, samples: usize) -> Option<Latest<'_>> {
        let (now, last) = self.samples.last()?;
        let (then, first) = self.samples.iter().rev().nth(samples)?;
        let seconds = (now - then).max(1e-3);
        let mbps = |bytes: u64| bytes as f64 * 8.0 / 1e6 / seconds;
        let links =
            self.names.iter().zip(last.iter().zip(first)).map(|(name, (last, first))| LinkRates {
                name,
                down: mbps(last.0.saturating_sub(first.0)),
                up: mbps(last.1.saturating_sub(first.1)),
            });
        Some(Latest { at_s: *now, links: links.collect() })
    }

    fn series(&self) -> Vec<LinkSeries> {
        let rates = |link: usize| {
            self.samples.windows(2).filter_map(move |pair| {
                let [(from, before), (to, after)] = pair else { return None };
                let (before, after) = (before.get(link)?, after.get(link)?);
                let seconds = to - from;
                let mbps = |bytes: u64| bytes as f64 * 8.0 / 1e6 / seconds;
                (seconds > 1e-3).then(|| {
                    let (down, up) =
                        (after.0.saturating_sub(before.0), after.1.saturating_sub(before.1));
                    (*from, mbps(down), mbps(up))
                })
            })
        };
        let links = self.names.iter().enumerate();
        links
            .map(|(link, name)| LinkSeries { name: name.clone(), points: rates(link).collect() })
            .collect()
    }

    /// Bytes of all links, down and up, between two times since the start.
    fn between(&self, from: Duration, to: Duration) -> (f64, f64) {
        let (begin, end) = (self.at(from.as_secs_f64()), self.at(to.as_secs_f64()));
        (end.0 - begin.0, end.1 - begin.1)
    }

    /// Bytes of all links up to a time, between samples in proportion.
    fn at(&self, time: f64) -> (f64, f64) {
        let after = self.samples.partition_point(|(sampled, _)| *sampled < time);
        let sum = |sample: Option<&(f64, Vec<(u64, u64)>)>| match sample {
            Some((sampled, links)) => {
                let total = links.iter().fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
                (*sampled, total.0 as f64, total.1 as f64)
            }
            None => (0.0, 0.0, 0.0),
        };
        let before = sum(after.checked_sub(1).and_then(|index| self.samples.get(index)));
        let Some(next) = self.samples.get(after) else { return (before.1, before.2) };
        let next = sum(Some(next));
        let share = ((time - before.0) / (next.0 - before.0).max(1e-9)).clamp(0.0, 1.0);
        (before.1 + (next.1 - before.1) * share, before.2 + (next.2 - before.2) * share)
    }
}

/// The links' rates of late.
pub(crate) struct Latest<'a> {
    /// Seconds since the start.
    pub(crate) at_s: f64,
    pub(crate) links: Vec<LinkRates<'a>>,
}

/// A link's rates in Mbit/s.
pub(crate) struct LinkRates<'a> {
    pub(crate) name: &'a str,
    pub(crate) down: f64,
    pub(crate) up: f64,
}

fn counters(topology: &Topology) -> Vec<(u64, u64)> {
    (0..topology.links().len())
        .map(|link| {
            let counters = topology.counters(link);
            (counters.down.bytes_out, counters.up.bytes_out)
        })
        .collect()
}

fn joined<T>(handle: thread::ScopedJoinHandle<'_, T>) -> T {
    handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
