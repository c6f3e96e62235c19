//! Benchmarks several layouts on the same disks: each is created, measured and taken down; then
//! each disk is measured alone.

use super::guardian::{Guarded, take_down};
use super::progress::BenchProgress;
use super::{Bench, kernel, stop_flag};
use crate::cli::Global;
use crate::cli::confirm::confirm;
use crate::cli::failure::{self, Failure};
use crate::cli::pool::random_uuid::random_uuid;
use crate::cli::pool::seen::Seen;
use braid_diskbench::measure::{self, Findings, Method, TestFolder, Watcher};
use braid_diskbench::report::{DiskReport, LayoutReport, Report};
use braid_diskbench::temporary_pool::{self, TemporaryPool};
use braid_diskbench::{BenchError, workload::Workload};
use braid_disks::HostRoot;
use braid_pool::disk::{Content, Disk, ErasePermission};
use braid_pool::layout::{Layout, MdFilesystem};
use braid_pool::mount_options::MountOptions;
use braid_pool::planner::{NewPool, PoolNameError};
use braid_pool::step::Plan;
use braid_runner::disk_lock::DiskLocks;
use braid_units::ByteSize;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Where each layout is mounted.
const MOUNT_AT: &str = "/run/braid-bench";

/// `None` after a dry run.
pub fn measure(
    bench: &Bench,
    layouts: &[Layout],
    global: &Global,
) -> Result<Option<Report>, Failure> {
    if !bench.consent.dry_run() {
        // Leftovers of a bench that was killed together with its guardian.
        take_down(&bench.consent.place)?;
    }
    let mut seen = Seen::now(&bench.consent.place.config());
    let disks = seen.disks(&bench.names)?;
    let permission = seen.permission(&bench.erase, &disks)?;
    let mut plans = Vec::new();
    for layout in layouts {
        let new = new_pool(*layout, disks.clone(), permission.clone())?;
        plans.push(temporary_pool::plan(&new, &seen.host)?);
    }
    let method = bench.method();
    if bench.consent.dry_run() {
        let value = json!({ "plans": plans, "method": bench.describe_method(), "done": false });
        global.print(&value, || described(bench, &plans, &method))?;
        return Ok(None);
    }
    failure::tell(&described(bench, &plans, &method));
    bench.consent.confirmed(confirm)?;
    let _guarded = Guarded::start(bench, MOUNT_AT.as_ref(), true)?;
    let mut work = Work {
        bench,
        stop: stop_flag()?,
        progress: BenchProgress::new(
            layouts.len() * method.announcements() + disks.len() * alone_runs(bench, &method),
        ),
        method,
    };
    let mut reports = Vec::new();
    for (number, layout) in layouts.iter().enumerate() {
        let erase = (number == 0).then(|| permission.clone());
        reports.push(work.layout(*layout, erase)?);
    }
    let mut alone = Vec::new();
    let measured = reports.iter().any(|report| !report.findings.measurements.is_empty());
    for disk in &disks {
        alone.push(if measured { work.alone(disk)? } else { DiskReport::of(disk) });
    }
    work.progress.end();
    if !measured {
        let why: Vec<&str> = reports
            .iter()
            .flat_map(|report| &report.findings.skipped)
            .map(String::as_str)
            .collect();
        return Err(Failure::failed(format!("nothing could be measured\n{}", why.join("\n"))));
    }
    let (runs, seconds) = (work.method.runs, work.method.time.as_secs_f64());
    Ok(Some(Report::new(kernel(), runs, seconds, alone, reports)))
}

struct Work<'a> {
    bench: &'a Bench,
    stop: Arc<AtomicBool>,
    progress: BenchProgress,
    method: Method,
}

