//! The README's demonstration: what each link carries alone, and what several ways of joining them
//! achieve.

use crate::baseline::{RunFailure, Surroundings, each_alone};
use crate::cancel::Cancel;
use crate::engines::EngineName;
use crate::live::Live;
use crate::plan::{Findings, Plan};
use crate::report::Record;
use crate::run::record;
use crate::scenario::{Scenario, TunnelMode};
use crate::scratch::Scratch;
use std::path::Path;

/// Runs it; the links alone are measured simultaneously, each with its own connection.
pub(crate) fn run(
    scenario: Scenario,
    program: &Path,
    scratch: &Scratch,
    cancel: &Cancel,
    live: &Live,
) -> Findings {
    let plan = Plan {
        scenario,
        engines: vec![
            EngineName::Tunnel { mode: Some(TunnelMode::BALANCE_RR) },
            EngineName::Mptcp,
            EngineName::Tunnel { mode: None },
        ],
        repeat: 1,
        baseline: true,
        keep_logs: None,
        program: program.to_path_buf(),
    };
    let alone = alone(&plan, scratch, cancel, live);
    let mut findings = crate::run::run(&plan, scratch, cancel, live);
    match alone {
        Ok(records) => {
            findings.report.records.splice(0..0, records);
        }
        Err(error) => findings.failures.push(format!("links alone: {error}")),
    }
    findings
}

fn alone(
    plan: &Plan,
    scratch: &Scratch,
    cancel: &Cancel,
    live: &Live,
) -> Result<Vec<Record>, RunFailure> {
    let folder = scratch.folder("alone")?;
    let around = Surroundings { cancel, live, scratch: &folder, program: &plan.program };
    let mut records = Vec::new();
    for (traffic, name) in plan.scenario.traffic.iter().zip(plan.scenario.traffic_names()) {
        let label = format!("each link alone, {traffic}");
        for alone in each_alone(&plan.scenario, traffic, &label, around)? {
            let engine = EngineName::Link(alone.link.clone());
            let mut record = record(&engine, &name, 1, traffic, &alone.measured, &alone.outcome);
            record.detail.links.retain(|link| link.name == alone.link);
            live.line(&crate::run::told(&record.run));
            records.push(record);
        }
    }
    Ok(records)
}
