//! What each link carries alone, without a tunnel: the reference for engines that use several.

use crate::cancel::Cancel;
use crate::engines::{self, Bench, EngineError, EngineName};
use crate::live::Live;
use crate::measure::{Flow, MeasureError, Outcome, measure};
use crate::report::{Run, Web};
use crate::scenario::{
    CongestionControl, OfferedRate, Scenario, Traffic, TrafficDirection, TrafficKind,
};
use crate::topology::{InKernel, Topology, TopologyError, TopologyOptions};
use crate::traffic::statistics::{Bins, median};
use crate::traffic::{Measured, OfferedRates};
use braid_units::Rate;
use std::path::Path;
use std::rc::Rc;

/// Up to this sum of all rates the links are measured simultaneously: each alone, but sharing the
/// CPUs, which aren't the limit at such rates.
const AT_ONCE_UP_TO: Rate = Rate::from_mbit(200);

/// Why a run, of a link alone or of an engine, has no result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunFailure {
    #[error(transparent)]
    Topology(#[from] TopologyError),
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error(transparent)]
    Measure(#[from] MeasureError),
    #[error("can't make a folder for the engine: {0}")]
    Scratch(#[from] std::io::Error),
}

/// What a run needs in addition to its scenario.
#[derive(Clone, Copy)]
pub(crate) struct Surroundings<'a> {
    pub(crate) cancel: &'a Cancel,
    pub(crate) live: &'a Live,
    pub(crate) scratch: &'a Path,
    pub(crate) program: &'a Path,
}

/// Goodputs of the links alone, for each kind of traffic that has one.
#[derive(Debug, Default)]
pub(crate) struct Baselines {
    kinds: Vec<Traffic>,
    /// For each kind and repetition, each link's result.
    repetitions: Vec<Vec<Vec<LinkAlone>>>,
}

/// A link's result in one repetition.
#[derive(Clone, Debug)]
struct LinkAlone {
    mbps: f64,
    web: Option<Web>,
}

/// The links' results for one kind of traffic: for each, all repetitions.
pub(crate) struct LinksAlone {
    links: Vec<Vec<LinkAlone>>,
    /// Whether its goodput is the link's capacity.
    fills: bool,
}

