//! Looks at the pools frequently while somebody watches, and rarely while nobody does.

use crate::cli::pool::carry_out::StateFolders;
use crate::cli::pool::examined::Examined;
use crate::cli::pool::{pools_look, watch_memory};
use braid_disks::AskSmart;
use braid_page::{PoolLine, PoolsLook};
use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The latest look. Looking may take as long as a failing disk does; nobody waits for that.
#[derive(Clone)]
pub struct Looker(Arc<Shared>);

#[derive(Default)]
struct Shared {
    seen: Mutex<Seen>,
    changed: Condvar,
}

#[derive(Default)]
struct Seen {
    look: Option<PoolsLook>,
    asked: Option<Instant>,
}

/// Interval while somebody watches.
const EVERY: Duration = Duration::from_secs(5);
/// Interval while nobody does.
const SELDOM: Duration = Duration::from_secs(600);
/// Disks aren't asked for their health more often: that keeps some awake.
const SMART_EVERY: Duration = Duration::from_secs(600);
/// Whoever asked within this time is watching.
const WATCHES: Duration = Duration::from_secs(15);
/// How long the first request waits for the first look.
const FIRST_WITHIN: Duration = Duration::from_secs(5);

impl Looker {
    /// Starts looking, on a thread of its own.
    pub fn start(place: StateFolders, memory: PathBuf, smart: bool) -> io::Result<Looker> {
        let looker = Looker(Arc::default());
        let shared = looker.0.clone();
        std::thread::Builder::new()
            .name("braid-pools".into())
            .spawn(move || shared.keep_looking(&place, &memory, smart))?;
        Ok(looker)
    }

    /// The latest look.
    pub fn look(&self) -> Option<PoolsLook> {
        let mut seen = self.0.lock();
        seen.asked = Some(Instant::now());
        self.0.changed.notify_all();
        let wait =
            self.0.changed.wait_timeout_while(seen, FIRST_WITHIN, |seen| seen.look.is_none());
        wait.unwrap_or_else(PoisonError::into_inner).0.look.clone()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep_looking(&self, place: &StateFolders, memory: &std::path::Path, smart: bool) {
        let mut jobs = Jobs::default();
        let mut asked_disks: Option<Instant> = None;
        let mut last: Option<PoolsLook> = None;
        loop {
            let due = smart && asked_disks.is_none_or(|at| at.elapsed() >= SMART_EVERY);
            let ask = if due { AskSmart::Yes } else { AskSmart::No };
            let before = watch_memory::read(memory).map(|memory| memory.errors).unwrap_or_default();
            match Examined::now(&[], ask, &before, place) {
                Ok(examined) => {
                    let mut look = pools_look::look(&examined);
                    match &last {
                        Some(last) if !due => keep_what_disks_said(&mut look, last),
                        _ => asked_disks = Some(Instant::now()),
                    }
                    jobs.tell_time_left(&mut look.pools, Instant::now());
                    last = Some(look.clone());
                    self.lock().look = Some(look);
                    self.changed.notify_all();
                }
                Err(failure) => tracing::warn!("can't check the pools: {failure}"),
            }
            self.wait_until_due();
        }
    }

    fn wait_until_due(&self) {
        let begun = Instant::now();
        let mut seen = self.lock();
        loop {
            let watched = seen.asked.is_some_and(|asked| asked.elapsed() < WATCHES);
            let every = if watched { EVERY } else { SELDOM };
            let left = every.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return;
            }
            let woken = self.changed.wait_timeout(seen, left);
            seen = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Keeps the values that disks weren't asked for this time, and findings about them.
fn keep_what_disks_said(look: &mut PoolsLook, last: &PoolsLook) {
    for disk in &mut look.disks {
        let same =
            |other: &&braid_page::DiskLine| other.path == disk.path && other.serial == disk.serial;
        if let Some(before) = last.disks.iter().find(same) {
            disk.health.clone_from(&before.health);
            disk.temperature_c = before.temperature_c;
        }
    }
}

/// The progress of each pool's job when it was first seen.
#[derive(Default)]
struct Jobs(HashMap<(String, String), (Instant, f64)>);

impl Jobs {
    /// Extrapolates from a job's progress since it was first seen.
    fn tell_time_left(&mut self, pools: &mut [PoolLine], now: Instant) {
        let running =
            |pool: &PoolLine| Some(((pool.name.clone(), pool.activity.clone()?), pool.done?));
        let all: HashMap<_, _> = pools.iter().filter_map(running).collect();
        self.0.retain(|job, (_, first)| all.get(job).is_some_and(|done| done >= first));
        for pool in pools {
            let Some((job, done)) = running(pool) else { continue };
            let (since, first) = *self.0.entry(job).or_insert((now, done));
            let (passed, came) = (now.duration_since(since).as_secs_f64(), done - first);
            // Earlier it would be a guess.
            if passed >= 5.0 && came > 0.0 {
                pool.left_s = Some((passed * (1.0 - done).max(0.0) / came) as u64);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_is_told_by_how_fast_a_job_went_so_far() {
        let pool = |done| PoolLine {
            name: "data".into(),
            activity: Some("resync".into()),
            done,
            ..PoolLine::default()
        };
        let (mut jobs, begun) = (Jobs::default(), Instant::now());
        let mut after = |seconds, done| {
            let mut pools = [pool(done)];
            jobs.tell_time_left(&mut pools, begun + Duration::from_secs(seconds));
            pools[0].left_s
        };
        assert_eq!(after(0, Some(0.5)), None);
        assert_eq!(after(10, Some(0.5)), None);
        assert_eq!(after(20, Some(0.6)), Some(80));
        // Another job, with the same name.
        assert_eq!(after(30, Some(0.1)), None);
        assert_eq!(after(40, Some(0.2)), Some(80));
        assert_eq!(after(50, None), None);
    }
}
