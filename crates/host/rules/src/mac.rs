use std::fmt;
use std::str::FromStr;

/// A device's hardware address, of Ethernet or Wi-Fi.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Mac([u8; 6]);

/// A text that is no hardware address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotAMac;

impl FromStr for Mac {
    type Err = NotAMac;
    fn from_str(text: &str) -> Result<Self, NotAMac> {
        let mut bytes = [0; 6];
        let mut parts = text.split([':', '-']);
        for byte in &mut bytes {
            let digits =
                |part: &&str| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_hexdigit());
            let part = parts.next().filter(digits).ok_or(NotAMac)?;
            *byte = u8::from_str_radix(part, 16).map_err(|_| NotAMac)?;
        }
        parts.next().is_none().then_some(Mac(bytes)).ok_or(NotAMac)
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_people_write_them() {
        let read = |text: &str| text.parse::<Mac>().map(|mac| mac.to_string());
        assert_eq!(read("AA:bb:cc:00:01:ff"), Ok("aa:bb:cc:00:01:ff".into()));
        assert_eq!(read("aa-bb-cc-00-01-ff"), Ok("aa:bb:cc:00:01:ff".into()));
        for wrong in ["", "aa:bb:cc:00:01", "aa:bb:cc:00:01:ff:02", "aa:bb:cc:00:01:+f", "a:b"] {
            assert_eq!(read(wrong), Err(NotAMac), "{wrong}");
        }
    }
}
