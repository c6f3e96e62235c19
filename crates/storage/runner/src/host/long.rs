//! Running programs and waiting for the kernel, with progress reports.

use super::Host;
use super::command::{self, CommandError, Tick, WhenKilled};
use super::probe;
use crate::progress::{Eta, Progress};
use crate::system::{Answer, LeftBehind, System, SystemError};
use braid_disks::HostRoot;
use braid_disks::{btrfs, btrfs_ioctl as ioctl};
use braid_pool::observed::{ExclusiveOperation, ObservedMd};
use braid_pool::step::{Argv, Condition, Progress as Source};
use braid_pool::uuid::Uuid;
use std::time::{Duration, Instant};

/// How often progress is checked.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How long to wait for a condition while nothing runs that could bring it about.
const IDLE_LIMIT: Duration = Duration::from_secs(10);
/// How often a balance is run that found no room for some chunk.
const BALANCES: u32 = 3;

impl Host {
    /// Runs a program to its end. Long work is the kernel's and continues if we are killed;
    /// everything else is killed too.
    pub(super) fn run(
        &self,
        argv: &Argv,
        tell: &mut dyn FnMut(&Progress),
    ) -> Result<(), SystemError> {
        let when_killed = match argv.progress {
            Some(Source::BtrfsFill { .. }) | None => WhenKilled::Dies,
            Some(_) => WhenKilled::GoesOn,
        };
        let mut tries = 1;
        loop {
            let mut refused = None;
            let mut watch = argv.progress.as_ref().map(Watch::new);
            let result = command::run(argv, &self.outputs, when_killed, &mut || {
                if self.stopped() {
                    return Tick::Stop;
                }
                if let Some(watch) = &mut watch
                    && watch.is_time()
                {
                    watch.look(tell);
                    if refused.is_none() {
                        refused = self.stop_vain_replace(&watch.source);
                    }
                }
                Tick::GoOn
            });
            if let Some(error) = refused {
                return Err(error);
            }
            match result {
                Ok(()) => return Ok(()),
                Err(CommandError::Stopped) => return Err(SystemError::Stopped),
                Err(error) if tries < BALANCES && may_find_room_now(argv, &error) => tries += 1,
                Err(error) => return Err(SystemError::Failed(error.to_string())),
            }
        }
    }

    /// A replace whose target refuses writes would continue, report success, and release the old
    /// disk: it is cancelled.
    fn stop_vain_replace(&self, source: &Source) -> Option<SystemError> {
        let Source::BtrfsReplace { uuid } = source else { return None };
        let refused = btrfs::replace_target_errors(&HostRoot::real(), *uuid).refused();
        if refused == 0 || !self.cancel_running(source).ok()? {
            return None;
        }
        Some(SystemError::Failed(format!(
            "the new disk refused {refused} writes, so the replace was cancelled; the old disk is still the member"
        )))
    }

    /// Waits for a condition, as long as something runs that may bring it about.
    pub(super) fn wait_for(
        &mut self,
        until: &Condition,
        source: &Source,
        tell: &mut dyn FnMut(&Progress),
    ) -> Result<(), SystemError> {
        let mut watch = Watch::new(source);
        let mut idle_since = Instant::now();
        loop {
            let instead = match self.check(until, &LeftBehind::Nothing)? {
                Answer::Holds => return Ok(()),
                Answer::Fails(instead) => instead,
            };
            if watch.look(tell) || !work_of(source).is_none() {
                idle_since = Instant::now();
            }
            if idle_since.elapsed() > IDLE_LIMIT {
                let message = format!("waited in vain until {until}: {instead}; nothing runs");
                return Err(SystemError::Failed(message));
            }
            self.pause()?;
            self.seen = None;
        }
    }

