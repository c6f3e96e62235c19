//! Packets made by hand, byte after byte and independent of the crate: the
//! models that it is held against.

use braid_inner::{
    Checksum, InnerPacket, Layer, Offload, Segmentation, SegmentationKind, Ticks, join,
};
use proptest::prelude::*;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::num::NonZeroU16;

pub const FIN: u8 = 0x01;
pub const SYN: u8 = 0x02;
pub const RST: u8 = 0x04;
pub const PSH: u8 = 0x08;
pub const ACK: u8 = 0x10;
pub const ECE: u8 = 0x40;
pub const CWR: u8 = 0x80;

/// Everything about one TCP or UDP packet.
#[derive(Clone, Debug)]
pub struct Spec {
    /// Ethernet with these VLAN tags, or bare IP.
    pub tags: Option<Vec<(u16, u16)>>,
    pub v6: bool,
    /// Option or extension header bytes between IP and transport: a multiple
    /// of 4 of IPv4 NOPs, or of 8 of a destination options header.
    pub between: usize,
    pub tos: u8,
    pub id: u16,
    pub df: bool,
    pub src: u8,
    pub dst: u8,
    pub sport: u16,
    pub dport: u16,
    pub transport: Transport,
    pub payload: Vec<u8>,
}

#[derive(Clone, Debug)]
pub enum Transport {
    Udp,
    Tcp { seq: u32, ack: u32, flags: u8, options: Vec<u8> },
}

impl Spec {
    pub fn udp(payload: Vec<u8>) -> Spec {
        Spec {
            tags: None,
            v6: false,
            between: 0,
            tos: 0,
            id: 0x1234,
            df: false,
            src: 1,
            dst: 2,
            sport: 40000,
            dport: 40001,
            transport: Transport::Udp,
            payload,
        }
    }

    pub fn tcp(flags: u8, payload: Vec<u8>) -> Spec {
        Spec {
            transport: Transport::Tcp { seq: 1000, ack: 2000, flags, options: vec![] },
            ..Spec::udp(payload)
        }
    }

    pub fn v6(mut self) -> Spec {
        self.v6 = true;
        self
    }

    pub fn layer(&self) -> Layer {
        if self.tags.is_some() { Layer::L2 } else { Layer::L3 }
    }

    pub fn kind(&self) -> SegmentationKind {
        match (&self.transport, self.v6) {
            (Transport::Udp, _) => SegmentationKind::Udp,
            (Transport::Tcp { .. }, false) => SegmentationKind::TcpV4,
            (Transport::Tcp { .. }, true) => SegmentationKind::TcpV6,
        }
    }

    pub fn ip_start(&self) -> usize {
        self.tags.as_ref().map_or(0, |tags| 14 + 4 * tags.len())
    }

    pub fn transport_start(&self) -> usize {
        self.ip_start() + if self.v6 { 40 } else { 20 } + self.between
    }

    pub fn transport_header_len(&self) -> usize {
        match &self.transport {
            Transport::Udp => 8,
            Transport::Tcp { options, .. } => 20 + options.len(),
        }
    }

    pub fn checksum_offset(&self) -> usize {
        if matches!(self.transport, Transport::Udp) { 6 } else { 16 }
    }

