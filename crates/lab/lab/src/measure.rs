//! One run: traffic over a network with its events, all on one clock.

use crate::cancel::Cancel;
use crate::engines::{PING_BYTES, Running, cpu_seconds};
use crate::live::Live;
use crate::report::{CpuSeconds, LinkSeries};
use crate::scenario::{Scenario, Traffic, TrafficDirection, TrafficKind};
use crate::topology::{Backend, Topology, TopologyError};
use crate::traffic::{self, Measured, OfferedRates, Setting, SmbServer};
use crate::wire_log::WireLog;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Time from the decision to start until the start: every thread is ready by then.
const LEAD: Duration = Duration::from_millis(300);
/// The same for Samba's client, a process that must be started, slowly in a VM.
const SMB_LEAD: Duration = Duration::from_secs(2);
/// Time between two samples of the links' counters.
const SAMPLE: Duration = Duration::from_millis(100);
/// The concentrator's first port for traffic.
const FIRST_PORT: u16 = 20_000;
/// IP bytes per payload byte of plain TCP: MTU 1500, timestamps on.
const PLAIN_TCP: f64 = 1500.0 / 1448.0;

/// Traffic and its route.
#[derive(Clone)]
pub(crate) struct Flow<'a> {
    pub(crate) traffic: &'a Traffic,
    pub(crate) rates: OfferedRates,
    /// The device to bind it to instead of the engine's.
    pub(crate) device: Option<&'a str>,
}

/// The results of a run.
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

/// Runs all flows simultaneously, from the scenario's start to its end.
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

/// Servers for the flows that need one; starting them takes a while.
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

    /// IP bytes on the links per payload byte, relative to plain TCP's; `None` if the flow wasn't
    /// the only one besides pings, delivered nothing, or the links' bytes are unknown.
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

fn joined<T>(handle: thread::ScopedJoinHandle<'_, T>) -> T {
    handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
