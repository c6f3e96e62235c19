use crate::quantity::{self, QuantityError};
use std::fmt;
use std::str::FromStr;

/// A count of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteSize(u64);

impl ByteSize {
    /// A size of `bytes` bytes.
    pub const fn from_bytes(bytes: u64) -> Self {
        ByteSize(bytes)
    }
    /// The number of bytes.
    pub const fn bytes(self) -> u64 {
        self.0
    }
}

impl FromStr for ByteSize {
    type Err = QuantityError;
    /// Reads `200KB` (10^3), `64KiB` (2^10), `1500B`, up to TB and TiB.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bytes = quantity::parse(text, "200KB", |unit| {
            Some(match unit.to_ascii_lowercase().as_str() {
                "b" => 1.0,
                "k" | "kb" => 1e3,
                "m" | "mb" => 1e6,
                "g" | "gb" => 1e9,
                "t" | "tb" => 1e12,
                "kib" => 1024.0,
                "mib" => 1024.0 * 1024.0,
                "gib" => 1024.0 * 1024.0 * 1024.0,
                "tib" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
                _ => return None,
            })
        })?;
        Ok(ByteSize(bytes.round() as u64))
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let b = self.0 as f64;
        let (value, unit) = match b {
            b if b >= 1e12 => (b / 1e12, "TB"),
            b if b >= 1e9 => (b / 1e9, "GB"),
            b if b >= 1e6 => (b / 1e6, "MB"),
            b if b >= 1e3 => (b / 1e3, "KB"),
            b => (b, "B"),
        };
        if (value - value.round()).abs() < 1e-9 {
            write!(f, "{}{unit}", value.round() as u64)
        } else {
            write!(f, "{value:.2}{unit}")
        }
    }
}
