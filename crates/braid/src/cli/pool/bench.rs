mod guardian;
mod on_disks;
mod on_pool;
mod progress;

pub use guardian::BenchGuardian;

use super::carry_out::Consent;
use crate::cli::Global;
use crate::cli::failure::{self, Failure, FailureKind};
use crate::cli::offered::Offered;
use crate::cli::status_table::columns;
use braid_diskbench::BenchError;
use braid_diskbench::measure::Method;
use braid_diskbench::profile::Profile;
use braid_diskbench::report::{self, Report};
use braid_pool::layout::Layout;
use braid_units::ByteSize;
use clap::Args;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Transactions in a database run: some seconds on a disk that needs 10 ms for an fsync.
const TRANSACTIONS: u32 = 500;

#[derive(Args)]
#[command(
    after_help = "Examples:\n  braid pool bench photos\n  braid pool bench --layouts btrfs-raid1,md-raid10-f2 /dev/sdb /dev/sdc --speeds speeds.json\n  braid pool plan --speeds speeds.json /dev/sdb /dev/sdc\n\nWith --layouts the disks are made a pool of each layout in turn, measured, and emptied again; then each disk is measured alone. They must be empty or named with --erase."
)]
pub struct Bench {
    #[command(flatten)]
    consent: Consent,
    /// Layouts to measure on the same disks, one after the other
    #[arg(long, value_delimiter = ',', value_name = "LAYOUTS", value_parser = Offered::<Layout>::new(Layout::ALL), hide_possible_values = true)]
    layouts: Vec<Layout>,
    /// What to measure: sequential, random, database (by default the first two)
    #[arg(long, value_delimiter = ',', value_name = "PROFILES", default_values_t = [Profile::Sequential, Profile::Random])]
    profile: Vec<Profile>,
    /// Number of runs of each; the median and the spread are shown
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// Duration of one run
    #[arg(long, default_value = "10", value_parser = seconds)]
    seconds: Duration,
    /// Size of each reader's and writer's file [default: what fits, up to 4 GiB]
    #[arg(long, value_name = "SIZE")]
    size: Option<ByteSize>,
    /// With --layouts: don't measure each disk alone; the model then assumes typical disks
    #[arg(long)]
    skip_alone: bool,
    /// Write an HTML report with plots to this file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write the speeds to this file, for `braid pool plan --speeds`
    #[arg(long, value_name = "FILE")]
    speeds: Option<PathBuf>,
    /// Destroy all data on the disk with this serial number (repeat for each disk)
    #[arg(long, value_name = "SERIAL", requires = "layouts")]
    erase: Vec<String>,
    /// A pool; with --layouts disks or partitions: path, link or serial number
    #[arg(required = true, value_name = "POOL|DISK")]
    names: Vec<String>,
}

impl Bench {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let done = match (self.layouts.as_slice(), self.names.as_slice()) {
            ([], [pool]) => on_pool::measure(self, pool, global)?,
            ([], _) => {
                let message = "name one pool, or give --layouts and the disks to try them on";
                return Err(Failure::new(FailureKind::Usage, message));
            }
            (layouts, _) => on_disks::measure(self, layouts, global)?,
        };
        let Some(report) = done else { return Ok(()) };
        if let Some(file) = &self.html {
            write(file, &report::html(&report))?;
        }
        if let Some(file) = &self.speeds {
            let text = serde_json::to_string_pretty(&report.speeds)
                .map_err(|error| Failure::failed(error.to_string()))?;
            write(file, &text)?;
        }
        global.print(&report, || render(&report))
    }

    fn method(&self) -> Method {
        Method {
            profiles: Profile::ALL.into_iter().filter(|all| self.profile.contains(all)).collect(),
            runs: self.runs,
            time: self.seconds,
            size: self.size,
            transactions: TRANSACTIONS,
        }
    }

    fn describe_method(&self) -> String {
        let words: Vec<String> = self.method().profiles.iter().map(Profile::to_string).collect();
        format!("{}: {} runs of {} s each", words.join(", "), self.runs, self.seconds.as_secs_f64())
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.1..=86400.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("seconds are a number from 0.1 to 86400".to_owned()),
    }
}

/// A flag that is set when the user presses Ctrl-C.
fn stop_flag() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))
            .map_err(|error| Failure::io("listening for signals", &error))?;
    }
    Ok(stop)
}

fn kernel() -> String {
    braid_disks::HostRoot::real().word("proc/sys/kernel/osrelease").unwrap_or_default()
}

fn write(file: &std::path::Path, text: &str) -> Result<(), Failure> {
    let written = std::fs::write(file, text);
    written.map_err(|error| Failure::io(&format!("writing {}", file.display()), &error))?;
    failure::tell(&format!("wrote {}", file.display()));
    Ok(())
}

fn render(report: &Report) -> String {
    let mut lines = columns(&report::rows(report));
    if report.runs < 3 {
        lines.push("Fewer than 3 runs: the spread says little.".to_owned());
    }
    for disk in report.disks.iter() {
        if let Some(alone) = disk.alone {
            lines.push(format!(
                "{} alone: read {:.0} MB/s, write {:.0} MB/s, random {:.0}/{:.0} per second",
                disk.describe(),
                alone.read / 1e6,
                alone.write / 1e6,
                alone.random_read,
                alone.random_write
            ));
        }
    }
    let skipped = report.layouts.iter().flat_map(|layout| &layout.findings.skipped);
    lines.extend(skipped.map(|line| format!("note: {line}")));
    lines.join("\n")
}

impl From<BenchError> for Failure {
    fn from(error: BenchError) -> Self {
        match error {
            BenchError::Journal(error) => error.into(),
            BenchError::Io { what, error } => Failure::io(&what, &error),
            other => Failure::failed(other.to_string()),
        }
    }
}
