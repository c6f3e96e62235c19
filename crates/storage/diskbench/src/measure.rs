//! Measures what is mounted somewhere, or one disk alone: every workload several times, with what
//! each disk moved.

use crate::database::{self, Server};
use crate::error::BenchError;
use crate::fio::{self, Extent, Target};
use crate::profile::Profile;
use crate::remains;
use crate::sectors::{self, Moved};
use crate::statistic::Statistic;
use crate::workload::{Unit, Workload};
use braid_disks::HostRoot;
use braid_disks::tool::ToolError;
use braid_pool::speed::DiskSpeed;
use braid_units::ByteSize;
use serde::{Serialize, Serializer};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Share of the free space that all files together may take.
const SHARE_OF_FREE: f64 = 0.6;
/// Smaller files say nothing.
const SMALLEST: u64 = 16 << 20;
/// Larger ones take long to write and say no more.
const LARGEST: u64 = 4 << 30;

/// How to measure.
#[derive(Clone, Debug)]
pub struct Method {
    /// What.
    pub profiles: Vec<Profile>,
    /// How often.
    pub runs: u32,
    /// How long a run of fio takes.
    pub time: Duration,
    /// Size of each program's file; if not given, what fits, up to 4 GiB.
    pub size: Option<ByteSize>,
    /// Transactions of a run of a database.
    pub transactions: u32,
}

/// Where it is measured.
#[derive(Clone, Debug)]
pub struct TestFolder {
    /// A folder of the filesystem; what is made in it is removed again.
    pub folder: PathBuf,
    /// Nodes of the disks below.
    pub disks: Vec<String>,
}

/// The result for one thing.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measurement {
    /// What was measured.
    pub subject: Subject,
    /// What the figures count.
    pub unit: Unit,
    /// All runs, in their order.
    pub runs: Vec<Run>,
    /// Their middle and spread.
    pub figure: Statistic,
    /// The model's figure, if it has one.
    pub model: Option<f64>,
}

/// What was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// With files.
    Files(Workload),
    /// With a database.
    Database(Server),
}

/// One run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Run {
    /// In the measurement's unit.
    pub figure: f64,
    /// 99 of 100 fsyncs took no longer, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99_seconds: Option<f64>,
    /// What each disk moved meanwhile.
    pub disks: Vec<Moved>,
}

/// The results at a place.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Findings {
    /// In the order of measuring.
    pub measurements: Vec<Measurement>,
    /// What wasn't measured, and why.
    pub skipped: Vec<String>,
}

/// Whom to tell what is being done, and who may stop it.
pub struct Watcher<'a> {
    /// Called before each run.
    pub tell: &'a mut dyn FnMut(&str),
    /// Set when the user wants to stop.
    pub stop: &'a AtomicBool,
}

impl Method {
    /// How often [`Watcher::tell`] is called for a place.
    pub fn announcements(&self) -> usize {
        let runs = self.runs as usize;
        let of = |profile: &Profile| match profile {
            Profile::Database => Server::ALL.len() * (1 + runs),
            files => Workload::of(*files).len() * runs,
        };
        1 + self.profiles.iter().map(of).sum::<usize>()
    }
}

impl Watcher<'_> {
    fn next(&mut self, what: &str) -> Result<(), BenchError> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(BenchError::Stopped);
        }
        (self.tell)(what);
        Ok(())
    }
}

impl Measurement {
    /// All runs' bytes by disk: read, or written for what writes.
    pub fn spread(&self) -> Vec<u64> {
        let reads = matches!(self.subject, Subject::Files(workload) if workload.reads());
        let disks = self.runs.first().map_or(0, |run| run.disks.len());
        let of = |moved: &Moved| if reads { moved.read_bytes } else { moved.written_bytes };
        let sum = |disk| self.runs.iter().filter_map(|run| run.disks.get(disk)).map(of).sum();
        (0..disks).map(sum).collect()
    }

    fn of(subject: Subject, unit: Unit, runs: Vec<Run>) -> Option<Measurement> {
        let figure = Statistic::of(runs.iter().map(|run| run.figure))?;
        Some(Measurement { subject, unit, runs, figure, model: None })
    }
}

