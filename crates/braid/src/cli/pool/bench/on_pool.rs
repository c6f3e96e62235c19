//! Benchmarks an existing pool: files are created in it and removed again.

use super::guardian::Guarded;
use super::progress::BenchProgress;
use super::{Bench, kernel, stop_flag};
use crate::cli::Global;
use crate::cli::failure::Failure;
use crate::cli::pool::seen::Seen;
use braid_diskbench::measure::{self, TestFolder, Watcher};
use braid_diskbench::remains;
use braid_diskbench::report::{DiskReport, LayoutReport, Report};
use braid_pool::layout::Layout;
use braid_pool::observed::ObservedPool;
use serde_json::json;
use std::path::PathBuf;

/// `None` after a dry run.
pub fn measure(bench: &Bench, name: &str, global: &Global) -> Result<Option<Report>, Failure> {
    let seen = Seen::now(&bench.consent.place.config());
    let pool = seen.pool(name)?;
    let mut writable = pool.mounts().iter().filter(|mount| !mount.has("ro"));
    let folder = writable.next().ok_or_else(|| {
        Failure::failed(format!("pool {name} is not mounted, or read-only; mount it first"))
    })?;
    let disks = members(pool);
    let place = TestFolder { folder: PathBuf::from(&folder.at), disks: disks.clone() };
    if bench.consent.dry_run() {
        let plan = format!("measure pool {name} at {}: {}", folder.at, bench.describe_method());
        global.print(&json!({ "plan": plan, "done": false }), || plan.clone())?;
        return Ok(None);
    }
    // Leftovers of a bench that was killed together with its guardian.
    remains::remove(&place.folder, remains::has_ended)?;
    let _guarded = Guarded::start(bench, &place.folder, false)?;
    let stop = stop_flag()?;
    let method = bench.method();
    let mut progress = BenchProgress::new(method.announcements());
    let mut tell = |what: &str| progress.next(what);
    let found = measure::place(&place, &method, &mut Watcher { tell: &mut tell, stop: &stop });
    progress.end();
    let of = |path: &String| seen.inventory.by_path(path).map(DiskReport::of);
    let layout = LayoutReport {
        layout: layout(pool),
        pool: Some(pool.name()),
        disks: disks.clone(),
        findings: found?,
    };
    let disks = disks.iter().filter_map(of).collect();
    let seconds = method.time.as_secs_f64();
    Ok(Some(Report::new(kernel(), method.runs, seconds, disks, vec![layout])))
}

fn members(pool: &ObservedPool) -> Vec<String> {
    match pool {
        ObservedPool::Btrfs(pool) => {
            pool.present().filter_map(|member| member.path.clone()).collect()
        }
        ObservedPool::Md(pool) => pool.in_sync().filter_map(|member| member.path.clone()).collect(),
    }
}

fn layout(pool: &ObservedPool) -> Option<Layout> {
    match pool {
        ObservedPool::Btrfs(pool) => pool.meant_profiles().map(|(data, _)| Layout::Btrfs(data)),
        ObservedPool::Md(pool) => pool.layout.map(Layout::Md),
    }
}
