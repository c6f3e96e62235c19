//! A WireGuard device's keys: read from their file when it is made, so that no
//! journal has them.

use crate::netlink::Generic;
use braid_engines::{Device, DeviceKind, Feature};
use std::io;

/// Gives the device its keys, port and peer.
pub(super) fn configure(device: &Device, kind: &DeviceKind) -> io::Result<()> {
    let DeviceKind::WireGuard { private_key_file, port, peer_public_key, endpoint, mark } = kind
    else {
        return Ok(());
    };
    let text = std::fs::read_to_string(private_key_file).map_err(|error| {
        io::Error::new(error.kind(), format!("{}: {error}", private_key_file.display()))
    })?;
    let bad = |what: &str| {
        io::Error::new(io::ErrorKind::InvalidInput, format!("{what} is none of WireGuard's"))
    };
    let private = key(text.trim())
        .ok_or_else(|| bad(&format!("the key in {}", private_key_file.display())))?;
    let peer = key(peer_public_key).ok_or_else(|| bad("the peer's public key"))?;
    let mut wireguard = Generic::wireguard()
        .map_err(|_| io::Error::new(io::ErrorKind::Unsupported, Feature::WireGuard.how_to_get()))?;
    wireguard.set_wireguard(device.as_str(), &private, *port, *mark, &peer, *endpoint)
}

/// 32 bytes written in base64 (RFC 4648, section 4).
fn key(text: &str) -> Option<[u8; 32]> {
    let body = text.strip_suffix('=').filter(|body| body.len() == 43)?;
    let mut bytes = Vec::with_capacity(33);
    let (mut bits, mut held) = (0_u32, 0);
    for character in body.bytes() {
        let value = match character {
            b'A'..=b'Z' => character - b'A',
            b'a'..=b'z' => character - b'a' + 26,
            b'0'..=b'9' => character - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = (bits << 6 | u32::from(value)) & 0xffff;
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held) as u8);
        }
    }
    bytes.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_and_other_text_is_refused() {
        assert_eq!(key("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="), Some([0; 32]));
        let key_one = key("AQIDAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAP8=").unwrap();
        assert_eq!((key_one[..3].to_vec(), key_one[31]), (vec![1, 2, 3], 255));
        for bad in ["", "AAAA=", "!AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="] {
            assert_eq!(key(bad), None, "{bad}");
        }
    }
}
