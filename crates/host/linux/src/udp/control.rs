//! Control messages: data that accompanies a datagram (cmsg(3)).

use super::{Family, UDP_GRO, UDP_SEGMENT};
use std::mem;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Room for an address, a traffic class and a segment size, with reserve.
const CAPACITY: usize = 128;

/// A buffer of control messages.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub(super) struct Control {
    bytes: [u8; CAPACITY],
    len: usize,
}

impl Control {
    pub(super) const CAPACITY: usize = CAPACITY;

    /// No messages.
    pub(super) const fn new() -> Control {
        Control { bytes: [0; CAPACITY], len: 0 }
    }

    pub(super) fn as_mut_ptr(&mut self) -> *mut libc::c_void {
        self.bytes.as_mut_ptr().cast()
    }

    /// Bytes written so far.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The address to send from.
    pub(super) fn push_source(&mut self, source: IpAddr) {
        match source {
            IpAddr::V4(source) => {
                // struct in_pktinfo: interface, source, (unused) destination.
                let mut info = [0; 12];
                info[4..8].copy_from_slice(&source.octets());
                self.push(libc::IPPROTO_IP, libc::IP_PKTINFO, &info);
            }
            IpAddr::V6(source) => {
                // struct in6_pktinfo: source, interface.
                let mut info = [0; 20];
                info[..16].copy_from_slice(&source.octets());
                self.push(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &info);
            }
        }
    }

    /// The TOS or traffic class byte.
    pub(super) fn push_traffic_class(&mut self, family: Family, class: u8) {
        let class = libc::c_int::from(class).to_ne_bytes();
        match family {
            Family::V4 => self.push(libc::IPPROTO_IP, libc::IP_TOS, &class),
            Family::V6 => self.push(libc::IPPROTO_IPV6, libc::IPV6_TCLASS, &class),
        }
    }

    /// The size at which the kernel splits the batch, bytes.
    pub(super) fn push_segment_size(&mut self, size: u16) {
        self.push(libc::SOL_UDP, UDP_SEGMENT, &size.to_ne_bytes());
    }

    fn push(&mut self, level: libc::c_int, kind: libc::c_int, payload: &[u8]) {
        let header = mem::size_of::<libc::cmsghdr>();
        let len = header + payload.len();
        let Some(room) = self.bytes.get_mut(self.len..self.len + align(len)) else { return };
        room.fill(0);
        // cmsg_len (a size_t), cmsg_level, cmsg_type.
        room[..header - 8][..mem::size_of::<usize>()].copy_from_slice(&len.to_ne_bytes());
        room[header - 8..header - 4].copy_from_slice(&level.to_ne_bytes());
        room[header - 4..header].copy_from_slice(&kind.to_ne_bytes());
        room[header..len].copy_from_slice(payload);
        self.len += align(len);
    }

    /// What the kernel wrote, `len` bytes of it.
    pub(super) fn received(&self, len: usize) -> Received {
        let mut found = Received::default();
        let header = mem::size_of::<libc::cmsghdr>();
        let mut rest = self.bytes.get(..len).unwrap_or_default();
        while let Some((level, kind, message_len)) = parse_header(rest) {
            let Some(payload) = rest.get(header..message_len) else { break };
            found.note(level, kind, payload);
            rest = rest.get(align(message_len)..).unwrap_or_default();
        }
        found
    }
}

/// Data received along with a datagram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Received {
    pub(super) local: Option<IpAddr>,
    pub(super) traffic_class: u8,
    /// Length of each datagram but the last of a coalesced batch.
    pub(super) stride: Option<usize>,
}

impl Received {
    fn note(&mut self, level: libc::c_int, kind: libc::c_int, payload: &[u8]) {
        match (level, kind) {
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                // ipi_spec_dst: the local address, also of a broadcast.
                let address = payload.get(4..8).and_then(|field| field.first_chunk::<4>());
                self.local = address.map(|octets| Ipv4Addr::from(*octets).into());
            }
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                let address = payload.first_chunk::<16>();
                self.local = address.map(|octets| Ipv6Addr::from(*octets).into());
            }
            // IPv4 gives one byte, IPv6 an int; small either way.
            (libc::IPPROTO_IP, libc::IP_TOS) | (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                self.traffic_class = match payload.first_chunk::<4>() {
                    Some(bytes) => i32::from_ne_bytes(*bytes) as u8,
                    None => payload.first().copied().unwrap_or(0),
                };
            }
            (libc::SOL_UDP, UDP_GRO) => {
                let size = payload.first_chunk::<4>().map(|bytes| i32::from_ne_bytes(*bytes));
                self.stride = size.and_then(|size| usize::try_from(size).ok()).filter(|&s| s > 0);
            }
            _ => {}
        }
    }
}

fn parse_header(bytes: &[u8]) -> Option<(libc::c_int, libc::c_int, usize)> {
    let header = mem::size_of::<libc::cmsghdr>();
    let len = usize::from_ne_bytes(*bytes.first_chunk()?);
    let level = i32::from_ne_bytes(*bytes.get(header - 8..)?.first_chunk()?);
    let kind = i32::from_ne_bytes(*bytes.get(header - 4..)?.first_chunk()?);
    (len >= header).then_some((level, kind, len))
}

/// `CMSG_ALIGN`: messages start where a long may.
fn align(len: usize) -> usize {
    len.next_multiple_of(mem::size_of::<usize>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_written_are_read_back() {
        for (family, source) in
            [(Family::V4, "192.0.2.1"), (Family::V6, "2001:db8::1")].map(|(f, s)| (f, s.parse()))
        {
            let mut control = Control::new();
            let source: IpAddr = source.unwrap();
            control.push_source(source);
            control.push_traffic_class(family, 0xb9);
            control.push(libc::SOL_UDP, UDP_GRO, &1400_i32.to_ne_bytes());
            let found = control.received(control.len());
            let expected =
                Received { local: Some(source), traffic_class: 0xb9, stride: Some(1400) };
            assert_eq!(found, expected);
        }
    }

    proptest::proptest! {
        #[test]
        fn garbage_is_skipped(bytes: [u8; 32], len in 0_usize..200) {
            let mut control = Control::new();
            control.bytes[..32].copy_from_slice(&bytes);
            control.received(len);
        }
    }
}