    /// The packet with all checksums.
    pub fn bytes(&self) -> Vec<u8> {
        let (mut bytes, pseudo) = self.without_checksum();
        let start = self.transport_start();
        let mut summed = pseudo;
        summed.extend_from_slice(&bytes[start..]);
        let checksum = match naive_checksum(&summed) {
            0 => 0xffff,
            checksum => checksum,
        };
        let at = start + self.checksum_offset();
        bytes[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
        bytes
    }

    /// The packet whose checksum field holds the pseudo-header's sum.
    pub fn partial_bytes(&self) -> Vec<u8> {
        let (mut bytes, pseudo) = self.without_checksum();
        let at = self.transport_start() + self.checksum_offset();
        bytes[at..at + 2].copy_from_slice(&(!naive_checksum(&pseudo)).to_be_bytes());
        bytes
    }

    pub fn partial(&self) -> Checksum {
        Checksum::Partial {
            start: self.transport_start() as u16,
            offset: self.checksum_offset() as u16,
        }
    }

    pub fn packet(&self) -> InnerPacket {
        InnerPacket { bytes: self.bytes(), offload: Offload::default() }
    }

    pub fn super_packet(&self, segment_size: u16) -> InnerPacket {
        let cwr = matches!(self.transport, Transport::Tcp { flags, .. } if flags & CWR != 0);
        InnerPacket {
            bytes: self.partial_bytes(),
            offload: Offload {
                checksum: self.partial(),
                segmentation: Some(Segmentation {
                    kind: self.kind(),
                    ecn: cwr,
                    header_len: (self.transport_start() + self.transport_header_len()) as u16,
                    segment_size: NonZeroU16::new(segment_size).unwrap(),
                    ticks: Ticks::NONE,
                }),
            },
        }
    }

    /// What the sender's kernel would have sent without segmentation offload.
    pub fn segments(&self, segment_size: u16) -> Vec<Spec> {
        let size = usize::from(segment_size);
        let count = self.payload.chunks(size).count();
        let segment = |(index, payload): (usize, &[u8])| {
            let mut segment = self.clone();
            segment.payload = payload.to_vec();
            segment.id = self.id.wrapping_add(index as u16);
            if let Transport::Tcp { seq, flags, .. } = &mut segment.transport {
                *seq = seq.wrapping_add((index * size) as u32);
                if index + 1 < count {
                    *flags &= !(FIN | PSH);
                }
                if index > 0 {
                    *flags &= !CWR;
                }
            }
            segment
        };
        self.payload.chunks(size).enumerate().map(segment).collect()
    }

    fn without_checksum(&self) -> (Vec<u8>, Vec<u8>) {
        let transport = self.transport_bytes();
        let protocol = if matches!(self.transport, Transport::Udp) { 17 } else { 6 };
        let mut bytes = Vec::new();
        if let Some(tags) = &self.tags {
            bytes.extend_from_slice(&[2, 0, 0, 0, 0, self.dst, 2, 0, 0, 0, 0, self.src]);
            for (ethertype, id) in tags {
                bytes.extend_from_slice(&ethertype.to_be_bytes());
                bytes.extend_from_slice(&id.to_be_bytes());
            }
            bytes.extend_from_slice(if self.v6 { &[0x86, 0xdd] } else { &[0x08, 0x00] });
        }
        let mut pseudo = Vec::new();
        if self.v6 {
            let src: Ipv6Addr = format!("fd00::{:x}", self.src).parse().unwrap();
            let dst: Ipv6Addr = format!("fd00::{:x}", self.dst).parse().unwrap();
            bytes.extend_from_slice(&[0x60 | self.tos >> 4, self.tos << 4, 0, 0]);
            let len = (self.between + transport.len()) as u16;
            bytes.extend_from_slice(&len.to_be_bytes());
            bytes.extend_from_slice(&[if self.between > 0 { 60 } else { protocol }, 64]);
            bytes.extend_from_slice(&src.octets());
            bytes.extend_from_slice(&dst.octets());
            if self.between > 0 {
                let fill = (self.between - 4) as u8;
                bytes.extend_from_slice(&[protocol, (self.between / 8 - 1) as u8, 1, fill]);
                bytes.resize(bytes.len() + usize::from(fill), 0);
            }
            pseudo.extend_from_slice(&src.octets());
            pseudo.extend_from_slice(&dst.octets());
        } else {
            let src = Ipv4Addr::new(10, 9, 0, self.src);
            let dst = Ipv4Addr::new(10, 9, 0, self.dst);
            let at = bytes.len();
            bytes.extend_from_slice(&[0x45 + (self.between / 4) as u8, self.tos]);
            let len = (20 + self.between + transport.len()) as u16;
            bytes.extend_from_slice(&len.to_be_bytes());
            bytes.extend_from_slice(&self.id.to_be_bytes());
            bytes.extend_from_slice(&[if self.df { 0x40 } else { 0 }, 0, 64, protocol, 0, 0]);
            bytes.extend_from_slice(&src.octets());
            bytes.extend_from_slice(&dst.octets());
            bytes.resize(bytes.len() + self.between, 1);
            let checksum = naive_checksum(&bytes[at..]);
            bytes[at + 10..at + 12].copy_from_slice(&checksum.to_be_bytes());
            pseudo.extend_from_slice(&src.octets());
            pseudo.extend_from_slice(&dst.octets());
        }
        pseudo.extend_from_slice(&(transport.len() as u32).to_be_bytes());
        pseudo.extend_from_slice(&[0, 0, 0, protocol]);
        bytes.extend_from_slice(&transport);
        (bytes, pseudo)
    }

    fn transport_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend_from_slice(&self.sport.to_be_bytes());
        bytes.extend_from_slice(&self.dport.to_be_bytes());
        match &self.transport {
            Transport::Udp => {
                bytes.extend_from_slice(&((8 + self.payload.len()) as u16).to_be_bytes());
                bytes.extend_from_slice(&[0, 0]);
            }
            Transport::Tcp { seq, ack, flags, options } => {
                bytes.extend_from_slice(&seq.to_be_bytes());
                bytes.extend_from_slice(&ack.to_be_bytes());
                bytes.extend_from_slice(&[((20 + options.len()) * 4) as u8, *flags]);
                bytes.extend_from_slice(&[0x20, 0, 0, 0, 0, 0]);
                bytes.extend_from_slice(options);
            }
        }
        bytes.extend_from_slice(&self.payload);
        bytes
    }
}

