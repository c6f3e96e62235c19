use crate::quantity::{self, QuantityError};
use std::time::Duration;

/// Reads `200us`, `30ms`, `20s`, `1.5s`, `2min`, `1h`, `30d`.
///
/// # Errors
/// When it is no number, has no unit or an unknown one, or is too large.
pub fn parse_duration(text: &str) -> Result<Duration, QuantityError> {
    let nanos = quantity::parse(text, "30ms", |unit| {
        Some(match unit {
            "ns" => 1.0,
            "us" | "µs" => 1e3,
            "ms" => 1e6,
            "s" | "sec" => 1e9,
            "m" | "min" => 60e9,
            "h" => 3600e9,
            "d" => 86_400e9,
            _ => return None,
        })
    })?;
    Ok(Duration::from_nanos(nanos.round() as u64))
}

/// Writes a duration so that [`parse_duration`] reads it again, to the
/// precision a person wants to see.
pub fn format_duration(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    let (value, unit) = match seconds {
        s if s >= 1.0 || s == 0.0 => (s, "s"),
        s if s >= 1e-3 => (s * 1e3, "ms"),
        s => (s * 1e6, "us"),
    };
    let text = format!("{value:.3}");
    format!("{}{unit}", text.trim_end_matches('0').trim_end_matches('.'))
}
