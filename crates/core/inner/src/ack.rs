//! Acknowledgements of TCP that carry nothing else.

use crate::headers::{Fragment, Headers, be16, be32, protocol};

/// What a TCP packet without payload acknowledges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PureAck {
    /// The next byte that is expected, a sequence number.
    pub number: u32,
    /// Bytes of the TCP header.
    header_len: u8,
    /// The byte of DSCP and ECN.
    traffic_class: u8,
}

const ACK: u16 = 0x10;
/// The flags, and the reserved bits with RFC 7560's (AccECN) among them.
const FLAGS: u16 = 0x0fff;
const OPTION_END: u8 = 0;
const OPTION_PADDING: u8 = 1;
const OPTION_TIMESTAMPS: u8 = 8;

impl PureAck {
    /// Reads a packet that is nothing but a cumulative acknowledgement: no
    /// payload, no flag but ACK, no option but timestamps. `None` for anything
    /// else; above all for one that tells of holes (SACK) or of congestion (ECE).
    pub fn read(bytes: &[u8], headers: &Headers) -> Option<PureAck> {
        let ip = headers.ip.as_ref().filter(|ip| ip.fragment == Fragment::Whole)?;
        if ip.protocol != protocol::TCP || headers.payload_start(bytes)? != ip.end {
            return None;
        }
        let field = be16(bytes, ip.transport + 12)?;
        if field & FLAGS != ACK || !plain_options(bytes.get(ip.transport + 20..ip.end)?) {
            return None;
        }
        Some(PureAck {
            number: be32(bytes, ip.transport + 8)?,
            header_len: (field >> 12) as u8 * 4,
            traffic_class: ip.traffic_class,
        })
    }

    /// Says all that `older`, of the same connection, says, and more.
    pub fn supersedes(&self, older: &PureAck) -> bool {
        let ahead = self.number.wrapping_sub(older.number);
        (1..1 << 31).contains(&ahead)
            && self.header_len == older.header_len
            && self.traffic_class == older.traffic_class
    }
}

/// Timestamps and padding only.
fn plain_options(mut options: &[u8]) -> bool {
    while let [kind, rest @ ..] = options {
        options = match (*kind, rest) {
            (OPTION_END, _) => return true,
            (OPTION_PADDING, rest) => rest,
            (OPTION_TIMESTAMPS, [10, rest @ ..]) if rest.len() >= 8 => &rest[8..],
            _ => return false,
        };
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Layer;

    /// IPv4 and TCP without payload.
    fn packet(number: u32, flags: u8, options: &[u8]) -> Vec<u8> {
        assert_eq!(options.len() % 4, 0);
        let len = 40 + options.len();
        let mut bytes = vec![0x45, 0, 0, len as u8, 0, 0, 0x40, 0, 64, 6, 0, 0];
        bytes.extend([10, 0, 0, 1, 10, 0, 0, 2]);
        bytes.extend([0x12, 0x34, 0x00, 0x50, 0, 0, 0, 1]);
        bytes.extend(number.to_be_bytes());
        bytes.extend([((20 + options.len()) / 4 * 16) as u8, flags, 1, 0, 0, 0, 0, 0]);
        bytes.extend(options);
        bytes
    }

    fn read(bytes: &[u8]) -> Option<PureAck> {
        PureAck::read(bytes, &Headers::parse(bytes, Layer::L3))
    }

    #[test]
    fn a_later_acknowledgement_replaces_an_earlier_one() {
        let stamps = [1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2];
        let first = read(&packet(0xffff_ff00, 0x10, &stamps)).unwrap();
        let second = read(&packet(0x100, 0x10, &stamps)).unwrap();
        assert!(second.supersedes(&first));
        assert!(!first.supersedes(&second));
        // The same again asks for a retransmission, or opens the window.
        assert!(!first.supersedes(&first));
        let bare = read(&packet(0x200, 0x10, &[])).unwrap();
        assert!(!bare.supersedes(&second));
    }

    #[test]
    fn what_tells_more_is_none() {
        let sack = [1, 1, 5, 10, 0, 0, 0, 1, 0, 0, 0, 2];
        assert_eq!(read(&packet(1, 0x10, &sack)), None);
        // FIN, SYN, RST, PSH, URG, ECE, CWR.
        for flag in [0x01, 0x02, 0x04, 0x08, 0x20, 0x40, 0x80] {
            assert_eq!(read(&packet(1, 0x10 | flag, &[])), None);
        }
        assert_eq!(read(&packet(1, 0, &[])), None);
        let mut data = packet(1, 0x10, &[]);
        data.push(7);
        data[3] += 1;
        assert_eq!(read(&data), None);
        // An option that claims more bytes than there are.
        assert_eq!(read(&packet(1, 0x10, &[8, 10, 0, 0])), None);
        for len in 0..40 {
            assert_eq!(read(&packet(1, 0x10, &[])[..len]), None);
        }
    }
}
