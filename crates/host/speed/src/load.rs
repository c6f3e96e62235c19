//! How busy this host's processors are.

use std::fs;
use std::time::Duration;

/// Measures over a time that starts now, 0 to 1; `None` if `/proc` doesn't tell.
pub fn over(time: Duration) -> Option<f64> {
    let before = ticks()?;
    std::thread::sleep(time);
    let now = ticks()?;
    let all = now.0.saturating_sub(before.0).max(1) as f64;
    let idle = now.1.saturating_sub(before.1) as f64;
    Some((1.0 - idle / all).clamp(0.0, 1.0))
}

/// All ticks, and idle ones (proc_stat(5); guests' are included in user's).
fn ticks() -> Option<(u64, u64)> {
    let text = fs::read_to_string("/proc/stat").ok()?;
    let first = text.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<u64> =
        first.split_ascii_whitespace().take(8).filter_map(|word| word.parse().ok()).collect();
    let [_, _, _, idle, iowait, ..] = ticks.as_slice() else { return None };
    Some((ticks.iter().sum(), idle + iowait))
}
