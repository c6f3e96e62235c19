//! The 128-bit names of filesystems, arrays and subvolumes.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A UUID. Braid chooses the UUIDs of what it makes in advance, so that each step can recognise its
/// own work.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Uuid([u8; 16]);

/// A text that is no UUID.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no UUID: 32 hexadecimal digits, with dashes or colons between them if you like")]
pub struct UuidError(String);

impl Uuid {
    /// The UUID of these bytes, in the order in which they are written.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Uuid(bytes)
    }

    /// A random UUID (RFC 9562, version 4) of 16 random bytes.
    pub const fn from_random_bytes(mut bytes: [u8; 16]) -> Self {
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        Uuid(bytes)
    }

    /// Its bytes, in the order in which they are written.
    pub const fn bytes(self) -> [u8; 16] {
        self.0
    }

    /// As mdadm writes it: four words of eight digits with colons between.
    pub fn in_mdadm_form(self) -> String {
        let hex: String = self.0.iter().map(|byte| format!("{byte:02x}")).collect();
        [&hex[0..8], &hex[8..16], &hex[16..24], &hex[24..32]].join(":")
    }
}

impl FromStr for Uuid {
    type Err = UuidError;
    /// Reads the usual form with dashes and mdadm's with colons.
    fn from_str(text: &str) -> Result<Self, UuidError> {
        let wrong = || UuidError(text.chars().take(60).collect());
        let digits: Vec<char> = text.trim().chars().filter(|c| !matches!(c, '-' | ':')).collect();
        if digits.len() != 32 {
            return Err(wrong());
        }
        let mut bytes = [0; 16];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
            for digit in pair {
                let value = digit.to_digit(16).ok_or_else(wrong)?;
                *byte = *byte << 4 | value as u8;
            }
        }
        Ok(Uuid(bytes))
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, byte) in self.0.iter().enumerate() {
            if matches!(index, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<Uuid> for String {
    fn from(uuid: Uuid) -> String {
        uuid.to_string()
    }
}

impl TryFrom<String> for Uuid {
    type Error = UuidError;
    fn try_from(text: String) -> Result<Self, UuidError> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::Uuid;

    #[test]
    fn both_forms_are_read_and_written() {
        let uuid: Uuid = "3aaa0122:29827cfa:5331ad66:ca767371".parse().unwrap();
        assert_eq!(uuid.to_string(), "3aaa0122-2982-7cfa-5331-ad66ca767371");
        assert_eq!(uuid.in_mdadm_form(), "3aaa0122:29827cfa:5331ad66:ca767371");
        assert_eq!(uuid.to_string().parse(), Ok(uuid));
    }

    #[test]
    fn what_is_no_uuid_is_refused() {
        for text in ["", "12", "3aaa0122:29827cfa:5331ad66:ca76737g", "é".repeat(32).as_str()] {
            assert!(text.parse::<Uuid>().is_err(), "{text:?}");
        }
    }
}
