use std::fmt;
use std::str::FromStr;

/// Recurring times: a calendar expression as in systemd.time(7), without fractions of seconds.
/// `daily`, `Mon..Fri 22:30`, `*-*-01 04:00`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Calendar(String);

/// A string that isn't a calendar expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} {what}; write daily, Mon..Fri 22:30 or *-*-01 04:00, as systemd.time(7) has it")]
pub struct CalendarError {
    text: String,
    what: &'static str,
}

const WORDS: [&str; 9] = [
    "minutely",
    "hourly",
    "daily",
    "weekly",
    "monthly",
    "quarterly",
    "semiannually",
    "yearly",
    "annually",
];

const WEEKDAYS: [&str; 7] =
    ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];

impl Calendar {
    /// As systemd takes it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Calendar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Calendar {
    type Err = CalendarError;

    fn from_str(text: &str) -> Result<Calendar, CalendarError> {
        let wrong = |what| CalendarError { text: text.to_owned(), what };
        let mut parts: Vec<&str> = text.split_ascii_whitespace().collect();
        let written = parts.join(" ");
        if parts.last().is_some_and(|last| is_zone(last)) {
            parts.pop();
        }
        if let [word] = parts.as_slice()
            && WORDS.iter().any(|known| known.eq_ignore_ascii_case(word))
        {
            return Ok(Calendar(written));
        }
        if parts.first().is_some_and(|first| first.starts_with(|c: char| c.is_ascii_alphabetic())) {
            let days = parts.remove(0);
            if !days.split(',').all(is_weekdays) {
                return Err(wrong("begins with no word and no weekdays that systemd knows"));
            }
            if parts.is_empty() {
                return Ok(Calendar(written));
            }
        }
        let (date, time) = match parts.as_slice() {
            [one] if one.contains(':') => (None, Some(one)),
            [one] => (Some(one), None),
            [date, time] => (Some(date), Some(time)),
            [] => return Err(wrong("is empty")),
            _ => return Err(wrong("has more than weekdays, a date, a time and a time zone")),
        };
        if date.is_some_and(|date| !is_date(date)) {
            return Err(wrong("has no date such as *-*-01, 12-24 or *-1/3-*"));
        }
        if time.is_some_and(|time| !is_time(time)) {
            return Err(wrong("has no time such as 04:00, *:0/15 or 00/6:30:00"));
        }
        Ok(Calendar(written))
    }
}

/// `UTC`, `Europe/Berlin`.
fn is_zone(text: &str) -> bool {
    let is_name = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_alphabetic())
            && part.chars().all(|c| c.is_ascii_alphanumeric() || "_+-".contains(c))
    };
    text == "UTC" || text.contains('/') && text.split('/').all(is_name)
}

/// `Mon`, `Mon..Fri`.
fn is_weekdays(text: &str) -> bool {
    let is_day = |day: &str| {
        let day = day.to_ascii_lowercase();
        WEEKDAYS.iter().any(|full| *full == day || day.len() == 3 && full.starts_with(&day))
    };
    text.splitn(2, "..").all(is_day)
}

fn is_date(text: &str) -> bool {
    // After a ~ days are counted from the month's end.
    let Some((months, day)) = text.rsplit_once(['-', '~']) else { return false };
    let (year, month) = months.split_once('-').unwrap_or(("*", months));
    fits(year, 1970, 2199) && fits(month, 1, 12) && fits(day, 1, 31)
}

fn is_time(text: &str) -> bool {
    match text.split(':').collect::<Vec<_>>().as_slice() {
        [hour, minute] => fits(hour, 0, 23) && fits(minute, 0, 59),
        [hour, minute, second] => fits(hour, 0, 23) && fits(minute, 0, 59) && fits(second, 0, 59),
        _ => false,
    }
}

/// `*`, `4`, `1,15`, `2..5`, `0/15`, and lists of these; each number is in the range.
fn fits(text: &str, low: u32, high: u32) -> bool {
    let number = |text: &str| -> Option<u32> {
        let digits =
            !text.is_empty() && text.len() <= 4 && text.bytes().all(|b| b.is_ascii_digit());
        text.parse().ok().filter(|number| digits && (low..=high).contains(number))
    };
    let one = |text: &str| {
        let (span, step) = match text.split_once('/') {
            Some((span, step)) => (span, Some(step)),
            None => (text, None),
        };
        let step_fits = step.is_none_or(|step| {
            step.len() <= 4 && step.parse().is_ok_and(|step: u32| (1..=high).contains(&step))
        });
        let span_fits = match span.split_once("..") {
            Some((first, last)) => match (number(first), number(last)) {
                (Some(first), Some(last)) => first <= last,
                _ => false,
            },
            None => span == "*" || number(span).is_some(),
        };
        span_fits && step_fits
    };
    text.split(',').all(one)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::process::Command;

    const GOOD: [&str; 18] = [
        "daily",
        "Monthly",
        "weekly UTC",
        "Mon",
        "Mon,Thu..Sat",
        "Monday..Fri 22:30",
        "22:30",
        "*-*-01 04:00",
        "*-*~01 04:00",
        "12-24",
        "2026-11-22 06:00:00",
        "*:0/15",
        "00/6:30:00",
        "*-1/3-*",
        "Sat *-*-1..7 18:00",
        "*-*-1,15 4:00 Europe/Berlin",
        "  05:40   UTC ",
        "*-*-* *:*:00",
    ];

    const BAD: [&str; 16] = [
        "",
        "*~01-02",
        "UTC",
        "sometimes",
        "Mo",
        "Mon..",
        "25:00",
        "12:60",
        "4",
        "*-13-01",
        "*-*-32",
        "*-*-5..2",
        "4:00/0",
        "daily hourly",
        "1-2-3-4",
        "daily\nPersistent=false",
    ];

    #[test]
    fn good_ones_are_told_from_bad_ones() {
        for text in GOOD {
            assert!(text.parse::<Calendar>().is_ok(), "{text}");
        }
        for text in BAD {
            let error = text.parse::<Calendar>().unwrap_err().to_string();
            assert!(error.contains("systemd.time(7)"), "{text}");
        }
    }

    #[test]
    fn systemd_reads_what_is_called_good() {
        for text in GOOD {
            let calendar: Calendar = text.parse().unwrap();
            let read =
                Command::new("systemd-analyze").args(["calendar", calendar.as_str()]).output();
            let Ok(read) = read else { return println!("skipped: there is no systemd-analyze") };
            assert!(read.status.success(), "{text}: {}", String::from_utf8_lossy(&read.stderr));
        }
    }

    proptest! {
        #[test]
        fn any_text_is_one_or_an_error(text: String) {
            if let Ok(calendar) = text.parse::<Calendar>() {
                prop_assert!(!calendar.as_str().contains(['\n', '%']));
            }
        }
    }
}
