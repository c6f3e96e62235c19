//! A link's quota: a number of bytes per day or month, in UTC; the caller provides the time.

use braid_units::ByteSize;
use jiff::civil::{Date, date as date_of};
use jiff::{SignedDuration, ToSpan};

/// Seconds since 1970-01-01 00:00 UTC, leap seconds not counted.
pub type UnixSeconds = i64;

/// When a quota's counter starts anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Period {
    /// Every day at midnight.
    Daily,
    /// Every month at the midnight that begins this day.
    Monthly(ResetDay),
}

/// A day of the month, 1 to 31. In a month that's too short it means the last
/// day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResetDay(u8);

impl ResetDay {
    /// The first day of the month.
    pub const FIRST: ResetDay = ResetDay(1);

    /// The day `day`; `None` unless it's 1 to 31.
    pub fn new(day: u8) -> Option<Self> {
        (1..=31).contains(&day).then_some(ResetDay(day))
    }
}

/// Counts a link's bytes against its quota.
///
/// A clock that goes back, or was never set (many routers wake up in 1970),
/// doesn't reset the counter.
#[derive(Clone, Debug)]
pub struct Quota {
    limit: ByteSize,
    period: Period,
    used: u64,
    /// Start of the period that `used` belongs to; `None` before the first
    /// call with a clock that was set.
    since: Option<UnixSeconds>,
}

/// A clock that shows an earlier time than 2025-01-01 was never set.
const EARLIEST: UnixSeconds = 1_735_689_600;
/// The end of the year 9998, one before the calendar's last; later times are taken for it.
const LATEST: UnixSeconds = 253_370_764_799;
const DAY: i64 = 86_400;

impl Quota {
    /// A quota of `limit` bytes in each `period`, nothing used yet.
    pub fn new(limit: ByteSize, period: Period) -> Self {
        Quota { limit, period, used: 0, since: None }
    }

    /// Continues with what [`used`](Self::used) and
    /// [`period_start`](Self::period_start) said before a restart.
    pub fn restore(&mut self, used: ByteSize, period_start: UnixSeconds) {
        self.used = used.bytes();
        self.since = (period_start >= EARLIEST - 31 * DAY).then_some(period_start.min(LATEST));
    }

    /// Changes limit or period. What was used stays used, even if the period becomes shorter: how
    /// much of it belongs there isn't known, and a quota exists to save money.
    pub fn change(&mut self, limit: ByteSize, period: Period, now: UnixSeconds) {
        self.roll(now);
        (self.limit, self.period) = (limit, period);
        if now >= EARLIEST {
            self.since = Some(period.start(now));
        }
    }

    /// `bytes` passed over the link.
    pub fn charge(&mut self, bytes: u64, now: UnixSeconds) {
        self.roll(now);
        self.used = self.used.saturating_add(bytes);
    }

    /// Whether nothing is left.
    pub fn exhausted(&self, now: UnixSeconds) -> bool {
        self.used(now) >= self.limit
    }

    /// Bytes used in the period that `now` is in.
    pub fn used(&self, now: UnixSeconds) -> ByteSize {
        ByteSize::from_bytes(if self.is_over(now) { 0 } else { self.used })
    }

    /// Start of the period that the counter belongs to, to be kept for
    /// [`restore`](Self::restore); `None` while the clock isn't set.
    pub fn period_start(&self) -> Option<UnixSeconds> {
        self.since
    }

    fn roll(&mut self, now: UnixSeconds) {
        if now < EARLIEST {
            return;
        }
        if self.is_over(now) {
            self.used = 0;
        }
        self.since = Some(self.period.start(now));
    }

    /// Whether `now` lies in a later period than the counter's.
    fn is_over(&self, now: UnixSeconds) -> bool {
        now >= EARLIEST && self.since.is_some_and(|since| self.period.start(now) > since)
    }
}

impl Period {
    /// Start of the period that `at` lies in.
    pub fn start(self, at: UnixSeconds) -> UnixSeconds {
        let today = date(at);
        midnight(match self {
            Period::Daily => today,
            Period::Monthly(reset) => match reset.in_month_of(today) {
                this if this <= today => this,
                _ => reset.in_month_of(today.first_of_month().saturating_sub(1.month())),
            },
        })
    }