/// Measures at a place.
///
/// # Errors
/// Those of [`files`], and what goes wrong with a database server. One that isn't installed isn't
/// an error: it is in [`Findings::skipped`].
pub fn place(
    place: &TestFolder,
    method: &Method,
    watcher: &mut Watcher<'_>,
) -> Result<Findings, BenchError> {
    let workloads: Vec<Workload> =
        method.profiles.iter().flat_map(|profile| Workload::of(*profile)).copied().collect();
    let measurements = files(place, &workloads, method, watcher)?;
    let mut findings = Findings { measurements, skipped: Vec::new() };
    if method.profiles.contains(&Profile::Database) {
        databases(place, method, watcher, &mut findings)?;
    }
    Ok(findings)
}

/// Measures these with files at a place.
///
/// # Errors
/// [`BenchError::NoRoom`] when the files don't fit, [`BenchError::Io`] when the system refuses
/// something, those of [`fio::run`], and [`BenchError::Stopped`] when the user wants that.
pub fn files(
    place: &TestFolder,
    workloads: &[Workload],
    method: &Method,
    watcher: &mut Watcher<'_>,
) -> Result<Vec<Measurement>, BenchError> {
    let programs = |workload: &Workload| workload.programs(place.disks.len());
    let Some(most) = workloads.iter().map(programs).max() else { return Ok(Vec::new()) };
    let folder = remains::folder_in(&place.folder)
        .map_err(BenchError::io(format!("making a folder in {}", place.folder.display())))?;
    let size = file_size(folder.path(), method.size, most)?;
    if let Some(read) = workloads.iter().filter(|each| each.reads()).map(programs).max() {
        watcher.next("writing the files to be read")?;
        fio::fill(folder.path(), Extent { size, programs: read })?;
    }
    let mut found = Vec::new();
    for workload in workloads {
        let extent = Extent { size, programs: programs(workload) };
        let target = Target::Folder(folder.path());
        let once = || files_once(*workload, target, extent, method.time, place);
        found.extend(repeat(*workload, method.runs, watcher, once)?);
    }
    // The databases need their space, too.
    folder.close().map_err(BenchError::io("removing the benchmark's files"))?;
    Ok(found)
}

/// What is measured for a disk alone. Flash reads unwritten blocks faster, so they are written
/// first.
pub const ALONE: [Workload; 4] =
    [Workload::WriteOne, Workload::ReadOne, Workload::RandomRead, Workload::RandomWrite];

/// Measures a disk alone. This destroys what it carries.
///
/// # Errors
/// Those of [`fio::run`], [`BenchError::Unreadable`] when nothing was measured,
/// [`BenchError::Io`] when the system refuses something, and [`BenchError::Stopped`] when the user
/// wants that.
pub fn disk_alone(
    path: &str,
    bytes: ByteSize,
    method: &Method,
    watcher: &mut Watcher<'_>,
) -> Result<DiskSpeed, BenchError> {
    let here = TestFolder { folder: PathBuf::new(), disks: vec![path.to_owned()] };
    let size = method.size.map_or(bytes.bytes(), |size| size.bytes()).clamp(SMALLEST, LARGEST);
    let extent = Extent { size: ByteSize::from_bytes(size.min(bytes.bytes())), programs: 1 };
    let mut median = |workload: Workload| -> Result<f64, BenchError> {
        let once = || files_once(workload, Target::Device(path), extent, method.time, &here);
        let measured = repeat(workload, method.runs, watcher, once)?;
        let none = || BenchError::Unreadable(format!("nothing was measured of {path}"));
        Ok(measured.ok_or_else(none)?.figure.median)
    };
    let [write, read, random_read, random_write] = ALONE.map(&mut median);
    Ok(DiskSpeed {
        write: write?,
        read: read?,
        random_read: random_read?,
        random_write: random_write?,
    })
}

fn repeat(
    workload: Workload,
    runs: u32,
    watcher: &mut Watcher<'_>,
    mut once: impl FnMut() -> Result<Run, BenchError>,
) -> Result<Option<Measurement>, BenchError> {
    let mut done = Vec::new();
    for run in 1..=runs {
        watcher.next(&format!("{workload}, run {run} of {runs}"))?;
        done.push(once()?);
    }
    Ok(Measurement::of(Subject::Files(workload), workload.unit(), done))
}

