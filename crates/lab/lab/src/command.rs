//! The lab's command line.

mod compare_command;
mod vm_command;

pub use compare_command::CompareArgs;
pub use vm_command::VmArgs;

use crate::cancel::{Cancel, INTERRUPTED};
use crate::demo;
use crate::engines::mptcp_proxy::{self, MptcpProxyArgs};
use crate::engines::null_loop::{self, NullLoopArgs};
use crate::engines::{self, EngineName};
use crate::live::{self, Live};
use crate::output::say;
use crate::plan::{Findings, Plan};
use crate::report::{bars, markdown, page};
use crate::run::run;
use crate::scenario::{SHIPPED, Scenario};
use crate::scratch::Scratch;
use crate::second_kernel::{self, Handover};
use crate::topology;
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Something couldn't be measured.
const NOT_MEASURED: u8 = 1;
/// The command line or the scenario is invalid (same as clap's own).
const USAGE: u8 = 2;
/// The lab can't work on this machine.
const NO_LAB: u8 = 3;

/// Duration of each measurement of a calibration.
const CALIBRATION_TIME: Duration = Duration::from_secs(2);

/// `braid lab`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  braid lab scenarios\n  braid lab run browse --engine tunnel --engine each"
)]
pub struct LabArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: LabCommand,
}

/// What the lab can do.
#[derive(Debug, Subcommand)]
pub enum LabCommand {
    /// Run real traffic over emulated links through one or more engines
    #[command(after_help = "Example: braid lab run six-3g --engine tunnel --engine mptcp \
        --repeat 3 --json six.json --report six.html\n\nExit status: 0 everything was measured, \
        1 something was not, 2 the scenario or command line is wrong, 3 the lab can't work on \
        this machine, 130 interrupted.")]
    Run(RunArgs),
    /// Show each link alone, round robin, the kernel's MPTCP and Braid side by side
    #[command(
        after_help = "Example: braid lab demo --seconds 10 --report demo.html\n\nExit status: as for `braid lab run`."
    )]
    Demo(DemoArgs),
    /// Measure all engines of the kernel and Braid side by side: one command, one report
    #[command(
        after_help = "Example: braid lab compare --suite home-lan --report lan.html --markdown lan.md\n\nTakes below 30 minutes; engines that this kernel lacks are measured in a VM. Exit status: as for `braid lab run`."
    )]
    Compare(CompareArgs),
    /// List the scenarios that are part of this program
    #[command(after_help = "Example: braid lab scenarios six-3g > mine.toml")]
    Scenarios(ScenariosArgs),
    /// Measure how accurately this machine emulates links
    #[command(
        after_help = "Example: braid lab calibrate --json\n\nExit status: 0 rates within 1 % and delays within 1 ms, 1 otherwise, 3 the lab can't work on this machine."
    )]
    Calibrate(CalibrateArgs),
    /// Run a command as root in a second kernel (User Mode Linux), with disks of its own
    #[command(
        after_help = "Example: braid lab vm -d 300MB -- sh -c 'mkfs.ext4 -q /dev/ubda && mount /dev/ubda /mnt && df /mnt'\n\nThe command sees this host's files; what it writes stays in the VM, except in --writable folders. Exit status: the command's; 3 no VM can run here, 124 the time limit was reached."
    )]
    Vm(VmArgs),
    /// One end of the engine `mptcp:proxy`
    #[command(hide = true)]
    MptcpProxy(MptcpProxyArgs),
    /// One end of the engine `null`
    #[command(hide = true)]
    NullLoop(NullLoopArgs),
}