    /// End of the period that `at` lies in, which is the next one's start.
    pub fn end(self, at: UnixSeconds) -> UnixSeconds {
        let today = date(at);
        midnight(match self {
            Period::Daily => today.saturating_add(1.day()),
            Period::Monthly(reset) => match reset.in_month_of(today) {
                this if this > today => this,
                _ => reset.in_month_of(today.first_of_month().saturating_add(1.month())),
            },
        })
    }
}

impl ResetDay {
    /// The day that it means in the month of `day`.
    fn in_month_of(self, day: Date) -> Date {
        let number = i64::from(self.0).min(day.days_in_month().into());
        day.first_of_month().saturating_add((number - 1).days())
    }
}

const EPOCH: Date = date_of(1970, 1, 1);

/// The day in UTC.
fn date(at: UnixSeconds) -> Date {
    EPOCH.saturating_add(SignedDuration::from_secs(at.clamp(0, LATEST)))
}

/// When the day begins in UTC.
fn midnight(day: Date) -> UnixSeconds {
    day.duration_since(EPOCH).as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Counts day by day from the epoch: slow and plain.
    fn at(year: i64, month: i64, day: i64) -> UnixSeconds {
        let (mut y, mut m, mut days) = (1970, 1, 0);
        while (y, m) != (year, month) {
            days += days_in(y, m);
            (y, m) = if m == 12 { (y + 1, 1) } else { (y, m + 1) };
        }
        (days + day - 1) * DAY
    }

    fn days_in(year: i64, month: i64) -> i64 {
        match month {
            4 | 6 | 9 | 11 => 30,
            2 if year % 400 == 0 || (year % 4 == 0 && year % 100 != 0) => 29,
            2 => 28,
            _ => 31,
        }
    }

    fn monthly(day: u8) -> Period {
        Period::Monthly(ResetDay::new(day).unwrap())
    }

    fn quota(limit: u64, period: Period) -> Quota {
        Quota::new(ByteSize::from_bytes(limit), period)
    }

    #[test]
    fn a_changed_limit_or_period_forgets_nothing_until_it_is_over() {
        let noon = at(2026, 5, 20) + DAY / 2;
        let mut quota = quota(100, Period::Daily);
        quota.charge(80, noon);
        quota.change(ByteSize::from_bytes(200), monthly(1), noon);
        assert_eq!(quota.used(noon).bytes(), 80);
        assert_eq!(quota.used(noon + DAY).bytes(), 80, "the month goes on");
        assert_eq!(quota.used(at(2026, 6, 1)).bytes(), 0);
        quota.change(ByteSize::from_bytes(50), Period::Daily, noon);
        assert!(quota.exhausted(noon));
        assert_eq!(quota.used(noon + DAY).bytes(), 0);
    }

    #[test]
    fn known_dates() {
        // From `date -u -d … +%s`.
        assert_eq!(at(2025, 1, 1), EARLIEST);
        assert_eq!(at(2028, 2, 29), 1_835_395_200);
        assert_eq!(Period::Daily.start(1_835_395_200 + 5), 1_835_395_200);
        assert_eq!(monthly(1).start(1_835_395_200), at(2028, 2, 1));
        assert_eq!(monthly(1).end(LATEST), LATEST + 1);
    }

    #[test]
    fn periods_end_at_the_reset_day_or_the_months_last() {
        for (day, now, start, end) in [
            (1, at(2026, 1, 31), at(2026, 1, 1), at(2026, 2, 1)),
            (15, at(2026, 1, 14), at(2025, 12, 15), at(2026, 1, 15)),
            (15, at(2026, 1, 15), at(2026, 1, 15), at(2026, 2, 15)),
            (31, at(2026, 2, 27), at(2026, 1, 31), at(2026, 2, 28)),
            (31, at(2026, 2, 28), at(2026, 2, 28), at(2026, 3, 31)),
            (31, at(2028, 2, 28), at(2028, 1, 31), at(2028, 2, 29)),
            (30, at(2028, 2, 29), at(2028, 2, 29), at(2028, 3, 30)),
            (31, at(2026, 4, 30), at(2026, 4, 30), at(2026, 5, 31)),
            (29, at(2100, 3, 1), at(2100, 2, 28), at(2100, 3, 29)),
        ] {
            for now in [now, now + DAY - 1] {
                assert_eq!(monthly(day).start(now), start, "day {day}, now {now}");
                assert_eq!(monthly(day).end(now), end, "day {day}, now {now}");
            }
        }
    }

    #[test]
    fn a_full_quota_is_free_again_in_the_next_period() {
        let mut quota = quota(1000, monthly(31));
        let last = at(2026, 2, 28);
        quota.charge(400, last - 1);
        assert!(!quota.exhausted(last - 1));
        quota.charge(600, last - 1);
        assert!(quota.exhausted(last - 1));
        assert_eq!(quota.used(last - 1).bytes(), 1000);
        assert!(!quota.exhausted(last), "the reset needs no charge");
        quota.charge(1, last);
        assert_eq!(quota.used(last).bytes(), 1);
        assert_eq!(quota.period.end(last), at(2026, 3, 31));
        quota.charge(u64::MAX, last);
        assert!(quota.exhausted(last));
    }

    #[test]
    fn a_restart_keeps_the_counter_within_its_period() {
        let now = at(2026, 5, 20);
        let mut before = quota(1000, monthly(10));
        before.charge(700, now);
        let (used, since) = (before.used(now), before.period_start().unwrap());
        let mut after = quota(1000, monthly(10));
        after.restore(used, since);
        assert_eq!(after.used(now + 5 * DAY).bytes(), 700);
        assert_eq!(after.used(at(2026, 6, 10)).bytes(), 0);
        after.restore(used, i64::MIN);
        assert_eq!(after.used(now).bytes(), 700, "a spoilt file frees nothing");
        after.restore(used, i64::MAX);
        after.charge(1, now);
        assert_eq!(after.used(now).bytes(), 701);
        assert_eq!(after.used(at(2026, 6, 10)).bytes(), 0, "and holds nothing for ever");
    }

    #[test]
    fn a_clock_that_is_wrong_resets_nothing() {
        let now = at(2026, 5, 20);
        let mut quota = quota(1000, Period::Daily);
        quota.charge(500, 3600);
        assert_eq!(quota.period_start(), None);
        quota.charge(300, now);
        assert_eq!(quota.used(now).bytes(), 800, "what passed before the clock was set counts");
        quota.charge(100, 7200);
        assert_eq!(quota.used(7200).bytes(), 900);
        quota.charge(50, now - DAY);
        assert_eq!(quota.used(now - DAY).bytes(), 950, "a step back");
        assert_eq!(quota.used(now).bytes(), 0);
        for odd in [i64::MIN, i64::MAX, -1] {
            quota.charge(1, odd);
            assert!(quota.period.end(odd) > 0);
        }
    }

    proptest! {
        #[test]
        fn periods_cover_time_without_gap(now in EARLIEST..LATEST, day in 1_u8..=31) {
            for period in [Period::Daily, monthly(day)] {
                let (start, end) = (period.start(now), period.end(now));
                prop_assert!(start <= now && now < end);
                prop_assert_eq!(period.start(end), end);
                prop_assert_eq!(period.start(end - 1), start);
                prop_assert_eq!(period.end(start), end);
            }
            let length = (monthly(day).end(now) - monthly(day).start(now)) / DAY;
            prop_assert!((28..=31).contains(&length), "{} days", length);
        }

        #[test]
        fn months_agree_with_counting(year in 1970_i64..2500, month in 1_i64..=12) {
            let days = at(year, month, 1) / DAY;
            let last = days + days_in(year, month) - 1;
            for day in [days, last] {
                prop_assert_eq!(monthly(1).start(day * DAY), days * DAY);
                prop_assert_eq!(monthly(1).end(day * DAY), (last + 1) * DAY);
                prop_assert_eq!(monthly(31).start(last * DAY), last * DAY);
            }
        }
    }
}
