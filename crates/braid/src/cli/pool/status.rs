use super::carry_out::StateFolders;
use super::health::PoolHealth;
use super::locked;
use super::named::choose;
use crate::cli::failure::Failure;
use crate::cli::status_table::columns;
use crate::cli::{Global, JsonFlag};
use braid_disks::{AskSmart, HostRoot, Inventory, pools};
use braid_pool::observed::ObservedPool;
use braid_pool::summary::{State, Summary};
use braid_units::ByteSize;
use clap::Args;
use serde::Serialize;
use std::process::ExitCode;

#[derive(Args)]
#[command(
    after_help = "Examples:\n  braid pool status\n  braid pool status photos --json | jq '.pools[].members'\n\nExit codes: 0 all pools are whole, 10 one is rebuilding, stopped or locked, 11 one is degraded or not mounted though fstab says so, 12 one has failed"
)]
pub struct Status {
    #[command(flatten)]
    _json: JsonFlag,
    /// Only these pools, by name, UUID or mount point
    pools: Vec<String>,
    #[command(flatten)]
    place: StateFolders,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Report<'a> {
    pools: Vec<Entry<'a>>,
}

#[derive(Serialize)]
struct Entry<'a> {
    summary: Summary,
    /// `None` for a locked pool.
    #[serde(flatten)]
    observed: Option<&'a ObservedPool>,
}

impl Status {
    pub fn run(&self, global: &Global) -> Result<ExitCode, Failure> {
        let host = HostRoot::real();
        let inventory = Inventory::take(&host, AskSmart::No);
        let around = braid_runner::host::observe_host_of(&self.place.config(), &inventory);
        let locked = locked::locked(&around);
        let names: Vec<&str> = locked.keys().copied().collect();
        let pools = choose(pools::observe(&host, &inventory), &self.pools, &names)?;
        let entry = |observed| {
            let summary = Summary::on_host(observed, &around.fstab);
            Entry { summary, observed: Some(observed) }
        };
        let is_wanted =
            |name: &str| self.pools.is_empty() || self.pools.iter().any(|wanted| wanted == name);
        let locked = locked.iter().filter(|(name, _)| is_wanted(name));
        let locked = locked.map(|(name, volumes)| Entry {
            summary: Summary::locked(name, volumes),
            observed: None,
        });
        let report = Report { pools: pools.iter().map(entry).chain(locked).collect() };
        global.print(&report, || table(report.pools.iter().map(|entry| &entry.summary)))?;
        let worst = report.pools.iter().map(|entry| health(entry.summary.state)).max();
        Ok(worst.unwrap_or(PoolHealth::Well).into())
    }
}

/// How bad a state is.
pub fn health(state: State) -> PoolHealth {
    match state {
        State::Whole => PoolHealth::Well,
        State::Stopped | State::Rebuilding | State::Locked => PoolHealth::Attention,
        State::Unmounted | State::Degraded => PoolHealth::Danger,
        State::Failed => PoolHealth::Lost,
    }
}

const HEAD: [&str; 8] = ["POOL", "LAYOUT", "STATE", "DISKS", "SIZE", "USED", "MOUNTED AT", "RUNS"];

fn table<'a>(summaries: impl Iterator<Item = &'a Summary>) -> String {
    let mut rows = vec![HEAD.map(str::to_owned).to_vec()];
    rows.extend(summaries.map(row));
    match rows.len() {
        1 => "no pools".to_owned(),
        _ => columns(&rows).join("\n"),
    }
}

fn row(summary: &Summary) -> Vec<String> {
    let none = || "-".to_owned();
    let size = |bytes: Option<u64>| {
        bytes.map_or_else(none, |bytes| ByteSize::from_bytes(bytes).to_string())
    };
    vec![
        summary.name.clone(),
        summary.layout.clone(),
        summary.state.to_string(),
        match summary.lacking {
            0 => summary.disks.to_string(),
            lacking => format!("{} of {}", summary.disks.saturating_sub(lacking), summary.disks),
        },
        size(summary.size_bytes),
        size(summary.used_bytes),
        summary.mounted_at.clone().unwrap_or_else(none),
        summary.activity.as_ref().map_or_else(none, ToString::to_string),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use braid_pool::summary::Activity;
    use braid_pool::uuid::Uuid;

    #[test]
    fn a_pool_is_one_line() {
        let summary = Summary {
            name: "photos".into(),
            uuid: Uuid::from_bytes([1; 16]),
            layout: "md-raid10-f2".into(),
            state: State::Rebuilding,
            disks: 4,
            lacking: 1,
            size_bytes: Some(8_000_000_000_000),
            used_bytes: None,
            mounted_at: Some("/srv".into()),
            activity: Some(Activity { name: "recovery".into(), done: Some(0.5) }),
        };
        let expected = "\
POOL    LAYOUT        STATE       DISKS   SIZE  USED  MOUNTED AT  RUNS
photos  md-raid10-f2  rebuilding  3 of 4  8TB   -     /srv        recovery 50 %";
        assert_eq!(table([&summary].into_iter()), expected);
        assert_eq!(table(std::iter::empty()), "no pools");
    }
}
