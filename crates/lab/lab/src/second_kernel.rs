//! Measures the same scenario in a VM, for engines that the running kernel lacks. The results are
//! in a separate report: a system call costs a hundred times more there, so its figures can only be
//! compared with each other.

use crate::cancel::Cancel;
use crate::engines::EngineName;
use crate::live::Live;
use crate::plan::{Findings, Plan};
use crate::report::{Host, Record, Report};
use crate::scenario::Scenario;
use crate::scratch::Scratch;
use braid_vm::{Vm, VmError};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// Time in addition to the traffic: for bringing engines up, each with many processes.
const PER_RUN: Duration = Duration::from_secs(30);
const TO_BOOT: Duration = Duration::from_secs(60);
/// How many times slower a loaded machine may be.
const PATIENCE: u32 = 3;
const LOOK: Duration = Duration::from_millis(50);

/// What a run in the VM passes to the process outside.
#[derive(Debug, Serialize, Deserialize)]
pub struct Handover {
    host: Host,
    notes: Vec<String>,
    records: Vec<Record>,
    failures: Vec<String>,
}

impl Handover {
    /// Writes what was measured inside.
    ///
    /// # Errors
    /// The file can't be written.
    pub fn write(findings: &Findings, path: &Path) -> Result<(), String> {
        let handover = Handover {
            host: findings.report.host.clone(),
            notes: findings.report.notes.clone(),
            records: findings.report.records.clone(),
            failures: findings.failures.clone(),
        };
        let text = serde_json::to_string(&handover).map_err(|error| error.to_string())?;
        fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
    }
}

/// Measures `engines` of `plan` in a VM, with its own baseline. `Err` says why nothing was
/// measured.
///
/// # Errors
/// No VM is possible here, or it failed.
pub fn measure(
    plan: &Plan,
    engines: &[EngineName],
    scratch: &Scratch,
    cancel: &Cancel,
    live: &Live,
) -> Result<Findings, String> {
    let vm = Vm::find().map_err(|error| error.to_string())?;
    let folder = scratch.folder("vm").map_err(|error| format!("can't make a folder: {error}"))?;
    let handover = folder.join("handover.json");
    let argv = command_line(plan, engines, &folder, &handover)?;
    // Each link alone counts as an engine.
    let runs = plan.repeat * (engines.len() as u32 + plan.scenario.links.len() as u32 + 1);
    let mut vm = vm
        .writable(&folder)
        .host_name("braid-lab")
        .time_limit(TO_BOOT + (plan.scenario.duration * PATIENCE + PER_RUN) * runs);
    if let Some(folder) = &plan.keep_logs {
        fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        vm = vm.writable(folder);
    }
    if live.is_shown() {
        vm = vm.echo();
    }
    let running = vm.start(argv).map_err(|error| error.to_string())?;
    while !running.is_over() {
        if !cancel.sleep(LOOK) {
            running.power_cut();
            return Err("interrupted".to_owned());
        }
    }
    let output = running.wait().map_err(|error| told(&error))?;
    let text = fs::read_to_string(&handover)
        .map_err(|_| format!("it ended ({}):\n{}", output.status, output.console))?;
    let handover: Handover =
        serde_json::from_str(&text).map_err(|error| format!("it left nonsense: {error}"))?;
    let mut host = handover.host;
    host.cpu = format!("User Mode Linux on {}", Host::this().cpu);
    let report = Report {
        scenario: plan.scenario.clone(),
        host,
        notes: handover.notes,
        records: handover.records,
    };
    Ok(Findings { report, failures: handover.failures, in_vm: None })
}

fn command_line(
    plan: &Plan,
    engines: &[EngineName],
    folder: &Path,
    handover: &Path,
) -> Result<Vec<OsString>, String> {
    let text = &plan.scenario.text;
    let file = folder.join("scenario.toml");
    fs::write(&file, &text.text).map_err(|error| format!("{}: {error}", file.display()))?;
    let relative_to = std::env::current_dir().unwrap_or_default().join(&text.folder);
    // Modules that aren't loaded automatically before they are needed, or that both ends would
    // request at once, so that one would fail.
    let modules = "modprobe -aq ipv6 tun team tcp_bbr; exec \"$@\"";
    let mut argv: Vec<OsString> = ["sh", "-c", modules, "sh"].map(OsString::from).into();
    argv.extend([plan.program.clone().into(), "lab".into(), "run".into(), file.into()]);
    let mut option = |name: &str, value: OsString| {
        argv.push(name.into());
        argv.push(value);
    };
    option("--relative-to", relative_to.into());
    option("--seed", plan.scenario.seed.to_string().into());
    option("--milliseconds", plan.scenario.duration.as_millis().to_string().into());
    option("--repeat", plan.repeat.to_string().into());
    option("--handover", handover.into());
    for engine in engines {
        option("--engine", engine.to_string().into());
    }
    if let Some(folder) = &plan.keep_logs {
        option("--keep-logs", std::env::current_dir().unwrap_or_default().join(folder).into());
    }
    if !plan.baseline {
        argv.push("--no-baseline".into());
    }
    Ok(argv)
}

/// Adapts `scenario` to this kernel, the VM's.
pub fn prepare_inside(scenario: &mut Scenario) {
    scenario.in_kernel = crate::topology::InKernel::All;
}

fn told(error: &VmError) -> String {
    format!("the VM: {error}")
}
