use super::carry_out::StateFolders;
use super::examined::{Examined, render};
#[cfg(feature = "page")]
use super::pools_look;
use super::{told, watch_memory};
use crate::cli::failure::{Failure, print_line, tell};
use crate::cli::{Global, JsonFlag};
#[cfg(feature = "page")]
use crate::daemon::page::POOLS;
use braid_disks::AskSmart;
use braid_history::unix_now;
use braid_pool::doctor::Baseline;
use braid_pool::prometheus;
use braid_pool::watch::{Change, Event};
use clap::Args;
use serde_json::json;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

#[derive(Args)]
#[command(
    after_help = "Examples:\n  braid pool watch --hook 'mail -s \"$BRAID_EVENT: $BRAID_WHAT\" root'\n  braid pool watch --every 5m --prometheus /var/lib/node_exporter/braid.prom\n\nA hook gets BRAID_EVENT (new, worse, better, gone), BRAID_POOL, BRAID_SEVERITY, BRAID_CODE, BRAID_WHAT, BRAID_MEND, and the change as JSON on its standard input. A hook that fails is called again after the next check.\n\nExit codes: 0 nothing wrong, 10 something should be fixed, 11 redundancy is lost or data is in danger, 12 data can't be reached"
)]
pub struct Watch {
    #[command(flatten)]
    _json: JsonFlag,
    /// Keep checking until interrupted, instead of once
    #[arg(long, value_name = "TIME", value_parser = braid_units::parse_duration)]
    every: Option<Duration>,
    /// Run this command with `sh -c` for each change
    #[arg(long, value_name = "COMMAND")]
    hook: Option<String>,
    /// Write metrics for node_exporter's textfile collector
    #[arg(long, value_name = "FILE")]
    prometheus: Option<PathBuf>,
    /// State file, kept between checks
    #[arg(long, value_name = "FILE", default_value = watch_memory::DEFAULT)]
    state: PathBuf,
    /// Skip the disks' own health reports (SMART), which take a while
    #[arg(long)]
    no_smart: bool,
    #[command(flatten)]
    place: StateFolders,
}

const HOOK_ENDS_WITHIN: Duration = Duration::from_secs(60);
const LOOK_AT_HOOK_EVERY: Duration = Duration::from_millis(20);

impl Watch {
    pub fn run(&self, global: &Global) -> Result<ExitCode, Failure> {
        loop {
            let health = self.look(global)?;
            match self.every {
                None => return Ok(health),
                Some(every) => thread::sleep(every),
            }
        }
    }

    /// Looks once and reports what changed.
    fn look(&self, global: &Global) -> Result<ExitCode, Failure> {
        let ask_smart = if self.no_smart { AskSmart::No } else { AskSmart::Yes };
        let mut memory = watch_memory::read(&self.state)?;
        let examined = Examined::now(&[], ask_smart, &memory.errors, &self.place)?;
        if let Some(file) = &self.prometheus {
            watch_memory::replace(file, &metrics(&examined))?;
        }
        #[cfg(feature = "page")]
        pools_look::write(&self.state.with_file_name(POOLS), &examined)?;
        let changes = memory.changes(&examined.findings, |pool| examined.looks_into(pool));
        let mut all_told = true;
        for change in &changes {
            if !global.json {
                print_line(&format!("{:<6}  {}", change.event.as_str(), render(&change.finding)))?;
            }
            match self.hook.as_deref().map_or(Ok(()), |hook| call(hook, change)) {
                Ok(()) => memory.told(change),
                Err(why) => {
                    all_told = false;
                    tell(&format!("braid: the hook failed and will be called again: {why}"));
                }
            }
        }
        if global.json {
            let report = json!({ "changes": changes, "findings": examined.findings });
            print_line(&report.to_string())?;
        }
        let now = now_s();
        let scrubs = memory.scrubs_ended(&examined.pools, now);
        let events: Vec<_> =
            changes.iter().map(told::of_change).chain(scrubs.iter().map(told::of_scrub)).collect();
        let folder = self.state.parent().unwrap_or(Path::new(""));
        all_told &= told::tell_events(global, folder, &events);
        if all_told {
            // Otherwise rising error counters would be found, and reported, again.
            memory.errors = Baseline::of(&examined.pools);
        }
        watch_memory::write(&self.state, &memory)?;
        Ok(examined.health().into())
    }
}

fn metrics(examined: &Examined) -> String {
    let Examined { pools, locked, disks, findings } = examined;
    prometheus::metrics(pools, locked, disks, findings, now_s())
}

fn now_s() -> u64 {
    u64::try_from(unix_now()).unwrap_or_default()
}

/// Runs the hook for one change.
fn call(hook: &str, change: &Change) -> Result<(), String> {
    let of = &change.finding;
    let as_json = serde_json::to_value(change).map_err(|error| error.to_string())?;
    let word = |key: &str| as_json["finding"][key].as_str().unwrap_or_default().to_owned();
    let mut child = Command::new("sh")
        .args(["-c", hook])
        .env("BRAID_EVENT", change.event.as_str())
        .env("BRAID_POOL", of.pool.as_deref().unwrap_or_default())
        .env("BRAID_SEVERITY", word("severity"))
        .env("BRAID_CODE", word("code"))
        .env("BRAID_WHAT", &of.what)
        .env("BRAID_MEND", if change.event == Event::Gone { "" } else { &of.mend })
        .stdin(Stdio::piped())
        .spawn()
        .map_err(|error| error.to_string())?;
    if let Some(mut stdin) = child.stdin.take() {
        // A hook needn't read it.
        let _ = writeln!(stdin, "{as_json}");
    }
    wait(&mut child)
}

fn wait(child: &mut Child) -> Result<(), String> {
    let deadline = Instant::now() + HOOK_ENDS_WITHIN;
    loop {
        match child.try_wait().map_err(|error| error.to_string())? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => return Err(status.to_string()),
            None if Instant::now() > deadline => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("it ran for more than {HOOK_ENDS_WITHIN:?}"));
            }
            None => thread::sleep(LOOK_AT_HOOK_EVERY),
        }
    }
}
