/// A level of detail: the length of its sums, and how long they are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// One second, for an hour; only in memory.
    Second,
    /// Ten seconds, for a day.
    TenSeconds,
    /// A minute, for 31 days.
    Minute,
    /// An hour, for three years.
    Hour,
}

impl Level {
    /// The levels written to disk, finest first.
    pub const WRITTEN: [Level; 3] = [Level::TenSeconds, Level::Minute, Level::Hour];

    /// Length of one sum, seconds.
    pub fn width(self) -> i64 {
        match self {
            Level::Second => 1,
            Level::TenSeconds => 10,
            Level::Minute => 60,
            Level::Hour => 3600,
        }
    }

    /// Age at which it is forgotten, seconds.
    pub fn kept(self) -> i64 {
        const DAY: i64 = 24 * 3600;
        match self {
            Level::Second => 3600,
            Level::TenSeconds => DAY,
            Level::Minute => 31 * DAY,
            Level::Hour => 3 * 366 * DAY,
        }
    }

    /// The beginning of the sum that contains a moment (both Unix seconds).
    pub fn start(self, unix: i64) -> i64 {
        unix.saturating_sub(unix.rem_euclid(self.width()))
    }

    /// The finest level that still has data from `from` on and needs at most `most` sums from then
    /// to `to` (Unix seconds); otherwise the coarsest.
    pub fn for_range(from: i64, to: i64, now: i64, most: i64) -> Level {
        let fits = |level: &Level| {
            (to - from) / level.width() <= most && now.saturating_sub(from) <= level.kept()
        };
        let finest_first = [Level::Second, Level::TenSeconds, Level::Minute];
        finest_first.into_iter().find(fits).unwrap_or(Level::Hour)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_finest_level_that_has_it_and_is_short_enough() {
        let now = 1_800_000_000;
        let ago = |seconds: i64, most| Level::for_range(now - seconds, now, now, most);
        assert_eq!(ago(300, 600), Level::Second);
        assert_eq!(ago(3600, 600), Level::TenSeconds);
        assert_eq!(ago(24 * 3600, 10_000), Level::TenSeconds);
        assert_eq!(ago(25 * 3600, 10_000), Level::Minute);
        assert_eq!(ago(24 * 3600, 1500), Level::Minute);
        assert_eq!(ago(365 * 24 * 3600, 1500), Level::Hour);
        // A short span long ago is only known by hours.
        assert_eq!(
            Level::for_range(now - 90 * 86_400, now - 90 * 86_400 + 60, now, 600),
            Level::Hour
        );
    }
}
