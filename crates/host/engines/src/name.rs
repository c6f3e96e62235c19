//! Names that are safe in every tool's language.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A network device's name: 1 to 15 letters, digits, `.`, `_`, `-`, `@` or `+` (stricter than the
/// kernel, so that it is safe in every tool's syntax).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Device(String);

/// A name that no device of ours can have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} can't be a device here; use 1 to 15 letters, digits, '.', '_', '-', '@' or '+'")]
pub struct DeviceError(String);

/// An Ethernet address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct MacAddress([u8; 6]);

/// A text that isn't an Ethernet address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no Ethernet address; write it as \"52:54:00:12:34:56\"")]
pub struct MacAddressError(String);

impl Device {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// A device that belongs to this one: its name, truncated to make room for `suffix`, so that
    /// the result is always valid.
    pub(crate) fn with_suffix(&self, suffix: &str) -> Device {
        let suffix: String = suffix.chars().take(14).collect();
        let room = 15 - suffix.len();
        // A device's name is ASCII.
        Device(format!("{}{suffix}", &self.0[..self.0.len().min(room)]))
    }
}

impl FromStr for Device {
    type Err = DeviceError;
    fn from_str(name: &str) -> Result<Device, DeviceError> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || "._-@+".contains(c);
        let plain = (1..=15).contains(&name.len()) && name.chars().all(allowed);
        if !plain || name == "." || name == ".." || name.starts_with('-') {
            return Err(DeviceError(name.chars().take(40).collect()));
        }
        Ok(Device(name.to_owned()))
    }
}

impl TryFrom<String> for Device {
    type Error = DeviceError;
    fn try_from(name: String) -> Result<Device, DeviceError> {
        name.parse()
    }
}

impl From<Device> for String {
    fn from(device: Device) -> String {
        device.0
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl MacAddress {
    /// Its octets, in transmission order.
    pub fn octets(self) -> [u8; 6] {
        self.0
    }
}

impl FromStr for MacAddress {
    type Err = MacAddressError;
    fn from_str(text: &str) -> Result<MacAddress, MacAddressError> {
        let error = || MacAddressError(text.chars().take(40).collect());
        let octets: Vec<u8> = text
            .split(':')
            .map(|part| match part.len() {
                2 => u8::from_str_radix(part, 16).map_err(|_| error()),
                _ => Err(error()),
            })
            .collect::<Result<_, _>>()?;
        Ok(MacAddress(octets.try_into().map_err(|_| error())?))
    }
}

impl TryFrom<String> for MacAddress {
    type Error = MacAddressError;
    fn try_from(text: String) -> Result<MacAddress, MacAddressError> {
        text.parse()
    }
}

impl From<MacAddress> for String {
    fn from(address: MacAddress) -> String {
        address.to_string()
    }
}

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_a_shell_would_read_are_refused() {
        for good in ["eth0", "enp3s0.100", "wg-home", "veth0@if2"] {
            assert_eq!(good.parse::<Device>().unwrap().as_str(), good);
        }
        for bad in ["", "a b", "$(reboot)", "x;y", "-x", "..", "sixteen-letters-", "a\"b", "a/b"] {
            assert!(bad.parse::<Device>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_suffix_always_fits() {
        let device: Device = "fifteen-letters".parse().unwrap();
        assert_eq!(device.with_suffix("-g12").as_str(), "fifteen-let-g12");
        let short: Device = "b".parse().unwrap();
        assert_eq!(short.with_suffix("-w1").as_str(), "b-w1");
    }

    #[test]
    fn ethernet_addresses_are_read_and_written_back() {
        let mac: MacAddress =
            "52:54:00:AB:0c:1".parse::<MacAddress>().unwrap_or(MacAddress([0; 6]));
        assert_eq!(mac, MacAddress([0; 6]), "one digit is too few");
        let mac: MacAddress = "52:54:00:AB:0c:01".parse().unwrap();
        assert_eq!(mac.to_string(), "52:54:00:ab:0c:01");
        assert!("52:54:00:ab:0c".parse::<MacAddress>().is_err());
    }
}
