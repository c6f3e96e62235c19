//! Times in names: UTC, sortable as text, the same form everywhere.

use std::time::{Duration, SystemTime};

/// `20261121T235646Z` (ISO 8601, basic form).
pub fn format(time: SystemTime) -> String {
    let seconds = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    let (year, month, day) = date_of((seconds / DAY) as i64);
    let (of_day, minute) = (seconds % DAY, 60);
    let (hours, minutes) = (of_day / 3600, of_day / minute % 60);
    format!("{year:04}{month:02}{day:02}T{hours:02}{minutes:02}{:02}Z", of_day % 60)
}

/// Reads what [`format`] wrote; what comes behind the `Z` doesn't matter.
pub fn parse(text: &str) -> Option<SystemTime> {
    let digits = |from: usize, to: usize| -> Option<u64> {
        let part = text.get(from..to)?;
        if part.bytes().all(|byte| byte.is_ascii_digit()) { part.parse().ok() } else { None }
    };
    if text.get(8..9) != Some("T") || text.get(15..16) != Some("Z") {
        return None;
    }
    let (year, month, day) = (digits(0, 4)?, digits(4, 6)?, digits(6, 8)?);
    let (hour, minute, second) = (digits(9, 11)?, digits(11, 13)?, digits(13, 15)?);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let days = u64::try_from(days_to(year as i64, month as i64, day as i64)).ok()?;
    let seconds = days * DAY + hour * 3600 + minute * 60 + second;
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
}

const DAY: u64 = 86_400;
/// Days in 400 years of the Gregorian calendar.
const ERA: i64 = 146_097;
/// Days from 0000-03-01 to 1970-01-01.
const EPOCH: i64 = 719_468;

/// Year, month and day of a day since 1970; years begin in March, so that the
/// leap day is their last (Howard Hinnant, "chrono-compatible low-level date
/// algorithms").
fn date_of(days: i64) -> (i64, i64, i64) {
    let days = days + EPOCH;
    let (era, of_era) = (days.div_euclid(ERA), days.rem_euclid(ERA));
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

fn days_to(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let march_month = if month > 2 { month - 3 } else { month + 9 };
    let of_year = (153 * march_month + 2) / 5 + day - 1;
    era * ERA + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + of_year - EPOCH
}

#[cfg(test)]
mod tests {
    use super::*;

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
        for text in ["", "20261121", "20261321T000000Z", "2026é1321T00000Z", "20261121T250000Z"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
