//! For how long a backup target's contents are locked.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

const DAY: Duration = Duration::from_secs(24 * 3600);
/// Nobody can revoke a lock: a typo shouldn't cost more than ten years.
const MOST_DAYS: u32 = 3650;

/// Whole days, from each backup on, during which nobody can delete a target's contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockSpan(u32);

/// A string that isn't such a span.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}; write 90d: from 1d to 3650d")]
pub struct LockSpanError(String);

impl LockSpan {
    /// Days, as [`LockSpan::days`] has them.
    pub fn of_days(days: u32) -> Option<LockSpan> {
        (1..=MOST_DAYS).contains(&days).then_some(LockSpan(days))
    }

    /// How many.
    pub fn days(self) -> u32 {
        self.0
    }

    /// Everything needed is locked for at least this long after each backup.
    pub fn least(self) -> Duration {
        DAY * self.0
    }

    /// How long something is locked at a time, so that not every backup has to extend all locks: a
    /// quarter more, at most a month. A lock is extended when less than [`LockSpan::least`] is
    /// left.
    pub fn at_once(self) -> Duration {
        self.least() + DAY * (self.0 / 4).clamp(1, 30)
    }
}

impl fmt::Display for LockSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}d", self.0)
    }
}

impl FromStr for LockSpan {
    type Err = LockSpanError;

    fn from_str(text: &str) -> Result<Self, LockSpanError> {
        let span =
            braid_units::parse_duration(text).map_err(|error| LockSpanError(error.to_string()))?;
        let days = u32::try_from(span.as_secs() / DAY.as_secs()).unwrap_or(u32::MAX);
        match LockSpan::of_days(days) {
            Some(_) if span != DAY * days => Err(LockSpanError("locks are of whole days".into())),
            Some(span) => Ok(span),
            None => Err(LockSpanError(format!("{text} is too short or too long for a lock"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_of_whole_days_within_bounds() {
        for (text, days, at_once) in
            [("1d", 1, 2), ("48h", 2, 3), ("90d", 90, 112), ("3650d", 3650, 3680)]
        {
            let span: LockSpan = text.parse().unwrap();
            assert_eq!((span.days(), span.at_once()), (days, DAY * at_once), "{text}");
            assert_eq!(span.to_string().parse(), Ok(span));
        }
        for text in ["", "0d", "1h", "36h", "3651d", "90", "-1d", "1e99d"] {
            assert!(text.parse::<LockSpan>().is_err(), "{text}");
        }
    }
}
