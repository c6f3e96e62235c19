use std::time::{SystemTime, UNIX_EPOCH};

/// The current time by this host's clock, seconds since the Unix epoch; 0 if the clock is before
/// it.
pub fn unix_now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_secs()).unwrap_or(i64::MAX)
}