impl Baselines {
    /// Empty baselines for the traffic of `scenario`.
    pub(crate) fn of(scenario: &Scenario) -> Self {
        let mut kinds: Vec<Traffic> = Vec::new();
        for kind in scenario.traffic.iter().filter_map(|traffic| alone(traffic, scenario)) {
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        let repetitions = kinds.iter().map(|_| Vec::new()).collect();
        Baselines { kinds, repetitions }
    }

    /// Number of measured kinds.
    pub(crate) fn kinds(&self) -> usize {
        self.kinds.len()
    }

    /// Measures each kind once more.
    pub(crate) fn repeat(
        &mut self,
        scenario: &Scenario,
        around: Surroundings<'_>,
    ) -> Result<(), RunFailure> {
        for (kind, repetitions) in self.kinds.iter().zip(&mut self.repetitions) {
            let label = format!("links alone, {kind}");
            around.live.prepare(&label);
            let links = each_alone(scenario, kind, &label, around)?;
            let link = |alone: &Alone| LinkAlone {
                mbps: alone.mbps(),
                web: Web::of(kind, &alone.measured),
            };
            repetitions.push(links.iter().map(link).collect());
        }
        Ok(())
    }

    /// The links' results alone for one traffic of the scenario.
    pub(crate) fn of_traffic(&self, traffic: &Traffic, scenario: &Scenario) -> Option<LinksAlone> {
        let kind = alone(traffic, scenario)?;
        let position = self.kinds.iter().position(|known| *known == kind)?;
        let repetitions = self.repetitions.get(position)?;
        let of = |link| repetitions.iter().filter_map(|links| links.get(link).cloned()).collect();
        let links = (0..repetitions.first()?.len()).map(of).collect();
        let fills = !matches!(kind.kind, TrafficKind::Web { .. } | TrafficKind::Pages { .. });
        Some(LinksAlone { links, fills })
    }
}

impl LinksAlone {
    /// Adds to `run` the figures to compare it with.
    pub(crate) fn compare(&self, run: &mut Run) {
        let mbps =
            |runs: &Vec<LinkAlone>| median(&runs.iter().map(|run| run.mbps).collect::<Vec<f64>>());
        let medians: Vec<f64> = self.links.iter().filter_map(mbps).collect();
        run.best_link_mbps = Some(medians.iter().copied().fold(0.0, f64::max));
        if self.fills {
            let sum: f64 = medians.iter().sum();
            run.sum_of_links_mbps = Some(sum);
            run.ratio = run.goodput_mbps.filter(|_| sum > 0.0).map(|goodput| goodput / sum);
        }
        if let Some(web) = &mut run.web {
            let of = |runs: &Vec<LinkAlone>| runs.iter().filter_map(|r| r.web.clone()).collect();
            web.compare(&self.links.iter().map(of).collect::<Vec<Vec<Web>>>());
        }
    }
}

/// The traffic over a link alone that `traffic` is compared with: one TCP connection with BBR, the
/// link's share of the datagrams, the same objects. `None` for traffic without a capacity to
/// compare. If the kernel plays all links, the connection uses the traffic's own congestion
/// control: in a VM, BBR's timers are too late for it to fill a link.
fn alone(traffic: &Traffic, scenario: &Scenario) -> Option<Traffic> {
    let kind = match &traffic.kind {
        tcp @ TrafficKind::Tcp { .. } if scenario.in_kernel == InKernel::All => tcp.clone(),
        TrafficKind::Tcp { .. } => TrafficKind::Tcp { congestion: CongestionControl::Bbr },
        TrafficKind::Smb => TrafficKind::Smb,
        udp @ TrafficKind::Udp { .. } => udp.clone(),
        TrafficKind::Web { .. } | TrafficKind::Pages { .. } => return Some(traffic.clone()),
        TrafficKind::Ping { .. } | TrafficKind::Voip => return None,
    };
    Some(Traffic { kind, flows: 1, ..traffic.clone() })
}

/// One link's result alone.
pub(crate) struct Alone {
    pub(crate) link: String,
    pub(crate) measured: Measured,
    /// The run, possibly of several links at once.
    pub(crate) outcome: Rc<Outcome>,
}

impl Alone {
    fn mbps(&self) -> f64 {
        self.measured.delivered.as_ref().map_or(0.0, Bins::mean_mbps)
    }
}

/// Measures every link with `traffic` alone on it.
pub(crate) fn each_alone(
    scenario: &Scenario,
    traffic: &Traffic,
    label: &str,
    around: Surroundings<'_>,
) -> Result<Vec<Alone>, RunFailure> {
    let sum = sum_of_rates(scenario, TrafficDirection::Down)
        .saturating_add(sum_of_rates(scenario, TrafficDirection::Up));
    // Samba is expensive enough to make the CPU the limit.
    let cheap = !matches!(traffic.kind, TrafficKind::Smb);
    let groups: Vec<Vec<usize>> = if sum <= AT_ONCE_UP_TO && cheap {
        vec![(0..scenario.links.len()).collect()]
    } else {
        (0..scenario.links.len()).map(|link| vec![link]).collect()
    };
    let mut found = Vec::new();
    for group in groups {
        let topology = build(scenario)?;
        let first = group.first().and_then(|link| scenario.links.get(*link));
        let name = first.map(|link| link.model.name.clone()).unwrap_or_default();
        let bench = Bench {
            topology: &topology,
            scenario,
            scratch: around.scratch,
            program: around.program,
            cancel: around.cancel,
        };
        let running = engines::bring_up(&EngineName::Link(name.clone()), &bench)?;
        let flows: Vec<Flow<'_>> = group
            .iter()
            .filter_map(|link| {
                let device = topology.links().get(*link)?.device();
                let rates = share_of(scenario, traffic, *link);
                Some(Flow { traffic, rates, device: Some(device) })
            })
            .collect();
        around.live.begin(&if group.len() == 1 {
            format!("{label}: {name}")
        } else {
            label.into()
        });
        let outcome = measure(&topology, &running, scenario, &flows, around.cancel, around.live)?;
        around.live.end();
        let outcome = Rc::new(outcome);
        for (link, measured) in group.iter().zip(&outcome.measured) {
            let link = scenario.links.get(*link).map(|link| link.model.name.clone());
            found.push(Alone {
                link: link.unwrap_or_default(),
                measured: measured.clone(),
                outcome: Rc::clone(&outcome),
            });
        }
    }
    Ok(found)
}

/// Builds the scenario's network.
pub(crate) fn build(scenario: &Scenario) -> Result<Topology, TopologyError> {
    let models: Vec<_> = scenario.links.iter().map(|link| link.model.clone()).collect();
    let planned = scenario.timeline().into_iter().map(|step| (step.link, step.change)).collect();
    Topology::build(
        &models,
        &TopologyOptions { planned, seed: scenario.seed, in_kernel: scenario.in_kernel },
    )
}

/// What `traffic` offers over all links.
pub(crate) fn offered(scenario: &Scenario, traffic: &Traffic) -> OfferedRates {
    match traffic.kind {
        TrafficKind::Udp { rate: OfferedRate::Absolute(rate), .. } => {
            OfferedRates { down: rate, up: rate }
        }
        TrafficKind::Udp { rate: OfferedRate::Share(share), .. } => OfferedRates {
            down: sum_of_rates(scenario, TrafficDirection::Down).scaled(share),
            up: sum_of_rates(scenario, TrafficDirection::Up).scaled(share),
        },
        _ => OfferedRates::default(),
    }
}

/// One link's part of that, by its rate.
fn share_of(scenario: &Scenario, traffic: &Traffic, link: usize) -> OfferedRates {
    let all = offered(scenario, traffic);
    let part = |all: Rate, direction| {
        let sum = sum_of_rates(scenario, direction).bytes_per_sec().max(1) as f64;
        let own = scenario.links.get(link).map_or(Rate::ZERO, |link| rate_of(link, direction));
        all.scaled(own.bytes_per_sec() as f64 / sum)
    };
    OfferedRates {
        down: part(all.down, TrafficDirection::Down),
        up: part(all.up, TrafficDirection::Up),
    }
}

fn sum_of_rates(scenario: &Scenario, direction: TrafficDirection) -> Rate {
    let rates = scenario.links.iter().map(|link| rate_of(link, direction));
    rates.fold(Rate::ZERO, Rate::saturating_add)
}

fn rate_of(link: &crate::scenario::Link, direction: TrafficDirection) -> Rate {
    match direction {
        TrafficDirection::Up => link.model.up.capacity.mean_rate(),
        TrafficDirection::Down | TrafficDirection::Both => link.model.down.capacity.mean_rate(),
    }
}
