use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Stages from now into the past; at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy(Vec<Stage>);

/// `COUNTxLENGTH(keep=N)`: `count` intervals of this length, each of which keeps some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stage {
    /// How many intervals; at least 1.
    pub count: u32,
    /// How long each is; more than nothing.
    pub length: Duration,
    /// How many snapshots each keeps.
    pub keep: Keep,
}

/// How many snapshots an interval keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// All.
    All,
    /// This many, at least 1.
    AtMost(u32),
}

/// A string that isn't a policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{part:?} {what}; write stages such as 1x1h(keep=all) | 24x1h | 14x1d")]
pub struct PolicyError {
    part: String,
    what: &'static str,
}

/// A century of hours; more can only be a typo.
const MOST_INTERVALS: u32 = 1_000_000;
const LONGEST_STAGE: Duration = Duration::from_secs(1000 * 366 * 24 * 3600);

impl Policy {
    /// The stages, in their order.
    pub fn stages(&self) -> &[Stage] {
        &self.0
    }
}

impl FromStr for Policy {
    type Err = PolicyError;
    fn from_str(text: &str) -> Result<Self, PolicyError> {
        text.split('|').map(|stage| stage.trim().parse()).collect::<Result<_, _>>().map(Policy)
    }
}

impl FromStr for Stage {
    type Err = PolicyError;
    fn from_str(text: &str) -> Result<Self, PolicyError> {
        let error = |what| PolicyError { part: text.chars().take(60).collect(), what };
        if text.is_empty() {
            return Err(error("is an empty stage"));
        }
        let (grid, keep) = match text.split_once('(') {
            None => (text, Keep::AtMost(1)),
            Some((grid, rest)) => {
                let keep =
                    rest.strip_suffix(')').and_then(|rest| rest.trim().strip_prefix("keep="));
                let keep =
                    keep.ok_or_else(|| error("has something else than (keep=…) behind it"))?;
                let keep = match keep.trim() {
                    "all" => Keep::All,
                    number => number
                        .parse()
                        .ok()
                        .filter(|n| *n > 0)
                        .map(Keep::AtMost)
                        .ok_or_else(|| error("keeps neither all nor a number of 1 or more"))?,
                };
                (grid.trim(), keep)
            }
        };
        let (count, length) =
            grid.split_once('x').ok_or_else(|| error("has no x between count and length"))?;
        let count: u32 = count
            .trim()
            .parse()
            .ok()
            .filter(|count| (1..=MOST_INTERVALS).contains(count))
            .ok_or_else(|| error("has no count of 1 to 1000000 before the x"))?;
        let length = parse_length(length.trim())
            .filter(|length| !length.is_zero())
            .ok_or_else(|| error("has no length such as 15min, 1h, 1d, 1w or 1y behind the x"))?;
        if length.checked_mul(count).is_none_or(|span| span > LONGEST_STAGE) {
            return Err(error("reaches back more than a thousand years"));
        }
        Ok(Stage { count, length, keep })
    }
}

/// Accepts what [`braid_units::parse_duration`] does, and weeks and years of 365 days.
fn parse_length(text: &str) -> Option<Duration> {
    let days = |number: &str, days: u64| {
        let number: u64 = number.trim().parse().ok().filter(|number| *number <= 10_000)?;
        Some(Duration::from_secs(number * days * 24 * 3600))
    };
    if let Some(weeks) = text.strip_suffix('w') {
        return days(weeks, 7);
    }
    if let Some(years) = text.strip_suffix('y') {
        return days(years, 365);
    }
    braid_units::parse_duration(text).ok()
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.count, format_length(self.length))?;
        match self.keep {
            Keep::All => f.write_str("(keep=all)"),
            Keep::AtMost(1) => Ok(()),
            Keep::AtMost(n) => write!(f, "(keep={n})"),
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, stage) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str(" | ")?;
            }
            stage.fmt(f)?;
        }
        Ok(())
    }
}

fn format_length(length: Duration) -> String {
    let seconds = length.as_secs();
    for (unit, name) in [(24 * 3600, "d"), (3600, "h"), (60, "min")] {
        if length.subsec_nanos() == 0 && seconds > 0 && seconds.is_multiple_of(unit) {
            return format!("{}{name}", seconds / unit);
        }
    }
    braid_units::format_duration(length)
}
