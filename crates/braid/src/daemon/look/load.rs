//! How busy the processors are.

use braid_doctor::Load;
use braid_linux::thread_time::ThreadTime;
use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

/// Processor time so far, in ticks.
pub struct Times {
    /// Of all processors: total, idle, stolen.
    all: (u64, u64, u64),
    /// Of the daemon's threads: how long each has run and waited for a processor.
    threads: BTreeMap<u32, (Duration, Duration)>,
}

impl Times {
    /// Reads them, including those of this process' threads.
    pub fn now(process: Option<u32>) -> Option<Times> {
        let stat = fs::read_to_string("/proc/stat").ok()?;
        let first = stat.lines().next()?.strip_prefix("cpu ")?;
        // proc_stat(5): user nice system idle iowait irq softirq steal; guests' are in user's.
        let ticks: Vec<u64> =
            first.split_whitespace().take(8).filter_map(|word| word.parse().ok()).collect();
        let [_, _, _, idle, iowait, _, _, stolen] = ticks.as_slice() else { return None };
        let all = (ticks.iter().sum(), idle + iowait, *stolen);
        Some(Times { all, threads: process.map(threads).unwrap_or_default() })
    }

    /// Shares of the time since `before`.
    pub fn since(&self, before: &Times, between: Duration) -> Load {
        let grown = |now: u64, then: u64| now.saturating_sub(then) as f64;
        let total = grown(self.all.0, before.all.0).max(1.0);
        let between = between.as_secs_f64().max(0.01);
        let share =
            |now: Duration, then: Duration| now.saturating_sub(then).as_secs_f64() / between;
        let shares = self.threads.iter().filter_map(|(thread, (ran, waited))| {
            let (ran_before, waited_before) = before.threads.get(thread)?;
            Some((share(*ran, *ran_before), share(*waited, *waited_before)))
        });
        let (ran, waited) =
            shares.max_by(|a, b| (a.0 + a.1).total_cmp(&(b.0 + b.1))).unwrap_or_default();
        Load {
            busiest_thread: ran.min(1.0),
            waited: waited.min(1.0),
            all: (1.0 - grown(self.all.1, before.all.1) / total).clamp(0.0, 1.0),
            stolen: grown(self.all.2, before.all.2) / total,
        }
    }
}

fn threads(process: u32) -> BTreeMap<u32, (Duration, Duration)> {
    let folder = format!("/proc/{process}/task");
    let Ok(entries) = fs::read_dir(folder) else { return BTreeMap::new() };
    let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter_map(|thread| Some((thread, times(process, thread)?))).collect()
}

/// If the kernel doesn't record how long a thread waits (`CONFIG_SCHED_INFO`), it still records how
/// long it ran.
fn times(process: u32, thread: u32) -> Option<(Duration, Duration)> {
    match ThreadTime::of(process, thread).and_then(|time| time.ran_and_waited()) {
        Ok(times) => Some(times),
        Err(_) => {
            let second = rustix::param::clock_ticks_per_second().max(1) as f64;
            let ran = ticks(process, thread)? as f64 / second;
            Some((Duration::try_from_secs_f64(ran).ok()?, Duration::ZERO))
        }
    }
}

/// User's and system's, fields 14 and 15 of proc_pid_stat(5); the name before may hold anything.
fn ticks(process: u32, thread: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/task/{thread}/stat")).ok()?;
    let (_, after) = text.rsplit_once(") ")?;
    let mut fields = after.split_whitespace().skip(11);
    let (user, system): (u64, u64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some(user + system)
}
