use crate::quantity::{self, QuantityError};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A data rate, kept in bytes per second. Written in bits (`6Mbit`), as links
/// are sold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(u64);

impl Rate {
    /// No data at all.
    pub const ZERO: Rate = Rate(0);
    /// Without a limit.
    pub const MAX: Rate = Rate(u64::MAX);

    /// A rate of `bytes` per second.
    pub const fn from_bytes_per_sec(bytes: u64) -> Self {
        Rate(bytes)
    }
    /// A rate of `bits` per second.
    pub const fn from_bits_per_sec(bits: u64) -> Self {
        Rate(bits / 8)
    }
    /// A rate of `megabits` (10^6) per second.
    pub const fn from_mbit(megabits: u64) -> Self {
        Rate(megabits * 125_000)
    }
    /// `bytes` in `time`; `None` if `time` is zero.
    pub fn from_bytes_in(bytes: u64, time: Duration) -> Option<Self> {
        let nanos = time.as_nanos();
        if nanos == 0 {
            return None;
        }
        Some(Rate(saturating(bytes as u128 * 1_000_000_000 / nanos)))
    }
    /// Bytes per second.
    pub const fn bytes_per_sec(self) -> u64 {
        self.0
    }
    /// Bits per second, saturating.
    pub const fn bits_per_sec(self) -> u64 {
        self.0.saturating_mul(8)
    }
    /// Megabits (10^6) per second.
    pub fn mbit(self) -> f64 {
        self.0 as f64 * 8.0 / 1e6
    }
    /// How long `bytes` take at this rate; a very long time at rate zero.
    pub fn time_for(self, bytes: u64) -> Duration {
        if self.0 == 0 {
            return Duration::from_secs(u32::MAX as u64);
        }
        // Division of 128 bits is slow, and hardly ever needed.
        let nanos = match bytes.checked_mul(1_000_000_000) {
            Some(product) => product / self.0,
            None => saturating(bytes as u128 * 1_000_000_000 / self.0 as u128),
        };
        Duration::from_nanos(nanos)
    }
    /// How many bytes pass in `time`, saturating.
    pub fn bytes_in(self, time: Duration) -> u64 {
        let nanos = time.as_nanos();
        match u64::try_from(nanos).ok().and_then(|nanos| self.0.checked_mul(nanos)) {
            Some(product) => product / 1_000_000_000,
            None => saturating((self.0 as u128).saturating_mul(nanos) / 1_000_000_000),
        }
    }
    /// This rate times `gain`, saturating.
    pub fn scaled(self, gain: f64) -> Rate {
        Rate((self.0 as f64 * gain) as u64)
    }
    /// Sum, saturating.
    pub const fn saturating_add(self, other: Rate) -> Rate {
        Rate(self.0.saturating_add(other.0))
    }
}

fn saturating(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

impl FromStr for Rate {
    type Err = QuantityError;
    /// Reads `500kbit`, `6Mbit`, `1Gbit`, `6Mbit/s`, `9600bit`, as tc(8) does;
    /// also `6Mbps` as bits per second.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bits = quantity::parse(text, "6Mbit", |unit| {
            let unit = unit.to_ascii_lowercase();
            let unit = unit.strip_suffix("/s").unwrap_or(&unit);
            Some(match unit {
                "bit" | "bps" => 1.0,
                "kbit" | "kbps" | "k" => 1e3,
                "mbit" | "mbps" | "m" => 1e6,
                "gbit" | "gbps" | "g" => 1e9,
                _ => return None,
            })
        })?;
        Ok(Rate((bits / 8.0).round() as u64))
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = self.0 as f64 * 8.0;
        let (value, unit) = match bits {
            b if b >= 1e9 => (b / 1e9, "Gbit"),
            b if b >= 1e6 => (b / 1e6, "Mbit"),
            b if b >= 1e3 => (b / 1e3, "kbit"),
            b => (b, "bit"),
        };
        if (value - value.round()).abs() < 1e-9 {
            write!(f, "{}{unit}", value.round() as u64)
        } else {
            write!(f, "{value:.2}{unit}")
        }
    }
}
