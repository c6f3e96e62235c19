//! Scrubs: everything is read and compared with its checksums (btrfs) or with copies and parity
//! (md).

use braid_disks::scrub_log::ScrubLog;
use braid_disks::{HostRoot, md, tool};
use braid_disks::{btrfs, btrfs_ioctl as ioctl};
use braid_pool::layout::MdLayout;
use braid_pool::observed::{ObservedBtrfs, ObservedMd, ObservedPool, Scrub};
use std::fs;
use std::io;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Why a pool can't be scrubbed.
#[derive(Debug, thiserror::Error)]
pub enum ScrubError {
    /// A btrfs is scrubbed through its mount.
    #[error("{0} is not mounted; mount it first")]
    NotMounted(String),
    /// The array doesn't run.
    #[error("{0} is not running; assemble it first (mdadm --assemble --scan)")]
    NotRunning(String),
    /// There is nothing to compare with.
    #[error("{0} is {1}: without copies or parity there is nothing to compare")]
    NoRedundancy(String, MdLayout),
    /// Another operation runs, or a scrub already.
    #[error("{0} is busy: {1} runs already")]
    Busy(String, String),
    /// `btrfs` refused.
    #[error("btrfs scrub start: {0}")]
    Btrfs(String),
    /// A program or a kernel file.
    #[error("{0}: {1}")]
    Io(String, io::Error),
}

/// A scrub that was started here and is waited for.
#[derive(Debug)]
pub struct Running(Kind);

#[derive(Debug)]
enum Kind {
    /// `btrfs scrub start -B` keeps the record that other programs read.
    Btrfs {
        pool: Box<ObservedBtrfs>,
        program: Child,
    },
    Md {
        pool: Box<ObservedMd>,
        device: String,
    },
}

/// The state of a scrub.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Look {
    /// It runs; how much of it is done, if known.
    Runs(Option<f64>),
    /// It ended.
    Ended(Outcome),
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Outcome {
    /// Everything was read.
    pub complete: bool,
    /// Errors that were corrected; for md, sectors that differ (`mismatch_cnt`).
    pub corrected: u64,
    /// Errors that no copy could correct.
    pub uncorrectable: u64,
}

/// Starts a scrub that ends with this process.
///
/// # Errors
/// [`ScrubError::NotMounted`] (btrfs), [`ScrubError::NotRunning`] and
/// [`ScrubError::NoRedundancy`] (md), [`ScrubError::Busy`]; [`ScrubError::Btrfs`] or
/// [`ScrubError::Io`] when it can't be started.
pub fn start(host: &HostRoot, pool: &ObservedPool) -> Result<Running, ScrubError> {
    match pool {
        ObservedPool::Btrfs(btrfs) => {
            let at = mounted_at(pool)?;
            refuse_busy(pool)?;
            let program = Command::new("btrfs")
                .args(["scrub", "start", "-B", "--", &at])
                .env("PATH", braid_tool::search_path())
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .map_err(|error| match error.kind() {
                    io::ErrorKind::NotFound => {
                        ScrubError::Btrfs("btrfs is not installed".to_owned())
                    }
                    _ => ScrubError::Io("btrfs".to_owned(), error),
                })?;
            Ok(Running(Kind::Btrfs { pool: Box::new(btrfs.clone()), program }))
        }
        ObservedPool::Md(md) => {
            let device = start_check(host, md)?;
            Ok(Running(Kind::Md { pool: Box::new(md.clone()), device }))
        }
    }
}

/// Starts a scrub that continues without this process.
///
/// # Errors
/// As [`start`]; [`ScrubError::Btrfs`] also when `btrfs scrub start` fails or doesn't return
/// within a minute.
pub fn start_in_background(host: &HostRoot, pool: &ObservedPool) -> Result<(), ScrubError> {
    match pool {
        ObservedPool::Btrfs(_) => {
            let at = mounted_at(pool)?;
            refuse_busy(pool)?;
            const FORKS_WITHIN: Duration = Duration::from_secs(60);
            let answer = tool::ask("btrfs", &["scrub", "start", "--", &at], FORKS_WITHIN)
                .map_err(|error| ScrubError::Btrfs(error.to_string()))?;
            match answer.status {
                Some(0) => Ok(()),
                _ => Err(ScrubError::Btrfs(answer.err.trim().to_owned())),
            }
        }
        ObservedPool::Md(md) => start_check(host, md).map(drop),
    }
}