impl Work<'_> {
    /// Without permission to erase more, the disks must be as the last layout left them.
    fn layout(
        &mut self,
        layout: Layout,
        erase: Option<ErasePermission>,
    ) -> Result<LayoutReport, Failure> {
        self.progress.part(&format!("{layout}:"));
        let at = &self.bench.consent.place;
        let mut seen = Seen::now(&at.config());
        let disks = seen.disks(&self.bench.names)?;
        let erase = erase.unwrap_or_else(|| remains(&disks));
        let nodes: Vec<String> = disks.iter().map(|disk| disk.path.clone()).collect();
        let new = new_pool(layout, disks, erase)?;
        let plan = temporary_pool::plan(&new, &seen.host)?;
        let progress = &mut self.progress;
        let mut tell = |happening: braid_runner::Happening| progress.step(&happening);
        let made =
            TemporaryPool::make(&at.state(), &at.config(), &new, &plan, &self.stop, &mut tell);
        let pool = match made {
            Ok(pool) => pool,
            Err(BenchError::NotMade(why))
                if !self.stop.load(std::sync::atomic::Ordering::Relaxed) =>
            {
                let skipped = vec![format!("{layout}: not measured: {why}")];
                let findings = Findings { measurements: Vec::new(), skipped };
                return Ok(LayoutReport {
                    layout: Some(layout),
                    pool: None,
                    disks: nodes,
                    findings,
                });
            }
            Err(error) => return Err(error.into()),
        };
        let place = TestFolder { folder: pool.folder().clone(), disks: nodes.clone() };
        let mut next = |what: &str| self.progress.next(&format!("{layout}: {what}"));
        let mut watcher = Watcher { tell: &mut next, stop: &self.stop };
        let found = measure::place(&place, &self.method, &mut watcher);
        let progress = &mut self.progress;
        pool.take_down(&mut |happening| progress.step(&happening))?;
        Ok(LayoutReport { layout: Some(layout), pool: None, disks: nodes, findings: found? })
    }

    /// The disk must be empty now, as the last layout left it.
    fn alone(&mut self, disk: &Disk) -> Result<DiskReport, Failure> {
        let mut report = DiskReport::of(disk);
        if alone_runs(self.bench, &self.method) == 0 {
            return Ok(report);
        }
        self.progress.part(&format!("{} alone:", disk.path));
        let held = DiskLocks::take([disk.path.as_str()]);
        let _held = held.map_err(|error| Failure::failed(error.to_string()))?;
        let now = braid_disks::disk_now(&HostRoot::real(), &disk.path);
        if !now.is_some_and(|now| now.id() == disk.id() && now.is_unmarked()) {
            let message = format!("{} is no longer empty: left alone", disk.path);
            return Err(Failure::failed(message));
        }
        let mut next = |what: &str| self.progress.next(&format!("{}: {what}", disk.path));
        let mut watcher = Watcher { tell: &mut next, stop: &self.stop };
        let size = ByteSize::from_bytes(disk.size_bytes);
        report.alone = Some(measure::disk_alone(&disk.path, size, &self.method, &mut watcher)?);
        Ok(report)
    }
}

/// Permission to erase what a taken-down layout leaves, which nothing recognises; anything else was
/// written by somebody else.
fn remains(disks: &[Disk]) -> ErasePermission {
    let only_unknown = |disk: &&Disk| disk.contents.iter().all(Content::is_unknown);
    ErasePermission::for_disks(disks.iter().filter(only_unknown).map(Disk::id))
}

/// Number of runs on each disk alone, which are compared only with file workloads.
fn alone_runs(bench: &Bench, method: &Method) -> usize {
    let files = method.profiles.iter().any(|profile| !Workload::of(*profile).is_empty());
    if files && !bench.skip_alone { measure::ALONE.len() * method.runs as usize } else { 0 }
}

fn new_pool(layout: Layout, disks: Vec<Disk>, erase: ErasePermission) -> Result<NewPool, Failure> {
    let name = temporary_pool::NAME.parse();
    Ok(NewPool {
        name: name.map_err(|error: PoolNameError| Failure::failed(error.to_string()))?,
        layout,
        filesystem: MdFilesystem::Ext4,
        disks,
        erase,
        mount_at: MOUNT_AT.to_owned(),
        options: MountOptions::default(),
        array: random_uuid()?,
        filesystem_uuid: random_uuid()?,
        accept_unstable: true,
    })
}

fn described(bench: &Bench, plans: &[Plan], method: &Method) -> String {
    let mut lines: Vec<String> = Vec::new();
    if let Some(first) = plans.first() {
        lines.extend(first.claims.iter().map(|claim| format!("  disk {claim}")));
    }
    for plan in plans {
        lines.push(plan.title.clone());
        lines.extend(plan.steps.iter().map(|step| format!("       {}", step.action)));
    }
    if alone_runs(bench, method) > 0 {
        lines.push("measure each disk alone, by writing to it".to_owned());
    }
    lines.push(bench.describe_method());
    lines.join("\n")
}
