//! What tells most packets' flows apart without reading their headers whole: that of a packet of
//! a flow that is known costs as much as comparing it.

use braid_inner::Layer;

/// Addresses, protocol and ports of a TCP or UDP packet without options, extension headers or
/// fragmentation. Packets of one glance are of one flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Glance {
    addresses: [u64; 4],
    rest: u64,
}

/// An Ethernet header without tags, bytes.
const ETHERNET: usize = 14;
/// EtherTypes (IEEE 802 numbers, IANA).
const IPV4: [u8; 2] = [0x08, 0x00];
const IPV6: [u8; 2] = [0x86, 0xdd];
/// Protocol numbers (IANA).
const TCP: u8 = 6;
const UDP: u8 = 17;
/// The first byte of an IPv4 header without options (RFC 791, section 3.1).
const V4_PLAIN: u8 = 0x45;

impl Glance {
    /// None of what has to be looked at more closely.
    #[inline]
    pub fn of(bytes: &[u8], layer: Layer) -> Option<Glance> {
        let packet = match layer {
            Layer::L3 => bytes,
            Layer::L2 if matches!(bytes.get(12..ETHERNET)?.try_into(), Ok(IPV4 | IPV6)) => {
                &bytes[ETHERNET..]
            }
            Layer::L2 => return None,
        };
        match *packet.first()? {
            V4_PLAIN => Self::of_v4(packet.first_chunk()?),
            first if first >> 4 == 6 => Self::of_v6(packet.first_chunk()?),
            _ => None,
        }
    }

    /// Header and ports.
    fn of_v4(packet: &[u8; 24]) -> Option<Glance> {
        // More fragments, or an offset: RFC 791, section 3.1.
        let is_fragment = packet[6] & 0x3f != 0 || packet[7] != 0;
        let protocol = packet[9];
        if is_fragment || !matches!(protocol, TCP | UDP) {
            return None;
        }
        let addresses = [word(packet, 12), 0, 0, 0];
        Some(Glance { addresses, rest: rest(4, protocol, ports(packet, 20)) })
    }

    fn of_v6(packet: &[u8; 44]) -> Option<Glance> {
        let protocol = packet[6];
        if !matches!(protocol, TCP | UDP) {
            return None;
        }
        let addresses = [8, 16, 24, 32].map(|at| word(packet, at));
        Some(Glance { addresses, rest: rest(6, protocol, ports(packet, 40)) })
    }
}

fn rest(version: u8, protocol: u8, ports: u32) -> u64 {
    u64::from(version) << 40 | u64::from(protocol) << 32 | u64::from(ports)
}

#[inline]
fn word<const N: usize>(packet: &[u8; N], at: usize) -> u64 {
    u64::from_ne_bytes(std::array::from_fn(|i| packet[at + i]))
}

#[inline]
fn ports<const N: usize>(packet: &[u8; N], at: usize) -> u32 {
    u32::from_ne_bytes(std::array::from_fn(|i| packet[at + i]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// IPv4, of UDP, from port 1 to port 2.
    fn v4() -> Vec<u8> {
        let mut bytes = vec![0x45, 0, 0, 28, 0, 0, 0x40, 0, 64, UDP, 0, 0];
        bytes.extend([10, 0, 0, 1, 10, 0, 0, 2, 0, 1, 0, 2, 0, 8, 0, 0]);
        bytes
    }

    fn v6() -> Vec<u8> {
        let mut bytes = vec![0x60, 0, 0, 0, 0, 8, UDP, 64];
        bytes.extend([0x20; 16]);
        bytes.extend([0x30; 16]);
        bytes.extend([0, 1, 0, 2, 0, 8, 0, 0]);
        bytes
    }

    fn framed(ethertype: [u8; 2], packet: Vec<u8>) -> Vec<u8> {
        let mut bytes = vec![2; 12];
        bytes.extend(ethertype);
        bytes.extend(packet);
        bytes
    }

    fn changed(mut bytes: Vec<u8>, at: usize, to: u8) -> Option<Glance> {
        bytes[at] = to;
        Glance::of(&bytes, Layer::L3)
    }

    #[test]
    fn whatever_tells_flows_apart_is_seen() {
        for (bytes, fields, protocol) in [
            (v4(), [12, 15, 16, 19, 20, 21, 22, 23].as_slice(), 9),
            (v6(), &[8, 16, 23, 24, 31, 39, 40, 43], 6),
        ] {
            let glance = Glance::of(&bytes, Layer::L3);
            assert!(glance.is_some());
            for at in fields {
                assert_ne!(changed(bytes.clone(), *at, 0x99), glance, "{at}");
            }
            let tcp = changed(bytes.clone(), protocol, TCP);
            assert!(tcp.is_some() && tcp != glance);
            assert_eq!(changed(bytes.clone(), protocol, 1), None, "ICMP has no ports");
        }
        assert_eq!(changed(v4(), 8, 3), Glance::of(&v4(), Layer::L3), "how far it came");
    }

    #[test]
    fn what_is_not_plain_or_not_whole_is_looked_at_more_closely() {
        for (at, to) in [(0, 0x46), (6, 0x20), (6, 0x01), (7, 1), (0, 0x55)] {
            assert_eq!(changed(v4(), at, to), None, "{at}");
        }
        for bytes in [v4(), v6()] {
            let least = if bytes[0] == 0x45 { 24 } else { 44 };
            for len in 0..least {
                assert_eq!(Glance::of(&bytes[..len], Layer::L3), None);
            }
        }
        let of_frame = |ethertype, packet| Glance::of(&framed(ethertype, packet), Layer::L2);
        assert_eq!(of_frame(IPV4, v4()), Glance::of(&v4(), Layer::L3));
        assert_eq!(of_frame(IPV6, v6()), Glance::of(&v6(), Layer::L3));
        assert_eq!(of_frame([0x08, 0x06], v4()), None);
        assert_eq!(of_frame(IPV4, Vec::new()), None);
        assert_eq!(Glance::of(&[0; 5], Layer::L2), None);
    }
}