    /// Waits for the end of an operation that is already running, if there is one; a paused balance
    /// is resumed.
    pub(super) fn follow_running(
        &mut self,
        source: &Source,
        tell: &mut dyn FnMut(&Progress),
    ) -> Result<bool, SystemError> {
        match work_of(source) {
            Work::None => return Ok(false),
            Work::Paused { mount } => {
                let resume = Argv::new("btrfs", ["balance".to_owned(), "resume".to_owned(), mount])
                    .with_progress(source.clone());
                return self.run(&resume, tell).map(|()| true);
            }
            Work::Runs { .. } => {}
        }
        let mut watch = Watch::new(source);
        while !work_of(source).is_none() {
            watch.look(tell);
            self.pause()?;
        }
        Ok(true)
    }

    /// Stops an operation that is already running, if there is one and it can be stopped.
    pub(super) fn cancel_running(&self, source: &Source) -> Result<bool, SystemError> {
        let words: &[&str] = match source {
            Source::BtrfsBalance { .. } => &["balance", "cancel"],
            Source::BtrfsReplace { .. } => &["replace", "cancel"],
            Source::BtrfsRemove { .. } => &["device", "remove", "cancel"],
            Source::MdSync { .. } | Source::BtrfsFill { .. } | Source::Unknown => return Ok(false),
        };
        let mount = match work_of(source) {
            Work::None => return Ok(false),
            Work::Runs { mount } | Work::Paused { mount } => mount,
        };
        let cancel = Argv::new("btrfs", words.iter().map(|word| (*word).to_owned()).chain([mount]));
        self.run(&cancel, &mut |_| {})?;
        while !work_of(source).is_none() {
            self.pause()?;
        }
        Ok(true)
    }

    fn pause(&self) -> Result<(), SystemError> {
        if self.stopped() {
            return Err(SystemError::Stopped);
        }
        std::thread::sleep(LOOK_EVERY);
        Ok(())
    }
}

/// In a full btrfs the first chunks of a balance may find no room, until the others have moved
/// (seen on Linux 6.18, with two empty disks just added).
fn may_find_room_now(argv: &Argv, error: &CommandError) -> bool {
    let balance = matches!(argv.progress, Some(Source::BtrfsBalance { .. }));
    let full =
        |tail: &str| tail.contains("error during balancing") && tail.contains("No space left");
    balance && matches!(error, CommandError::Failed { tail, .. } if full(tail))
}

/// What the kernel is doing.
#[derive(Debug, PartialEq, Eq)]
enum Work {
    None,
    Runs { mount: String },
    Paused { mount: String },
}

impl Work {
    fn is_none(&self) -> bool {
        *self == Work::None
    }
}

fn work_of(source: &Source) -> Work {
    let (uuid, wanted) = match source {
        Source::BtrfsBalance { uuid } => (uuid, ExclusiveOperation::Balance),
        Source::BtrfsReplace { uuid } => (uuid, ExclusiveOperation::DeviceReplace),
        Source::BtrfsRemove { uuid, .. } => (uuid, ExclusiveOperation::DeviceRemove),
        Source::MdSync { uuid } => {
            let syncs = array(*uuid).is_some_and(|md| md.sync.is_some());
            return if syncs { Work::Runs { mount: String::new() } } else { Work::None };
        }
        Source::BtrfsFill { .. } | Source::Unknown => return Work::None,
    };
    let seen = probe::observe();
    let Some(btrfs) = seen.btrfs(*uuid) else { return Work::None };
    let mount = btrfs.mounts.first().map_or(String::new(), |mount| mount.at.clone());
    let is = &btrfs.exclusive_operation;
    let paused = wanted == ExclusiveOperation::Balance && *is == ExclusiveOperation::BalancePaused;
    if paused {
        Work::Paused { mount }
    } else if *is == wanted {
        Work::Runs { mount }
    } else {
        Work::None
    }
}

/// Checks the progress of something now and then, and reports it.
struct Watch {
    source: Source,
    begun: Instant,
    looked: Option<Instant>,
    eta: Eta,
    share: Option<f64>,
    /// Bytes on a device that is being removed, when it was first looked at.
    bytes_at_first: Option<u64>,
}

