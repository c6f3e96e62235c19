//! Explicit congestion notification in the inner packet (RFC 3168).

use crate::checksum::{put16, update};
use crate::headers::{Headers, IpVersion, Layer, be16};

/// The ECN field of an IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ecn {
    /// The sender does not know ECN: only loss tells it.
    NotEct,
    /// ECT(1): a scalable sender (L4S, RFC 9331).
    Ect1,
    /// ECT(0).
    Ect0,
    /// Congestion was met.
    Ce,
}

/// The ECN field of a packet; `None` when it isn't IP.
pub fn ecn(bytes: &[u8], layer: Layer) -> Option<Ecn> {
    let ip = Headers::parse(bytes, layer).ip?;
    Some(match ip.traffic_class & 3 {
        0 => Ecn::NotEct,
        1 => Ecn::Ect1,
        2 => Ecn::Ect0,
        _ => Ecn::Ce,
    })
}

/// Marks a packet of an ECN-capable sender, in a super-packet all segments.
/// `false` when the packet can't be marked: the queue must drop instead.
pub fn set_ce(bytes: &mut [u8], layer: Layer) -> bool {
    let Some(ip) = Headers::parse(bytes, layer).ip else { return false };
    if ip.traffic_class & 3 == 0 {
        return false;
    }
    let Some(header) = bytes.get_mut(ip.start..) else { return false };
    let Some(word) = be16(header, 0) else { return false };
    match ip.version {
        IpVersion::V4 => {
            let marked = word | 3;
            let Some(checksum) = be16(header, 10) else { return false };
            put16(header, 10, update(checksum, word, marked));
            put16(header, 0, marked);
        }
        IpVersion::V6 => {
            put16(header, 0, word | 0x30);
        }
    }
    true
}
