//! A WireGuard device's keys, read from their file when it is created, so that they don't get into
//! a journal.

use crate::netlink::Generic;
use base64ct::{Base64, Encoding};
use braid_engines::{Device, DeviceKind, Feature};
use std::io;

/// Sets the device's keys, port and peer.
pub(super) fn configure(device: &Device, kind: &DeviceKind) -> io::Result<()> {
    let DeviceKind::WireGuard { private_key_file, port, peer_public_key, endpoint, mark } = kind
    else {
        return Ok(());
    };
    let text = std::fs::read_to_string(private_key_file).map_err(|error| {
        io::Error::new(error.kind(), format!("{}: {error}", private_key_file.display()))
    })?;
    let bad = |what: &str| {
        io::Error::new(io::ErrorKind::InvalidInput, format!("{what} is not a WireGuard key"))
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
    let mut bytes = [0; 32];
    (Base64::decode(text, &mut bytes).ok()?.len() == bytes.len()).then_some(bytes)
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