/// RFC 1071 as it reads: 16-bit words, added modulo 65535.
pub fn naive_checksum(bytes: &[u8]) -> u16 {
    let mut sum: u32 = 0;
    for (index, &byte) in bytes.iter().enumerate() {
        sum += u32::from(byte) << if index % 2 == 0 { 8 } else { 0 };
        sum = sum % 0x10000 + sum / 0x10000;
    }
    !(sum as u16)
}

/// Any TCP or UDP packet with `payload` bytes of payload, of which fields that
/// segmentation must carry along are arbitrary.
pub fn any_spec(payload: std::ops::Range<usize>) -> impl Strategy<Value = Spec> {
    let tags = prop_oneof![
        3 => Just(None),
        1 => Just(Some(vec![])),
        1 => (0..4096u16).prop_map(|id| Some(vec![(0x8100, id)])),
        1 => (0..4096u16).prop_map(|id| Some(vec![(0x88a8, id), (0x8100, 7)])),
    ];
    let transport = prop_oneof![
        1 => Just(Transport::Udp),
        2 => (any::<u32>(), any::<u32>(), any::<u8>(), 0..=10usize).prop_map(
            |(seq, ack, flags, words)| Transport::Tcp {
                seq,
                ack,
                flags: flags & (FIN | PSH | ECE | CWR) | ACK,
                options: vec![1; words * 4],
            }
        ),
    ];
    let ip = (any::<bool>(), 0..=4usize, any::<u8>(), any::<u16>(), any::<bool>());
    let ends = (any::<u8>(), any::<u8>(), any::<u16>(), any::<u16>());
    let payload = proptest::collection::vec(any::<u8>(), payload);
    (tags, ip, ends, transport, payload).prop_map(
        |(tags, (v6, between, tos, id, df), (src, dst, sport, dport), transport, payload)| Spec {
            tags,
            v6,
            between: between * if v6 { 8 } else { 4 },
            tos,
            id,
            df,
            src,
            dst,
            sport,
            dport,
            transport,
            payload,
        },
    )
}

/// `next` doesn't join `head`, which stays as it was.
pub fn refuses_to_join(head: &InnerPacket, next: &InnerPacket) {
    let mut after = head.clone();
    assert!(!join(&mut after, next, Layer::L3, 65_535));
    assert_eq!(after, *head);
}
