//! How busy the processors are.

use braid_doctor::Load;
use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

/// Processor time so far, in ticks.
pub struct Times {
    /// Of all processors: all of it, idle, stolen.
    all: (u64, u64, u64),
    /// Of the daemon's threads.
    threads: BTreeMap<u32, u64>,
}

impl Times {
    /// Reads them; of the threads of this process too.
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
        let second = rustix::param::clock_ticks_per_second() as f64;
        let ticks = (between.as_secs_f64() * second).max(1.0);
        let busiest = self
            .threads
            .iter()
            .filter_map(|(thread, now)| Some(grown(*now, *before.threads.get(thread)?) / ticks));
        Load {
            busiest_thread: busiest.fold(0.0, f64::max).min(1.0),
            all: (1.0 - grown(self.all.1, before.all.1) / total).clamp(0.0, 1.0),
            stolen: grown(self.all.2, before.all.2) / total,
        }
    }
}

fn threads(process: u32) -> BTreeMap<u32, u64> {
    let folder = format!("/proc/{process}/task");
    let Ok(entries) = fs::read_dir(folder) else { return BTreeMap::new() };
    let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter_map(|thread| Some((thread, ticks(process, thread)?))).collect()
}

/// User's and system's, fields 14 and 15 of proc_pid_stat(5); the name before may hold anything.
fn ticks(process: u32, thread: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/task/{thread}/stat")).ok()?;
    let (_, after) = text.rsplit_once(") ")?;
    let mut fields = after.split_whitespace().skip(11);
    let (user, system): (u64, u64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some(user + system)
}