/// `braid lab run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Scenario file, or the name of a shipped scenario
    pub scenario: PathBuf,
    /// tunnel, tunnel:MODE, link:NAME, each, mptcp, mptcp:proxy, ecmp, round-robin, null,
    /// external:FILE, or another kernel engine such as bonding:balance-rr (a wrong name lists all);
    /// may be repeated [default: each and tunnel]
    #[arg(long = "engine", value_name = "ENGINE")]
    pub engines: Vec<String>,
    /// Number of repetitions; the engines take turns
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeat: u32,
    /// Write the results here as JSON
    #[arg(long, value_name = "OUT")]
    pub json: Option<PathBuf>,
    /// Write a report with plots here
    #[arg(long, value_name = "OUT.html")]
    pub report: Option<PathBuf>,
    /// Copy the engines' configs and logs here
    #[arg(long, value_name = "DIR")]
    pub keep_logs: Option<PathBuf>,
    /// Seed of losses, jitter and synthetic traces, instead of the scenario's
    #[arg(long)]
    pub seed: Option<u64>,
    /// Do not measure the links alone: faster, but there is no sum to compare with
    #[arg(long)]
    pub no_baseline: bool,
    /// Duration of one run in seconds, instead of the scenario's
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub seconds: Option<u64>,
    /// What the lab tells itself in a VM
    #[command(flatten)]
    pub inside: InsideArgs,
}

/// What a run outside tells the one in a VM.
#[derive(Debug, Args)]
pub struct InsideArgs {
    /// What paths in the scenario are relative to
    #[arg(long, hide = true)]
    relative_to: Option<PathBuf>,
    /// How long one run takes
    #[arg(long, hide = true)]
    milliseconds: Option<u64>,
    /// Where to leave what was measured
    #[arg(long, hide = true)]
    handover: Option<PathBuf>,
}

/// `braid lab demo`.
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Duration of each of the five runs, in seconds
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(2..=600))]
    pub seconds: u64,
    /// Write the report with plots here
    #[arg(long, default_value = "report.html", value_name = "OUT.html")]
    pub report: PathBuf,
    /// Write the results here as JSON
    #[arg(long, value_name = "OUT")]
    pub json: Option<PathBuf>,
}

/// `braid lab scenarios`.
#[derive(Debug, Args)]
pub struct ScenariosArgs {
    /// Print the TOML of this one
    pub name: Option<String>,
    /// Print the list as JSON
    #[arg(long, conflicts_with = "name")]
    pub json: bool,
}

/// `braid lab calibrate`.
#[derive(Debug, Args)]
pub struct CalibrateArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Executes the command. Must be called while the process has a single thread, since it may enter a
/// user namespace.
pub fn execute(command: LabCommand) -> ExitCode {
    match command {
        LabCommand::Run(args) => execute_run(&args),
        LabCommand::Demo(args) => execute_demo(&args),
        LabCommand::Scenarios(args) => execute_scenarios(&args),
        LabCommand::Calibrate(args) => execute_calibrate(&args),
        LabCommand::Compare(args) => compare_command::execute(&args),
        LabCommand::Vm(args) => vm_command::execute(&args),
        LabCommand::MptcpProxy(args) => match mptcp_proxy::serve(&args) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("braid lab mptcp-proxy: {error}");
                ExitCode::from(NOT_MEASURED)
            }
        },
        LabCommand::NullLoop(args) => match null_loop::run(&args) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("braid lab null-loop: {error}");
                ExitCode::from(NOT_MEASURED)
            }
        },
    }
}

/// What must be prepared before anything can be measured.
struct Prepared {
    scratch: Scratch,
    cancel: Cancel,
    program: PathBuf,
}

fn prepare(wanted: &[&Path]) -> Result<Prepared, ExitCode> {
    let failed = |what: &str, error: &dyn std::fmt::Display| {
        eprintln!("braid lab: {what}: {error}");
        ExitCode::from(NO_LAB)
    };
    let program =
        std::env::current_exe().map_err(|error| failed("can't find this program", &error))?;
    topology::prepare_process().map_err(|error| failed("can't build the lab's network", &error))?;
    let cancel = Cancel::on_signals().map_err(|error| failed("can't catch signals", &error))?;
    let here = std::env::current_dir().unwrap_or_default();
    let mut wanted = wanted.to_vec();
    wanted.extend([program.as_path(), here.as_path()]);
    let scratch =
        Scratch::private(&wanted).map_err(|error| failed("can't make a folder", &error))?;
    Ok(Prepared { scratch, cancel, program })
}

