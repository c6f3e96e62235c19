//! Schedules periodic work, counted from one common moment, so that a reader once a second sees the
//! same number of reports each time. If each were scheduled from its last run, a second would have
//! now five reports, now four: a rate would seem to drop by a fifth every ten seconds.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

static BEGAN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// The next time for something done once in `every`, at `offset` after a whole multiple of it.
/// Beats missed because something took too long are skipped.
pub fn next(every: Duration, offset: Duration, now: Instant) -> Instant {
    next_since(*BEGAN, every, offset, now)
}

fn next_since(began: Instant, every: Duration, offset: Duration, now: Instant) -> Instant {
    let passed = now.saturating_duration_since(began + offset);
    let beats = passed.as_nanos() / every.as_nanos().max(1) + 1;
    let whole = u32::try_from(beats).map_or(Duration::ZERO, |beats| every.saturating_mul(beats));
    // After more beats than can be counted (years), any moment is as good.
    began.checked_add(offset + whole).filter(|next| *next > now).unwrap_or(now + every)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_look_finds_as_many_reports() {
        let (tick, second) = (Duration::from_millis(200), Duration::from_secs(1));
        let began = Instant::now();
        let mut looks = vec![began];
        for _ in 0..60 {
            let work = *looks.last().unwrap() + Duration::from_millis(7);
            looks.push(next_since(began, second, tick / 2, work));
        }
        let mut reports = vec![began];
        while reports.last() < looks.last() {
            let work = *reports.last().unwrap() + Duration::from_millis(4);
            reports.push(next_since(began, tick, Duration::ZERO, work));
        }
        for pair in looks.windows(2).skip(1) {
            let between = reports.iter().filter(|at| **at >= pair[0] && **at < pair[1]);
            assert_eq!(between.count(), 5);
        }
    }

    #[test]
    fn what_took_too_long_leaves_beats_out() {
        let began = Instant::now();
        let at = |ms| began + Duration::from_millis(ms);
        let next = |now| next_since(began, Duration::from_millis(200), Duration::ZERO, now);
        assert_eq!(next(began), at(200));
        assert_eq!(next(at(199)), at(200));
        assert_eq!(next(at(200)), at(400));
        assert_eq!(next(at(1999)), at(2000));
    }
}
