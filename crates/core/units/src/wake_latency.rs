use crate::{QuantityError, format_duration, parse_duration};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Within what time a host's idle processors are to be back while packets come
/// often, as a configuration says it: `auto`, `off` or a duration (`20us`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WakeLatency {
    /// At once where the host of this virtual machine says that its processors
    /// are its own; else as with [`WakeLatency::Off`].
    #[default]
    Auto,
    /// As the host has it.
    Off,
    /// Within this, 10 ms at most; zero: they don't sleep at all.
    Within(Duration),
}

impl WakeLatency {
    /// No processor sleeps deeper.
    const MAX: Duration = Duration::from_millis(10);
}

/// What isn't a [`WakeLatency`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WakeLatencyError {
    /// Neither of the words, nor a duration.
    #[error("{0}; \"auto\" and \"off\" may be written as well")]
    Quantity(#[from] QuantityError),
    /// Longer than any processor takes.
    #[error(
        "{} is out of 0us to 10ms; \"20us\" keeps processors from deep sleep, \"0us\" from any",
        format_duration(*.0)
    )]
    TooLong(Duration),
}

impl FromStr for WakeLatency {
    type Err = WakeLatencyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "auto" => return Ok(Self::Auto),
            "off" => return Ok(Self::Off),
            _ => {}
        }
        match parse_duration(text)? {
            limit if limit > Self::MAX => Err(WakeLatencyError::TooLong(limit)),
            limit => Ok(Self::Within(limit)),
        }
    }
}

impl fmt::Display for WakeLatency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Off => f.write_str("off"),
            Self::Within(limit) => f.write_str(&format_duration(*limit)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let within = |micros| WakeLatency::Within(Duration::from_micros(micros));
        for setting in [WakeLatency::Auto, WakeLatency::Off, within(0), within(20), within(10_000)]
        {
            assert_eq!(setting.to_string().parse(), Ok(setting));
        }
    }

    #[test]
    fn what_is_wrong_is_told() {
        let told = |text: &str| text.parse::<WakeLatency>().unwrap_err().to_string();
        assert!(told("11ms").starts_with("11ms is out of 0us to 10ms"), "{}", told("11ms"));
        assert!(told("on").contains("\"auto\" and \"off\""), "{}", told("on"));
    }
}
