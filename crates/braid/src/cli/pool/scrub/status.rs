use super::PoolNames;
use crate::cli::failure::Failure;
use crate::cli::status_table::columns;
use crate::cli::{Global, JsonFlag};
use braid_disks::{HostRoot, btrfs};
use braid_pool::observed::{ObservedPool, Scrub};
use braid_pool::uuid::Uuid;
use braid_units::format_duration;
use clap::Args;
use serde::Serialize;

#[derive(Args)]
#[command(
    after_help = "Examples:\n  braid pool scrub status\n  braid pool scrub status photos --json"
)]
pub struct Status {
    #[command(flatten)]
    _json: JsonFlag,
    #[command(flatten)]
    pools: PoolNames,
}

/// What `--json` prints, for each pool.
#[derive(Serialize)]
struct Report {
    pool: String,
    uuid: Uuid,
    running: bool,
    /// The finished share, 0 to 1.
    done: Option<f64>,
    /// How long ago the last one ended, in seconds.
    ended_s_ago: Option<u64>,
    /// Whether only root may know when that was.
    may_not_be_read: bool,
    corrected: u64,
    uncorrectable: u64,
}

impl Status {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let host = HostRoot::real();
        let pools = self.pools.or_all()?;
        let reports: Vec<Report> = pools.iter().map(|pool| report(&host, pool)).collect();
        global.print(&reports, || table(&reports))
    }
}

fn report(host: &HostRoot, pool: &ObservedPool) -> Report {
    let (scrub, done): (&Scrub, Option<f64>) = match pool {
        ObservedPool::Btrfs(pool) => {
            (&pool.scrub, btrfs::scrub_share(pool, &btrfs::running_scrub(host, pool.uuid)))
        }
        ObservedPool::Md(md) => (&md.scrub, md.sync.map(|sync| sync.done)),
    };
    Report {
        pool: pool.name(),
        uuid: pool.uuid(),
        running: scrub.running,
        done: done.filter(|_| scrub.running),
        ended_s_ago: scrub.ended_ago.map(|ago| ago.as_secs()),
        may_not_be_read: scrub.may_not_be_read,
        corrected: scrub.corrected,
        uncorrectable: scrub.uncorrectable,
    }
}

const HEAD: [&str; 5] = ["POOL", "SCRUB", "LAST ENDED", "CORRECTABLE", "UNCORRECTABLE"];

fn table(reports: &[Report]) -> String {
    if reports.is_empty() {
        return "no pools".to_owned();
    }
    let mut rows = vec![HEAD.map(str::to_owned).to_vec()];
    rows.extend(reports.iter().map(|report| {
        vec![
            report.pool.clone(),
            match (report.running, report.done) {
                (false, _) => "-".to_owned(),
                (true, None) => "running".to_owned(),
                (true, Some(done)) => format!("{:.1} %", done * 100.0),
            },
            match report.ended_s_ago {
                Some(ago) => {
                    format!("{} ago", format_duration(std::time::Duration::from_secs(ago)))
                }
                None if report.may_not_be_read => "known only to root".to_owned(),
                None => "never, as far as known".to_owned(),
            },
            report.corrected.to_string(),
            report.uncorrectable.to_string(),
        ]
    }));
    columns(&rows).join("\n")
}