impl Watch {
    fn new(source: &Source) -> Watch {
        Watch {
            source: source.clone(),
            begun: Instant::now(),
            looked: None,
            eta: Eta::default(),
            share: None,
            bytes_at_first: None,
        }
    }

    /// Reports the progress, if it is time to; returns whether it has changed.
    fn look(&mut self, tell: &mut dyn FnMut(&Progress)) -> bool {
        if !self.is_time() {
            return false;
        }
        self.looked = Some(Instant::now());
        let share = self.share_now().map(|share| share.clamp(0.0, 1.0));
        let moved = share != self.share;
        self.share = share;
        let left = share.and_then(|share| self.eta.left(self.begun.elapsed(), share));
        tell(&Progress { doing: doing(&self.source).to_owned(), share, left });
        moved
    }

    fn is_time(&self) -> bool {
        self.looked.is_none_or(|looked| looked.elapsed() >= LOOK_EVERY)
    }

    /// `None` when it can't be known: what can't be observed still runs.
    fn share_now(&mut self) -> Option<f64> {
        match &self.source {
            Source::BtrfsBalance { uuid } => {
                let open = btrfs::open(&HostRoot::real(), *uuid)?;
                let progress = ioctl::balance_progress(&open).ok()??;
                Some(progress.completed as f64 / progress.expected.max(1) as f64)
            }
            Source::BtrfsReplace { uuid } => {
                let open = btrfs::open(&HostRoot::real(), *uuid)?;
                let progress = ioctl::replace_progress(&open).ok()?;
                let runs = progress.state == ioctl::ReplaceState::Started;
                runs.then_some(progress.per_mille as f64 / 1000.0)
            }
            Source::BtrfsRemove { uuid, devid } => {
                let seen = probe::observe();
                let member = seen.btrfs(*uuid)?.members.iter().find(|m| m.devid == *devid)?;
                let now = member.allocated_bytes;
                let first = *self.bytes_at_first.get_or_insert(now.max(1));
                Some(1.0 - now as f64 / first as f64)
            }
            Source::MdSync { uuid } => array(*uuid)?.sync.map(|sync| sync.done),
            Source::BtrfsFill { uuid, bytes } => {
                let share = btrfs::used_on_devices(&HostRoot::real(), *uuid)? as f64
                    / (*bytes).max(1) as f64;
                // What follows after 100 % has no known duration.
                (share < 1.0).then_some(share)
            }
            Source::Unknown => None,
        }
    }
}

fn doing(source: &Source) -> &'static str {
    match source {
        Source::BtrfsBalance { .. } => "balance",
        Source::BtrfsReplace { .. } => "replace",
        Source::BtrfsRemove { .. } => "moving data away",
        Source::MdSync { .. } => "sync",
        Source::BtrfsFill { .. } => "copying",
        Source::Unknown => "working",
    }
}

fn array(uuid: Uuid) -> Option<ObservedMd> {
    probe::observe().array(uuid).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    #[test]
    fn only_a_balance_without_room_is_run_again() {
        let failed = |tail: &str| CommandError::Failed {
            argv: "btrfs balance start -d /mnt".into(),
            status: ExitStatus::from_raw(1 << 8),
            tail: tail.into(),
        };
        let full = "ERROR: error during balancing '/mnt': No space left on device\n";
        let plain = Argv::new("btrfs", ["balance", "start", "-d", "/mnt"].map(str::to_owned));
        let uuid = "12345678-1234-1234-1234-123456789abc".parse().unwrap();
        let balance = plain.clone().with_progress(Source::BtrfsBalance { uuid });
        assert!(may_find_room_now(&balance, &failed(full)));
        assert!(!may_find_room_now(&plain, &failed(full)));
        let broken = "ERROR: error during balancing '/mnt': Input/output error\n";
        assert!(!may_find_room_now(&balance, &failed(broken)));
        assert!(!may_find_room_now(&balance, &CommandError::Stopped));
    }
}