fn execute_run(args: &RunArgs) -> ExitCode {
    let scenario = match load_for_run(args) {
        Ok(scenario) => scenario,
        Err(error) => return usage(&error),
    };
    let default = ["each".to_owned(), "tunnel".to_owned()];
    let texts = if args.engines.is_empty() { &default } else { &args.engines[..] };
    let engines = match engines::named(texts, &scenario) {
        Ok(engines) => engines,
        Err(error) => return usage(&error),
    };
    let outputs = [&args.json, &args.report, &args.keep_logs];
    let files = [&args.json, &args.report].into_iter().flatten().map(|file| (file, writable(file)));
    let folder = args.keep_logs.iter().map(|folder| (folder, std::fs::create_dir_all(folder)));
    for (output, result) in files.chain(folder) {
        // Better to fail now than after an hour of measuring.
        if let Err(error) = result {
            return usage(&format!("{}: can't write there: {error}", output.display()));
        }
    }
    let mut wanted: Vec<&Path> = outputs.into_iter().filter_map(|path| path.as_deref()).collect();
    wanted.extend(args.inside.handover.as_deref());
    for engine in &engines {
        if let EngineName::External(file) = engine {
            wanted.push(file);
        }
    }
    let prepared = match prepare(&wanted) {
        Ok(prepared) => prepared,
        Err(code) => return code,
    };
    let plan = Plan {
        scenario,
        engines,
        repeat: args.repeat,
        baseline: !args.no_baseline,
        keep_logs: args.keep_logs.clone(),
        program: prepared.program,
    };
    // A VM's console is a terminal, but not the user's.
    let live = if args.inside.handover.is_some() { Live::lines() } else { Live::new() };
    let findings = run(&plan, &prepared.scratch, &prepared.cancel, &live);
    if let Some(path) = &args.inside.handover {
        return finish(&[], Handover::write(&findings, path), &prepared.cancel);
    }
    for report in findings.reports() {
        say!("\n{}", markdown(report));
    }
    let written = write_outputs(&findings, args.json.as_deref(), args.report.as_deref());
    finish(&findings.failures, written, &prepared.cancel)
}

fn execute_demo(args: &DemoArgs) -> ExitCode {
    let mut scenario = match load(Path::new("six-3g"), None) {
        Ok(scenario) => scenario,
        Err(error) => return usage(&error),
    };
    scenario.duration = Duration::from_secs(args.seconds);
    for traffic in &mut scenario.traffic {
        traffic.stop = scenario.duration;
    }
    let outputs = [Some(&args.report), args.json.as_ref()];
    let wanted: Vec<&Path> = outputs.into_iter().flatten().map(PathBuf::as_path).collect();
    for output in &wanted {
        if let Err(error) = writable(output) {
            return usage(&format!("{}: can't write there: {error}", output.display()));
        }
    }
    let prepared = match prepare(&wanted) {
        Ok(prepared) => prepared,
        Err(code) => return code,
    };
    let live = Live::new();
    let findings =
        demo::run(scenario, &prepared.program, &prepared.scratch, &prepared.cancel, &live);
    say!("\n{}", markdown(&findings.report));
    say!("{}", bars(&findings.report, live::width()));
    let written = write_outputs(&findings, args.json.as_deref(), Some(&args.report));
    if written.is_ok() {
        say!("Plots: {}", args.report.display());
    }
    finish(&findings.failures, written, &prepared.cancel)
}