fn files_once(
    workload: Workload,
    target: Target<'_>,
    extent: Extent,
    time: Duration,
    place: &TestFolder,
) -> Result<Run, BenchError> {
    settle(target)?;
    let (answer, disks) = counted(place, || {
        let answer = fio::run(workload, target, extent, time)?;
        settle(target)?;
        Ok(answer)
    })?;
    let figure = workload.figure(&answer).ok_or_else(|| {
        BenchError::Unreadable(format!("{workload}: nothing was moved in {time:?}"))
    })?;
    let p99_seconds = answer.fsync.filter(|_| workload == Workload::Fsync);
    let p99_seconds = p99_seconds.and_then(|fsync| fsync.p99_seconds);
    Ok(Run { figure, p99_seconds, disks })
}

/// Earlier writes are on the disks first, so they aren't counted in this run.
fn settle(target: Target<'_>) -> Result<(), BenchError> {
    let at = match target {
        Target::Folder(folder) => folder,
        Target::Device(path) => Path::new(path),
    };
    sync(at)
}

fn sync(at: &Path) -> Result<(), BenchError> {
    let answer = braid_disks::tool::ask(
        "sync",
        &["--file-system", &at.to_string_lossy()],
        Duration::from_secs(600),
    )?;
    match answer.status {
        Some(0) => Ok(()),
        _ => Err(BenchError::failed("sync", &answer.err)),
    }
}

fn counted<T>(
    place: &TestFolder,
    work: impl FnOnce() -> Result<T, BenchError>,
) -> Result<(T, Vec<Moved>), BenchError> {
    let host = HostRoot::real();
    let before = sectors::count(&host, &place.disks);
    let result = work()?;
    Ok((result, sectors::between(&before, &sectors::count(&host, &place.disks))))
}

fn databases(
    place: &TestFolder,
    method: &Method,
    watcher: &mut Watcher<'_>,
    findings: &mut Findings,
) -> Result<(), BenchError> {
    for server in Server::ALL {
        watcher.next(&format!("starting {server}"))?;
        let running = match database::Running::start(server, &place.folder) {
            Ok(running) => running,
            Err(BenchError::Tool(ToolError::Missing(_))) => {
                let package = server.package();
                findings.skipped.push(format!(
                    "{server}: not measured, it is not installed (`apt-get install {package}`)"
                ));
                continue;
            }
            Err(error) => return Err(error),
        };
        let mut runs = Vec::new();
        for run in 1..=method.runs {
            watcher.next(&format!("{server}, run {run} of {}", method.runs))?;
            sync(&place.folder)?;
            let (time, disks) = counted(place, || running.transact(method.transactions))?;
            runs.push(Run { figure: time.as_secs_f64(), p99_seconds: None, disks });
        }
        running.stop()?;
        let subject = Subject::Database(server);
        findings.measurements.extend(Measurement::of(subject, Unit::Seconds, runs));
    }
    Ok(())
}

/// Of each program's file.
fn file_size(
    folder: &Path,
    wanted: Option<ByteSize>,
    programs: usize,
) -> Result<ByteSize, BenchError> {
    let free = free_bytes(folder)?;
    let fits = (free as f64 * SHARE_OF_FREE) as u64 / programs.max(1) as u64;
    let needed = wanted.map_or(SMALLEST, |size| size.bytes().max(4 << 20));
    if fits < needed {
        let folder = folder.parent().unwrap_or(folder).display().to_string();
        let needed = (needed as f64 / SHARE_OF_FREE) as u64 * programs as u64;
        return Err(BenchError::NoRoom { folder, free, needed });
    }
    // A whole number of a reader's blocks.
    let size = wanted.map_or(fits.min(LARGEST), |size| size.bytes()) >> 22 << 22;
    Ok(ByteSize::from_bytes(size.max(4 << 20)))
}

fn free_bytes(folder: &Path) -> Result<u64, BenchError> {
    let path = folder.to_string_lossy();
    let answer = braid_disks::tool::ask(
        "stat",
        &["--file-system", "--format=%a %S", &path],
        Duration::from_secs(60),
    )?;
    let mut numbers = answer.out.split_whitespace().map(str::parse::<u64>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(blocks)), Some(Ok(size))) => Ok(blocks.saturating_mul(size)),
        _ => Err(BenchError::failed("stat", &answer.err)),
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Subject::Files(workload) => workload.fmt(f),
            Subject::Database(server) => server.fmt(f),
        }
    }
}

impl Serialize for Subject {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Subject::Files(workload) => workload.serialize(serializer),
            Subject::Database(server) => server.serialize(serializer),
        }
    }
}
