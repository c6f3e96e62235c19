//! Times in names: UTC, sortable as text, the same form everywhere.

use jiff::Timestamp;
use jiff::civil::{Date, Time};
use jiff::tz::Offset;
use std::time::SystemTime;

/// `20261121T235646Z` (ISO 8601, basic form). Times outside of four-digit years become the nearest
/// one within.
pub fn format(time: SystemTime) -> String {
    let time = time.max(SystemTime::UNIX_EPOCH);
    let time = Timestamp::try_from(time).unwrap_or(Timestamp::MAX);
    time.strftime("%Y%m%dT%H%M%SZ").to_string()
}

/// `2026-11-21 23:56:46 UTC`, for people.
pub fn shown(time: SystemTime) -> String {
    let time = Timestamp::try_from(time).unwrap_or(Timestamp::MAX);
    time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}

/// Reads what [`format`] wrote; anything after the `Z` is ignored.
pub fn parse(text: &str) -> Option<SystemTime> {
    if text.get(8..9) != Some("T") || text.get(15..16) != Some("Z") {
        return None;
    }
    let digits = |from: usize, to: usize| -> Option<i16> {
        let part = text.get(from..to)?;
        if part.bytes().all(|byte| byte.is_ascii_digit()) { part.parse().ok() } else { None }
    };
    let small = |from: usize| -> Option<i8> { digits(from, from + 2)?.try_into().ok() };
    let date = Date::new(digits(0, 4)?, small(4)?, small(6)?).ok()?;
    let time = Time::new(small(9)?, small(11)?, small(13)?, 0).ok()?;
    let time = Offset::UTC.to_timestamp(date.to_datetime(time)).ok()?;
    Some(SystemTime::from(time)).filter(|time| *time >= SystemTime::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn times_are_as_date_1_says() {
        for (seconds, text) in [
            (0, "19700101T000000Z"),
            (951_782_400, "20000229T000000Z"),
            (1_795_305_406, "20261121T235646Z"),
            (4_107_542_399, "21000228T235959Z"),
        ] {
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
            assert_eq!(format(time), text);
            assert_eq!(parse(text), Some(time));
            assert_eq!(parse(&format!("{text}-2")), Some(time));
        }
    }

    #[test]
    fn other_texts_are_no_times() {
        for text in [
            "",
            "20261121",
            "20261321T000000Z",
            "2026é1321T00000Z",
            "20261121T250000Z",
            "20260231T000000Z",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
