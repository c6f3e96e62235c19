use braid_units::Time;
use std::time::Duration;

/// The load is measured over windows of this length: some ten time slices of the kernel's scheduler
/// on a busy machine (4 ms with 250 ticks per second).
const WINDOW: Duration = Duration::from_millis(50);
/// The CPU counts as the bottleneck from this load on, until the load is below the second. One TCP
/// connection over unlimited links gives 0.85 to 0.98 at both ends' threads; over two gigabit
/// links, which are then the bottleneck, 0.51 to 0.58 (medians; docs/design/008-cpu-bound.md).
const BOUND_FROM: f64 = 0.75;
const BOUND_TO: f64 = 0.6;

/// Whether the CPU is the data plane's bottleneck: judged by the share of time in which its thread
/// had work, and ran or waited for a CPU.
#[derive(Debug, Default)]
pub(crate) struct CpuLoad {
    window_began: Time,
    /// The CPU time that the thread had run or waited for by then.
    wanted: Duration,
    bound: bool,
}

impl CpuLoad {
    /// Whether a window is over and [`CpuLoad::on_window`] must be called.
    pub fn is_due(&self, now: Time) -> bool {
        now >= self.window_began + WINDOW
    }

    /// Ends a window; `wanted` is how long the thread has run or waited for a CPU since it began.
    pub fn on_window(&mut self, wanted: Duration, now: Time) {
        let (time, part) = (now - self.window_began, wanted.saturating_sub(self.wanted));
        let load = part.as_secs_f64() / time.as_secs_f64().max(f64::MIN_POSITIVE);
        self.bound = load >= if self.bound { BOUND_TO } else { BOUND_FROM };
        (self.window_began, self.wanted) = (now, wanted);
    }

    /// Whether the CPU is the bottleneck.
    pub fn is_bound(&self) -> bool {
        self.bound
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays windows with these loads, in percent, and returns which end CPU-bound.
    fn bound(loads: &[u32]) -> Vec<bool> {
        let (mut load, mut now, mut wanted) = (CpuLoad::default(), Time::ZERO, Duration::ZERO);
        let windows = loads.iter().map(|percent| {
            assert!(!load.is_due(now + (WINDOW - Duration::from_nanos(1))));
            now += WINDOW;
            assert!(load.is_due(now));
            wanted += WINDOW * *percent / 100;
            load.on_window(wanted, now);
            load.is_bound()
        });
        windows.collect()
    }

    #[test]
    fn it_is_bound_from_the_upper_threshold_to_the_lower_one() {
        assert_eq!(
            bound(&[0, 70, 74, 76, 70, 61, 59, 70]),
            [false, false, false, true, true, true, false, false]
        );
    }

    #[test]
    fn the_load_is_that_of_the_last_window_alone() {
        assert_eq!(bound(&[100, 0, 100, 30]), [true, false, true, false]);
    }

    #[test]
    fn a_thread_that_slept_is_no_longer_bound_whatever_it_did_before() {
        let mut load = CpuLoad::default();
        load.on_window(WINDOW, Time::ZERO + WINDOW);
        assert!(load.is_bound());
        load.on_window(WINDOW + WINDOW / 10, Time::ZERO + WINDOW + Duration::from_secs(3600));
        assert!(!load.is_bound());
    }

    #[test]
    fn two_readings_at_one_moment_are_no_load() {
        let mut load = CpuLoad::default();
        load.on_window(Duration::ZERO, Time::ZERO);
        assert!(!load.is_bound());
    }
}
