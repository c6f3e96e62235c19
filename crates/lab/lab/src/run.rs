//! A run of the lab: every engine and repetition of a scenario, in turn.

use crate::baseline::{Baselines, RunFailure, Surroundings, build, offered};
use crate::cancel::Cancel;
use crate::engines::{self, Bench, EngineName, missing};
use crate::live::Live;
use crate::measure::{Flow, Outcome, measure};
use crate::plan::{Findings, Plan};
use crate::report::{Detail, Host, Record, Run, Web};
use crate::scenario::Traffic;
use crate::scratch::Scratch;
use crate::second_kernel;
use crate::topology::{Backend, InKernel, Topology};
use crate::traffic::Measured;

/// The JSON has goodput in bins of 100 ms.
const SERIES_BINS: usize = 10;

/// Measures a plan; uses a VM for engines that this kernel lacks.
pub fn run(plan: &Plan, scratch: &Scratch, cancel: &Cancel, live: &Live) -> Findings {
    let mut host = missing::Host::default();
    let mut lacking: Vec<(EngineName, String)> = Vec::new();
    let mut here = plan.clone();
    if !Host::this().vm {
        here.engines.retain(|engine| match host.lacks(engine, &plan.scenario) {
            Some(what) => {
                lacking.push((engine.clone(), what));
                false
            }
            None => true,
        });
    }
    let ethernet = plan.scenario.links.iter().all(|link| link.ethernet);
    if ethernet && here.scenario.in_kernel == InKernel::Fast && host.has_netem() {
        here.scenario.in_kernel = InKernel::All;
    }
    let mut findings = if here.engines.is_empty() && !lacking.is_empty() {
        Findings::none(&here.scenario)
    } else {
        run_here(&here, scratch, cancel, live)
    };
    if lacking.is_empty() || cancel.is_cancelled() {
        return findings;
    }
    let names: Vec<String> =
        lacking.iter().map(|(engine, what)| format!("{engine} ({what})")).collect();
    live.line(&format!("in a VM, since this kernel has no: {}", names.join(", ")));
    let engines: Vec<EngineName> = lacking.into_iter().map(|(engine, _)| engine).collect();
    match second_kernel::measure(plan, &engines, scratch, cancel, live) {
        Ok(inside) => {
            let mut report = inside.report;
            report.add_notes([format!(
                "measured in a VM (Linux {}), since the host's kernel ({}) has no: {}",
                report.host.kernel,
                findings.report.host.kernel,
                names.join(", ")
            )]);
            findings.failures.extend(inside.failures);
            findings.in_vm = Some(report);
        }
        Err(error) => {
            let engines: Vec<String> = engines.iter().map(EngineName::to_string).collect();
            findings.fail(live, &format!("{} in a VM: {error}", engines.join(", ")));
        }
    }
    findings
}

/// Measures a plan under this kernel. Failures are reported and skipped; a cancelled plan ends with
/// what it has.
fn run_here(plan: &Plan, scratch: &Scratch, cancel: &Cancel, live: &Live) -> Findings {
    let scenario = &plan.scenario;
    let mut baselines = Baselines::of(scenario);
    let mut findings = Findings::none(scenario);
    let links_alone = if plan.baseline { baselines.kinds() } else { 0 };
    live.expect(plan.repeat as usize * (links_alone + plan.engines.len()));
    for repetition in 1..=plan.repeat {
        if plan.baseline && !cancel.is_cancelled() {
            let result = scratch.folder("links").map_err(RunFailure::from).and_then(|folder| {
                let around =
                    Surroundings { cancel, live, scratch: &folder, program: &plan.program };
                baselines.repeat(scenario, around)
            });
            if let Err(error) = result {
                findings.fail(live, &format!("links alone, repetition {repetition}: {error}"));
            }
        }
        for engine in &plan.engines {
            if cancel.is_cancelled() {
                break;
            }
            match run_engine(plan, engine, repetition, scratch, cancel, live) {
                Ok((records, notes)) => {
                    for record in &records {
                        live.line(&told(&record.run));
                    }
                    findings.report.records.extend(records);
                    findings.report.add_notes(notes);
                }
                Err(error) => {
                    findings.fail(live, &format!("{engine}, repetition {repetition}: {error}"));
                }
            }
        }
    }
    if cancel.is_cancelled() {
        findings.failures.push("interrupted".to_owned());
    }
    let names = scenario.traffic_names();
    for record in &mut findings.report.records {
        let position = names.iter().position(|name| *name == record.run.traffic);
        let traffic = position.and_then(|position| scenario.traffic.get(position));
        if let Some(alone) = traffic.and_then(|traffic| baselines.of_traffic(traffic, scenario)) {
            alone.compare(&mut record.run);
        }
    }
    findings
}