fn execute_scenarios(args: &ScenariosArgs) -> ExitCode {
    if let Some(name) = &args.name {
        return match SHIPPED.iter().find(|shipped| shipped.name == name) {
            Some(shipped) => {
                print!("{}", shipped.text);
                ExitCode::SUCCESS
            }
            None => usage(&format!("there is no shipped scenario {name:?}")),
        };
    }
    let mut list = Vec::new();
    for shipped in SHIPPED {
        match shipped.load() {
            Ok(scenario) => list.push((shipped.name, scenario.description)),
            Err(error) => return usage(&error),
        }
    }
    if args.json {
        let list = list.iter().map(|(name, about)| json!({ "name": name, "description": about }));
        say!("{:#}", Value::from_iter(list));
    } else {
        for (name, description) in list {
            say!("{name:<18} {description}");
        }
    }
    ExitCode::SUCCESS
}

fn execute_calibrate(args: &CalibrateArgs) -> ExitCode {
    if let Err(code) = prepare(&[]) {
        return code;
    }
    let live = if args.json { Live::silent() } else { Live::new() };
    live.expect(topology::CALIBRATION_PARTS);
    let calibrated = topology::calibrate(CALIBRATION_TIME, &|part| live.prepare(part));
    live.end();
    match calibrated {
        Ok(sets) => {
            let good = sets.iter().all(topology::Calibration::is_true);
            if args.json {
                say!("{:#}", json!({ "good": good, "sets": sets }));
            } else {
                for set in &sets {
                    say!("{set}");
                }
                say!(
                    "{}",
                    match good {
                        true => "Good: rates within 1 %, delays within 1 ms.",
                        false =>
                            "Not within 1 % and 1 ms: is the machine busy with something else?",
                    }
                );
            }
            ExitCode::from(if good { 0 } else { NOT_MEASURED })
        }
        Err(error) => {
            eprintln!("braid lab: {error}");
            ExitCode::from(NOT_MEASURED)
        }
    }
}

fn load_for_run(args: &RunArgs) -> Result<Scenario, String> {
    let mut scenario = match &args.inside.relative_to {
        None => load(&args.scenario, args.seed)?,
        Some(folder) => {
            let name = args.scenario.display().to_string();
            let text = std::fs::read_to_string(&args.scenario)
                .map_err(|error| format!("{name}: {error}"))?;
            Scenario::parse_with_seed(&name, &text, folder, args.seed)
                .map_err(|error| error.to_string())?
        }
    };
    let own = args.seconds.map(Duration::from_secs);
    if let Some(duration) = args.inside.milliseconds.map(Duration::from_millis).or(own) {
        scenario.last(duration).map_err(|error| format!("{}: {error}", args.scenario.display()))?;
    }
    if args.inside.handover.is_some() {
        second_kernel::prepare_inside(&mut scenario);
    }
    Ok(scenario)
}

fn load(file: &Path, seed: Option<u64>) -> Result<Scenario, String> {
    Scenario::load_with_seed(file, seed).map_err(|error| error.to_string())
}

/// Checks that the file can be opened, without changing it.
fn writable(path: &Path) -> std::io::Result<()> {
    let new = !path.exists();
    std::fs::File::options().append(true).create(true).open(path)?;
    if new {
        std::fs::remove_file(path)?;
    }
    Ok(())
}

fn write_outputs(
    findings: &Findings,
    json: Option<&Path>,
    html: Option<&Path>,
) -> Result<(), String> {
    let write = |path: &Path, text: String| {
        std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
    };
    if let Some(path) = json {
        write(path, findings.results().to_json() + "\n")?;
    }
    if let Some(path) = html {
        write(path, page(&findings.reports()))?;
    }
    Ok(())
}

fn finish(failures: &[String], written: Result<(), String>, cancel: &Cancel) -> ExitCode {
    if let Err(error) = &written {
        eprintln!("braid lab: {error}");
    }
    if cancel.is_cancelled() {
        return ExitCode::from(INTERRUPTED);
    }
    for failure in failures {
        eprintln!("braid lab: not measured: {failure}");
    }
    if failures.is_empty() && written.is_ok() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(NOT_MEASURED)
    }
}

fn usage(error: &dyn std::fmt::Display) -> ExitCode {
    eprintln!("braid lab: {error}");
    ExitCode::from(USAGE)
}
