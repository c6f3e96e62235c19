//! Figures formatted for people.

use braid_history::Periods;
use jiff::Timestamp;
use jiff::tz::TimeZone;

/// Three digits or so, with a unit that fits.
pub fn rate(mbps: f64) -> String {
    match mbps {
        rate if rate >= 1000.0 => format!("{:.2} Gbit/s", rate / 1000.0),
        rate if rate >= 100.0 => format!("{rate:.0} Mbit/s"),
        rate if rate >= 10.0 => format!("{rate:.1} Mbit/s"),
        rate if rate >= 1.0 => format!("{rate:.2} Mbit/s"),
        rate if rate >= 0.001 => format!("{:.0} kbit/s", rate * 1000.0),
        _ => "0".to_owned(),
    }
}

/// In powers of ten, like providers.
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 7] = ["B", "kB", "MB", "GB", "TB", "PB", "EB"];
    let (mut value, mut unit) = (bytes as f64, 0);
    while value >= 999.5 && unit + 1 < UNITS.len() {
        (value, unit) = (value / 1000.0, unit + 1);
    }
    let digits = if unit == 0 || value >= 100.0 {
        0
    } else if value >= 10.0 {
        1
    } else {
        2
    };
    format!("{value:.digits$} {}", UNITS[unit])
}

pub fn ms(ms: Option<f64>) -> String {
    match ms {
        None => "–".to_owned(),
        Some(ms) if ms >= 10.0 => format!("{ms:.0} ms"),
        Some(ms) => format!("{ms:.1} ms"),
    }
}

/// A share of 0 to 1 as a percentage.
pub fn percent(share: f64) -> String {
    match share * 100.0 {
        percent if percent > 0.0 && percent < 0.1 => "< 0.1 %".to_owned(),
        percent if percent < 10.0 && percent > 0.0 => format!("{percent:.1} %"),
        percent => format!("{percent:.0} %"),
    }
}

/// Such as `3 h 5 min`: the two largest units.
pub fn duration(seconds: f64) -> String {
    let seconds = seconds.max(0.0) as u64;
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, minutes) => format!("{minutes} min"),
        (0, hours, minutes) => format!("{hours} h {minutes} min"),
        (days, hours, _) => format!("{days} d {hours} h"),
    }
}

/// `28 Nov`, by this host's clock.
pub fn day(unix: i64) -> String {
    let at = Timestamp::from_second(unix).map(|at| at.to_zoned(TimeZone::system()));
    at.map_or_else(|_| "?".to_owned(), |at| at.strftime("%-d %b").to_string())
}

/// `2026-11-23 14:05:09`.
pub fn moment(unix: i64) -> String {
    Periods::local_time(unix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_a_unit_that_fits() {
        let rates = [0.0, 0.0004, 0.064, 1.0, 55.94, 123.4, 1890.0].map(rate);
        let expected =
            ["0", "0", "64 kbit/s", "1.00 Mbit/s", "55.9 Mbit/s", "123 Mbit/s", "1.89 Gbit/s"];
        assert_eq!(rates, expected);
        let sizes = [0, 999, 1000, 999_600, 20_000_000_000, u64::MAX].map(size);
        assert_eq!(sizes, ["0 B", "999 B", "1.00 kB", "1.00 MB", "20.0 GB", "18.4 EB"]);
        assert_eq!(
            [0.0, 0.0004, 0.05, 0.25, 1.0].map(percent),
            ["0 %", "< 0.1 %", "5.0 %", "25 %", "100 %"]
        );
        let times = [5.0, 65.0, 3700.0, 200_000.0].map(duration);
        assert_eq!(times, ["5 s", "1 min", "1 h 1 min", "2 d 7 h"]);
    }
}