fn run_engine(
    plan: &Plan,
    engine: &EngineName,
    repetition: u32,
    scratch: &Scratch,
    cancel: &Cancel,
    live: &Live,
) -> Result<(Vec<Record>, Vec<String>), RunFailure> {
    let scenario = &plan.scenario;
    let folder = scratch.folder("engine")?;
    let topology = build(scenario)?;
    let bench =
        Bench { topology: &topology, scenario, scratch: &folder, program: &plan.program, cancel };
    let label = match plan.repeat {
        1 => engine.to_string(),
        repeat => format!("{engine} ({repetition} of {repeat})"),
    };
    live.prepare(&label);
    let running = engines::bring_up(engine, &bench);
    live.end();
    let names = scenario.traffic_names();
    let records = running.map_err(RunFailure::from).and_then(|running| {
        let traffic: Vec<(&Traffic, &String)> = scenario.traffic.iter().zip(&names).collect();
        let at_once = if scenario.in_turn { 1 } else { traffic.len() };
        let mut records = Vec::new();
        for together in traffic.chunks(at_once) {
            let flows: Vec<Flow<'_>> = together
                .iter()
                .map(|(traffic, _)| Flow {
                    traffic,
                    rates: offered(scenario, traffic),
                    device: None,
                })
                .collect();
            live.begin(&match together {
                [(_, name)] if scenario.in_turn => format!("{label}, {name}"),
                _ => label.clone(),
            });
            let outcome = measure(&topology, &running, scenario, &flows, cancel, live);
            live.end();
            let outcome = outcome?;
            for (number, (traffic, name)) in together.iter().enumerate() {
                let Some(measured) = outcome.measured.get(number) else { continue };
                let mut record = record(engine, name, repetition, traffic, measured, &outcome);
                record.run.overhead_ratio = outcome.overhead(&flows, number);
                records.push(record);
            }
        }
        Ok(records)
    });
    if let Some(target) = &plan.keep_logs {
        let name = format!("{engine}-{repetition}").replace(['/', ':'], "_");
        engines::keep_logs(&folder, &target.join(name))?;
    }
    Ok((records?, link_notes(&topology)))
}

/// The record of one traffic of a run.
pub(crate) fn record(
    engine: &EngineName,
    name: &str,
    repetition: u32,
    traffic: &Traffic,
    measured: &Measured,
    outcome: &Outcome,
) -> Record {
    let pings = measured.pings.as_ref();
    let series = measured.delivered.as_ref().map(|bins| {
        let rounded = |(time, mbps): (f64, f64)| (round(time), round(mbps));
        bins.series(SERIES_BINS).into_iter().map(rounded).collect()
    });
    let loss = match (&measured.voice, &measured.datagrams) {
        (Some(voice), _) => Some(voice.bad_share()),
        (None, Some(datagrams)) => Some(datagrams.loss()),
        (None, None) => None,
    };
    Record {
        run: Run {
            engine: engine.to_string(),
            traffic: name.to_owned(),
            repetition,
            goodput_mbps: measured.delivered.as_ref().map(|bins| bins.mean_mbps()),
            longest_stall_ms: measured.longest_stall.map(|stall| stall.as_secs_f64() * 1e3),
            ping_ms: pings.and_then(|pings| pings.percentiles()).map(Into::into),
            ping_lost: pings.map(|pings| pings.lost()),
            udp_loss: loss,
            reordered: measured.datagrams.map(|datagrams| datagrams.reordered_share()),
            cpu_seconds: outcome.cpu,
            web: Web::of(traffic, measured),
            series,
            ..Run::default()
        },
        detail: Detail {
            links: outcome.links(),
            pings: pings.map(|pings| pings.answered.clone()).unwrap_or_default(),
            datagrams: measured.datagrams,
            voice: measured.voice,
            start_s: traffic.start.as_secs_f64(),
        },
    }
}

/// A run in one line.
pub(crate) fn told(run: &Run) -> String {
    let mut text = format!("{:<24} {:<18}", run.engine, run.traffic);
    let mut add = |value: Option<f64>, unit: &str| {
        if let Some(value) = value {
            text.push_str(&format!("  {value:.2} {unit}"));
        }
    };
    add(run.goodput_mbps, "Mbit/s");
    add(run.longest_stall_ms, "ms stall");
    add(run.ping_ms.map(|ping| ping.p50), "ms ping");
    add(run.ping_ms.map(|ping| ping.p95), "ms p95");
    add(run.ping_lost.map(|lost| lost as f64), "pings lost");
    add(run.udp_loss.map(|loss| loss * 100.0), "% lost");
    let page = run.web.as_ref().and_then(|web| web.page.as_ref());
    add(page.and_then(|page| Some(page.load_ms?.p50 / 1e3)), "s a page");
    text
}

fn link_notes(topology: &Topology) -> Vec<String> {
    let note = |backend: &Backend| match backend {
        Backend::UserSpace { note } | Backend::Kernel { note } => note.clone(),
    };
    let links = topology.links().iter();
    links.filter_map(|l| Some(format!("{}: {}", l.model().name, note(l.backend())?))).collect()
}

fn round(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}
