use crate::bucket::Bucket;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan, Zoned};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The periods in a table's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// Hours.
    Hour,
    /// Days.
    Day,
    /// Months.
    Month,
}

/// An hour, day or month.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Period {
    /// When it begins, Unix seconds.
    pub start_unix: i64,
    /// Its name in the requested time zone: `2026-11-23 14:00`, `2026-11-23`, `2026-11`.
    pub name: String,
    /// The sum over it.
    #[serde(flatten)]
    pub sum: Bucket,
}

/// Hours, days and months of a time zone.
#[derive(Clone, Debug)]
pub struct Periods {
    by: By,
    zone: TimeZone,
}

impl Periods {
    /// Uses this host's time zone.
    pub fn here(by: By) -> Periods {
        Periods { by, zone: TimeZone::system() }
    }

    /// Uses this time zone.
    pub fn of(by: By, zone: TimeZone) -> Periods {
        Periods { by, zone }
    }

    /// A moment (Unix seconds) as this host's clocks show it: `2026-11-23 14:05:09`.
    pub fn local_time(unix: i64) -> String {
        let at = Timestamp::from_second(unix).map(|at| at.to_zoned(TimeZone::system()));
        at.map_or_else(|_| unix.to_string(), |at| at.strftime("%Y-%m-%d %H:%M:%S").to_string())
    }

    /// When the last `count` periods begin, including the current one.
    pub fn begin(&self, now: i64, count: u32) -> i64 {
        let back = i64::from(count.saturating_sub(1));
        let Some(now) = self.zoned(now) else { return 0 };
        let begin = match self.by {
            By::Hour => return self.start(now.timestamp().as_second()) - back * 3600,
            By::Day => now.date().checked_sub(back.days()),
            By::Month => now.date().first_of_month().checked_sub(back.months()),
        };
        begin.ok().and_then(|date| self.midnight(date)).unwrap_or(0)
    }

    /// Sums of points by period, oldest first; periods without a point are left out.
    pub fn sums(&self, points: &[(i64, Bucket)]) -> Vec<Period> {
        let mut sums: BTreeMap<i64, Bucket> = BTreeMap::new();
        for (at, bucket) in points {
            sums.entry(self.start(*at)).or_default().add(bucket);
        }
        let period = |(start_unix, sum)| Period { start_unix, name: self.name(start_unix), sum };
        sums.into_iter().map(period).collect()
    }

    fn start(&self, unix: i64) -> i64 {
        let Some(at) = self.zoned(unix) else { return unix };
        let start = match self.by {
            // Not the civil hour, which occurs twice when clocks go back.
            By::Hour => Some(unix - i64::from(at.minute()) * 60 - i64::from(at.second())),
            By::Day => self.midnight(at.date()),
            By::Month => self.midnight(at.date().first_of_month()),
        };
        start.unwrap_or(unix)
    }

    fn name(&self, start: i64) -> String {
        let format = match self.by {
            By::Hour => "%Y-%m-%d %H:%M",
            By::Day => "%Y-%m-%d",
            By::Month => "%Y-%m",
        };
        self.zoned(start).map_or_else(String::new, |start| start.strftime(format).to_string())
    }

    fn zoned(&self, unix: i64) -> Option<Zoned> {
        Some(Timestamp::from_second(unix).ok()?.to_zoned(self.zone.clone()))
    }

    fn midnight(&self, date: Date) -> Option<i64> {
        Some(date.to_zoned(self.zone.clone()).ok()?.timestamp().as_second())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn berlin(by: By) -> Periods {
        // Like Berlin's zone, without needing the system's files.
        let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        Periods::of(by, zone)
    }

    fn at(text: &str) -> i64 {
        text.parse::<Timestamp>().unwrap().as_second()
    }

    fn hours(from: &str, count: i64) -> Vec<(i64, Bucket)> {
        let bucket = Bucket { seconds: 3600, rx_bytes: 1, ..Bucket::default() };
        (0..count).map(|n| (at(from) + n * 3600, bucket)).collect()
    }

    #[test]
    fn days_are_the_zones_and_have_23_to_25_hours() {
        // Clocks go back on 25 October 2026.
        let days = berlin(By::Day).sums(&hours("2026-10-23T22:00:00Z", 24 * 3 + 1));
        let found: Vec<_> = days.iter().map(|d| (d.name.as_str(), d.sum.rx_bytes)).collect();
        assert_eq!(found, [("2026-10-24", 24), ("2026-10-25", 25), ("2026-10-26", 24)]);
    }

    #[test]
    fn an_hour_that_is_there_twice_is_two() {
        let hours = berlin(By::Hour).sums(&hours("2026-10-25T00:00:00Z", 2));
        let names: Vec<_> = hours.iter().map(|hour| hour.name.as_str()).collect();
        assert_eq!(names, ["2026-10-25 02:00", "2026-10-25 02:00"]);
    }

    #[test]
    fn the_last_periods_begin_with_the_running_one_among_them() {
        let now = at("2026-03-31T10:20:00Z");
        assert_eq!(berlin(By::Hour).begin(now, 2), at("2026-03-31T09:00:00Z"));
        assert_eq!(berlin(By::Day).begin(now, 1), at("2026-03-30T22:00:00Z"));
        assert_eq!(berlin(By::Day).begin(now, 3), at("2026-03-28T23:00:00Z"));
        assert_eq!(berlin(By::Month).begin(now, 2), at("2026-01-31T23:00:00Z"));
    }
}