/// Stops the scrub of a pool; `false` when none ran.
///
/// # Errors
/// [`ScrubError::NotMounted`] (btrfs), [`ScrubError::NotRunning`] (md), [`ScrubError::Io`] when the
/// kernel refuses or the end can't be recorded.
pub fn cancel(host: &HostRoot, pool: &ObservedPool) -> Result<bool, ScrubError> {
    match pool {
        ObservedPool::Btrfs(btrfs) => {
            let name = pool.name();
            let on = btrfs::open(host, btrfs.uuid).ok_or(ScrubError::NotMounted(name.clone()))?;
            ioctl::cancel_scrub(&on).map_err(|error| ScrubError::Io(name, error))
        }
        ObservedPool::Md(md) => {
            let device = running_device(md)?;
            if !md.scrub.running {
                return Ok(false);
            }
            let mut log = known(host, md)?;
            write_action(host, &device, "idle")?;
            log.started_s = None;
            note(host, md, log)?;
            Ok(true)
        }
    }
}

impl Running {
    /// Checks its state.
    ///
    /// # Errors
    /// [`ScrubError::Io`] when `btrfs` can't be waited for or the end can't be recorded.
    pub fn look(&mut self, host: &HostRoot) -> Result<Look, ScrubError> {
        match &mut self.0 {
            Kind::Btrfs { pool, program } => {
                let ended = program.try_wait();
                match ended.map_err(|error| ScrubError::Io("btrfs scrub".to_owned(), error))? {
                    None => {
                        let running = btrfs::running_scrub(host, pool.uuid);
                        Ok(Look::Runs(btrfs::scrub_share(pool, &running)))
                    }
                    Some(_) => Ok(Look::Ended(Outcome::of(btrfs::scrub_state(host, pool.uuid)))),
                }
            }
            Kind::Md { pool, device } => {
                if let Some(sync) = md::sync_now(host, device) {
                    return Ok(Look::Runs(Some(sync.done)));
                }
                let complete = md::last_check_was_complete(host, device);
                if complete {
                    let mut log = known(host, pool)?;
                    log.end();
                    note(host, pool, log)?;
                }
                let corrected = md::mismatches(host, device);
                Ok(Look::Ended(Outcome { complete, corrected, uncorrectable: 0 }))
            }
        }
    }
}

impl Outcome {
    fn of(scrub: Scrub) -> Self {
        let Scrub { ended_ago, corrected, uncorrectable, .. } = scrub;
        Outcome { complete: ended_ago.is_some(), corrected, uncorrectable }
    }
}

fn mounted_at(pool: &ObservedPool) -> Result<String, ScrubError> {
    let mount = pool.mounts().first().ok_or_else(|| ScrubError::NotMounted(pool.name()))?;
    Ok(mount.at.clone())
}

/// Otherwise btrfs would start and then fail in the background.
fn refuse_busy(pool: &ObservedPool) -> Result<(), ScrubError> {
    let ObservedPool::Btrfs(btrfs) = pool else { return Ok(()) };
    match btrfs.scrub.running {
        true => Err(ScrubError::Busy(pool.name(), "a scrub".to_owned())),
        false => Ok(()),
    }
}

fn running_device(md: &ObservedMd) -> Result<String, ScrubError> {
    match &md.device {
        Some(device) if md.runs() => Ok(device.clone()),
        _ => Err(ScrubError::NotRunning(md.short_name().to_owned())),
    }
}

/// The kernel's Documentation/admin-guide/md.rst: `check` reads everything and counts what differs.
fn start_check(host: &HostRoot, md: &ObservedMd) -> Result<String, ScrubError> {
    let device = running_device(md)?;
    if md.layout == Some(MdLayout::Raid0) {
        return Err(ScrubError::NoRedundancy(md.short_name().to_owned(), MdLayout::Raid0));
    }
    if let Some(sync) = md.sync {
        let what = format!("{:?}", sync.action).to_lowercase();
        return Err(ScrubError::Busy(md.short_name().to_owned(), what));
    }
    let mut log = known(host, md)?;
    write_action(host, &device, "check")?;
    log.start();
    note(host, md, log)?;
    Ok(device)
}

fn write_action(host: &HostRoot, device: &str, action: &str) -> Result<(), ScrubError> {
    let file = host.path(format!("sys/block/{device}/md/sync_action"));
    fs::write(&file, action).map_err(|error| ScrubError::Io(file.display().to_string(), error))
}

/// The record of the array's scrubs, to be changed.
fn known(host: &HostRoot, md: &ObservedMd) -> Result<ScrubLog, ScrubError> {
    ScrubLog::to_be_changed(host, md.uuid)
        .map_err(|error| ScrubError::Io(md.short_name().to_owned(), error))
}

fn note(host: &HostRoot, md: &ObservedMd, log: ScrubLog) -> Result<(), ScrubError> {
    log.write(host, md.uuid)
        .map_err(|error| ScrubError::Io("/var/lib/braid/scrub".to_owned(), error))
}
