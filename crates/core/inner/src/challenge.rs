//! A segment that has whoever has a TCP connection say where it stands.

use crate::checksum::{complete_at, pseudo_header, seal_ipv4};
use crate::headers::protocol;
use crate::packet::{InnerPacket, Offload};
use std::net::{IpAddr, SocketAddr};

const TCP_HEADER: usize = 20;
const HOP_LIMIT: u8 = 64;
const DONT_FRAGMENT: u16 = 0x4000;
const SYN: u8 = 0x02;
const ACK: u8 = 0x10;

/// Which end of a connection a [`challenge`] seems to come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Who began it.
    Caller,
    /// Who was called.
    Called,
}

/// A segment without a meaning for the connection, to `to`, as if `from` had sent it: a SYN that
/// comes too late, or its answer. Who has the connection changes nothing and sends an
/// acknowledgement to `from` (RFC 9293 section 3.10.7.4, RFC 5961 section 4). Who keeps track of
/// connections on the way lets it pass, whatever the numbers of the bytes are (Linux ignores
/// both, each from its own end). `None` for two IP versions.
pub fn challenge(from: SocketAddr, to: SocketAddr, end: End) -> Option<InnerPacket> {
    let mut bytes = header(from.ip(), to.ip())?;
    let start = bytes.len();
    bytes.extend(from.port().to_be_bytes());
    bytes.extend(to.port().to_be_bytes());
    // Number and acknowledged number, for which no connection waits but by chance.
    bytes.extend([0; 8]);
    let flags = match end {
        End::Caller => SYN,
        End::Called => SYN | ACK,
    };
    bytes.extend([(TCP_HEADER as u8 / 4) << 4, flags, 0, 0]);
    let pseudo = pseudo_header(from.ip(), to.ip(), protocol::TCP, TCP_HEADER);
    bytes.extend(pseudo.to_be_bytes());
    // Urgent pointer.
    bytes.extend([0; 2]);
    complete_at(&mut bytes, start, 16).ok()?;
    Some(InnerPacket { bytes, offload: Offload::default() })
}

fn header(from: IpAddr, to: IpAddr) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(60);
    match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            bytes.extend([0x45, 0]);
            bytes.extend((20 + TCP_HEADER as u16).to_be_bytes());
            bytes.extend([0; 2]);
            bytes.extend(DONT_FRAGMENT.to_be_bytes());
            bytes.extend([HOP_LIMIT, protocol::TCP, 0, 0]);
            bytes.extend(from.octets());
            bytes.extend(to.octets());
            seal_ipv4(&mut bytes);
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            bytes.extend([0x60, 0, 0, 0]);
            bytes.extend((TCP_HEADER as u16).to_be_bytes());
            bytes.extend([protocol::TCP, HOP_LIMIT]);
            bytes.extend(from.octets());
            bytes.extend(to.octets());
        }
        _ => return None,
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::{sum, verify};
    use crate::{Headers, Layer, check};

    #[test]
    fn it_is_a_right_packet_between_both_ends() {
        for (from, to) in
            [("192.0.2.1:443", "10.77.0.2:4000"), ("[2001:db8::1]:443", "[fd77::2]:4000")]
        {
            let (from, to): (SocketAddr, SocketAddr) = (from.parse().unwrap(), to.parse().unwrap());
            for end in [End::Caller, End::Called] {
                let packet = challenge(from, to, end).unwrap();
                assert_eq!(verify(&packet.bytes, Layer::L3), Some(true));
                let ip = Headers::parse(&packet.bytes, Layer::L3).ip.unwrap();
                assert_eq!((ip.src, ip.dst, ip.end), (from.ip(), to.ip(), packet.bytes.len()));
                if from.is_ipv4() {
                    assert_eq!(sum(&packet.bytes[..20]), 0xffff);
                }
                assert!(check(&packet.bytes, packet.offload, Layer::L3).is_ok());
            }
        }
        assert_eq!(
            challenge("[::1]:1".parse().unwrap(), "10.0.0.1:2".parse().unwrap(), End::Caller),
            None
        );
    }
}
