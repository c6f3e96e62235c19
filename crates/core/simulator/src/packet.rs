//! Inner packets whose every segment carries a number, and reading it back.

use braid_inner::{
    Checksum, Headers, InnerPacket, Layer, Offload, Segmentation, SegmentationKind, Ticks,
    checksum, split_all,
};
use std::net::Ipv4Addr;
use std::num::NonZeroU16;

/// TCP payload of a full packet of 1500 bytes with the timestamp option.
pub(crate) const MSS: usize = 1448;
/// IPv4, TCP, timestamp option.
const TCP_HEADERS: usize = 52;
const ETHERNET: usize = 14;

/// Between whom a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ends {
    pub src: Ipv4Addr,
    pub dst: Ipv4Addr,
    pub src_port: u16,
    pub dst_port: u16,
}

/// One segment as it came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    /// Its number.
    pub number: u32,
    /// Payload bytes.
    pub len: usize,
    /// Milliseconds at which TCP data was sent, else 0.
    pub timestamp: u32,
    pub src_port: u16,
    pub dst_port: u16,
}

/// TCP data: `lens` payload bytes each, numbers from `first` on; more than one
/// makes a super-packet.
pub(crate) fn tcp_data(
    ends: Ends,
    first: u32,
    seq: u32,
    timestamp: u32,
    lens: &[usize],
    layer: Layer,
) -> InnerPacket {
    let payload: usize = lens.iter().sum();
    let mut bytes = tcp_headers(ends, seq, timestamp, 0x10, payload);
    for (number, &len) in (first..).zip(lens) {
        push_payload(&mut bytes, number, len);
    }
    let offload = if lens.len() > 1 {
        Offload {
            checksum: Checksum::Partial { start: 20, offset: 16 },
            segmentation: Some(Segmentation {
                kind: SegmentationKind::TcpV4,
                ecn: false,
                header_len: TCP_HEADERS as u16,
                segment_size: NonZeroU16::new(lens[0] as u16).unwrap_or(NonZeroU16::MIN),
                ticks: Ticks::NONE,
            }),
        }
    } else {
        Offload::default()
    };
    finish(bytes, offload, ends, 6, 16, layer)
}

/// A TCP acknowledgement of all segments before `next`; its number is the
/// timestamp. With `holes` it has a SACK option, of which only the presence
/// means anything here.
pub(crate) fn tcp_ack(
    ends: Ends,
    number: u32,
    next: u32,
    holes: bool,
    layer: Layer,
) -> InnerPacket {
    const SACK: [u8; 12] = [1, 1, 5, 10, 0, 0, 0, 0, 0, 0, 0, 0];
    let options = if holes { &SACK[..] } else { &[] };
    let mut bytes = tcp_headers(ends, 1, number, 0x10, options.len());
    bytes.extend_from_slice(options);
    bytes[28..32].copy_from_slice(&next.wrapping_mul(MSS as u32).to_be_bytes());
    bytes[32] += options.len() as u8 / 4 * 16;
    finish(bytes, Offload::default(), ends, 6, 16, layer)
}

/// A numbered UDP packet of `len` payload bytes, at least 8.
pub(crate) fn udp(ends: Ends, number: u32, len: usize, layer: Layer) -> InnerPacket {
    let len = len.max(8);
    let mut bytes = ip_header(ends, 17, 28 + len);
    bytes.extend_from_slice(&ends.src_port.to_be_bytes());
    bytes.extend_from_slice(&ends.dst_port.to_be_bytes());
    bytes.extend_from_slice(&((8 + len) as u16).to_be_bytes());
    bytes.extend_from_slice(&[0, 0]);
    push_payload(&mut bytes, number, len);
    finish(bytes, Offload::default(), ends, 17, 6, layer)
}

/// An ICMP echo with 56 bytes of data; the ports make its identifier.
pub(crate) fn ping(ends: Ends, number: u32, reply: bool, layer: Layer) -> InnerPacket {
    let mut bytes = ip_header(ends, 1, 84);
    bytes.extend_from_slice(&[if reply { 0 } else { 8 }, 0, 0, 0]);
    let port = if reply { ends.src_port } else { ends.dst_port };
    bytes.extend_from_slice(&port.to_be_bytes());
    bytes.extend_from_slice(&(number as u16).to_be_bytes());
    push_payload(&mut bytes, number, 56);
    let sum = !checksum::sum(&bytes[20..]);
    bytes[22..24].copy_from_slice(&sum.to_be_bytes());
    wrap(bytes, Offload::default(), layer)
}

/// A UDP packet of `payload`, for tests that need one by hand.
pub fn udp_packet(src: Ipv4Addr, dst: Ipv4Addr, ports: (u16, u16), payload: &[u8]) -> InnerPacket {
    let ends = Ends { src, dst, src_port: ports.0, dst_port: ports.1 };
    let mut bytes = ip_header(ends, 17, 28 + payload.len());
    bytes.extend_from_slice(&ends.src_port.to_be_bytes());
    bytes.extend_from_slice(&ends.dst_port.to_be_bytes());
    bytes.extend_from_slice(&((8 + payload.len()) as u16).to_be_bytes());
    bytes.extend_from_slice(&[0, 0]);
    bytes.extend_from_slice(payload);
    finish(bytes, Offload::default(), ends, 17, 6, Layer::L3)
}

/// `packet` in an Ethernet frame.
pub fn ethernet_packet(packet: &InnerPacket, to: [u8; 6], from: [u8; 6]) -> InnerPacket {
    let mut bytes = Vec::with_capacity(ETHERNET + packet.bytes.len());
    bytes.extend_from_slice(&to);
    bytes.extend_from_slice(&from);
    bytes.extend_from_slice(&[8, 0]);
    bytes.extend_from_slice(&packet.bytes);
    let mut offload = packet.offload;
    if let Some(segmentation) = &mut offload.segmentation {
        segmentation.header_len += ETHERNET as u16;
    }
    if let Checksum::Partial { start, .. } = &mut offload.checksum {
        *start += ETHERNET as u16;
    }
    InnerPacket { bytes, offload }
}

/// The segments of a packet that came out of the tunnel, each checked: the
/// checksum, the payload. `Err` says what is wrong.
pub(crate) fn read(packet: &InnerPacket, layer: Layer) -> Result<Vec<Segment>, String> {
    let singles = split_all(packet, layer).map_err(|e| format!("can't be cut: {e:?}"))?;
    singles.into_iter().map(|single| read_single(single, layer)).collect()
}

fn read_single(mut single: InnerPacket, layer: Layer) -> Result<Segment, String> {
    checksum::complete(&mut single).map_err(|e| format!("checksum: {e}"))?;
    let bytes = &single.bytes;
    let headers = Headers::parse(bytes, layer);
    let Some(ip) = headers.ip else { return Err("not IP".into()) };
    if checksum::verify(bytes, layer) == Some(false) {
        return Err("wrong transport checksum".into());
    }
    let word = |at: usize| -> Option<u16> {
        Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
    };
    let t = ip.transport;
    let short = || "too short".to_string();
    let (payload, ports) = match ip.protocol {
        6 => (
            headers.payload_start(bytes).ok_or_else(short)?,
            (word(t).ok_or_else(short)?, word(t + 2).ok_or_else(short)?),
        ),
        17 => (t + 8, (word(t).ok_or_else(short)?, word(t + 2).ok_or_else(short)?)),
        _ => {
            let id = word(t + 4).ok_or_else(short)?;
            (t + 8, if bytes.get(t) == Some(&8) { (0, id) } else { (id, 0) })
        }
    };
    let payload = bytes.get(payload..ip.end).ok_or_else(short)?;
    let mut stamp = 0;
    if ip.protocol == 6 {
        let field = |at: usize| Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        stamp = field(t + 24).ok_or_else(short)?;
        if field(t + 28) != Some(echo_of(stamp)) {
            return Err(format!("the timestamp that {stamp} answers was altered"));
        }
    }
    let (number, timestamp) = match payload {
        [] => (stamp, 0),
        payload => (read_payload(payload)?, stamp),
    };
    let (src_port, dst_port) = ports;
    Ok(Segment { number, len: payload.len(), timestamp, src_port, dst_port })
}

fn push_payload(bytes: &mut Vec<u8>, number: u32, len: usize) {
    let start = bytes.len();
    bytes.extend_from_slice(&number.to_be_bytes());
    let mut word = mix(number);
    while bytes.len() < start + len {
        bytes.extend_from_slice(&word.to_le_bytes());
        word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    }
    bytes.truncate(start + len);
}

fn read_payload(payload: &[u8]) -> Result<u32, String> {
    let number = payload.get(..4).ok_or("payload too short")?;
    let number = u32::from_be_bytes([number[0], number[1], number[2], number[3]]);
    let mut word = mix(number);
    for part in payload[4..].chunks(8) {
        if *part != word.to_le_bytes()[..part.len()] {
            return Err(format!("payload of {number} was altered"));
        }
        word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    }
    Ok(number)
}

fn mix(number: u32) -> u64 {
    let z = (u64::from(number) + 1).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z ^ (z >> 29)
}

fn tcp_headers(ends: Ends, seq: u32, timestamp: u32, flags: u8, payload: usize) -> Vec<u8> {
    let mut bytes = ip_header(ends, 6, TCP_HEADERS + payload);
    bytes.extend_from_slice(&ends.src_port.to_be_bytes());
    bytes.extend_from_slice(&ends.dst_port.to_be_bytes());
    bytes.extend_from_slice(&seq.to_be_bytes());
    bytes.extend_from_slice(&1u32.to_be_bytes());
    bytes.extend_from_slice(&[0x80, flags, 0xff, 0xff, 0, 0, 0, 0]);
    bytes.extend_from_slice(&[1, 1, 8, 10]);
    bytes.extend_from_slice(&timestamp.to_be_bytes());
    bytes.extend_from_slice(&echo_of(timestamp).to_be_bytes());
    bytes
}

/// The timestamp that a packet answers: another pace, so that both change by
/// themselves.
fn echo_of(timestamp: u32) -> u32 {
    timestamp / 3
}

fn ip_header(ends: Ends, protocol: u8, total: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(total + ETHERNET);
    bytes.extend_from_slice(&[0x45, 0]);
    bytes.extend_from_slice(&(total as u16).to_be_bytes());
    bytes.extend_from_slice(&[0, 0, 0x40, 0, 64, protocol, 0, 0]);
    bytes.extend_from_slice(&ends.src.octets());
    bytes.extend_from_slice(&ends.dst.octets());
    let sum = !checksum::sum(&bytes);
    bytes[10..12].copy_from_slice(&sum.to_be_bytes());
    bytes
}

/// Fills the transport's checksum in, whole or as the kernel leaves it.
fn finish(
    mut bytes: Vec<u8>,
    offload: Offload,
    ends: Ends,
    protocol: u8,
    offset: usize,
    layer: Layer,
) -> InnerPacket {
    let len = bytes.len() - 20;
    let pseudo = checksum::pseudo_header(ends.src.into(), ends.dst.into(), protocol, len);
    let sum = match offload.checksum {
        Checksum::Partial { .. } => pseudo,
        Checksum::Complete => !checksum::add(pseudo, checksum::sum(&bytes[20..])),
    };
    bytes[20 + offset..22 + offset].copy_from_slice(&sum.to_be_bytes());
    wrap(bytes, offload, layer)
}

fn wrap(bytes: Vec<u8>, offload: Offload, layer: Layer) -> InnerPacket {
    let packet = InnerPacket { bytes, offload };
    match layer {
        Layer::L3 => packet,
        Layer::L2 => {
            let mac = |at: usize| {
                let ip = &packet.bytes[at..at + 4];
                [2, 0, ip[0], ip[1], ip[2], ip[3]]
            };
            ethernet_packet(&packet, mac(16), mac(12))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENDS: Ends = Ends {
        src: Ipv4Addr::new(10, 0, 0, 1),
        dst: Ipv4Addr::new(10, 0, 0, 2),
        src_port: 1000,
        dst_port: 2000,
    };

    #[test]
    fn every_kind_reads_back() {
        for layer in [Layer::L3, Layer::L2] {
            let stamped = |number, len, timestamp| Segment {
                number,
                len,
                timestamp,
                src_port: 1000,
                dst_port: 2000,
            };
            let segment = |number, len| stamped(number, len, 0);
            let data = tcp_data(ENDS, 5, 99, 7, &[MSS, MSS, 100], layer);
            let expected = [stamped(5, MSS, 7), stamped(6, MSS, 7), stamped(7, 100, 7)];
            assert_eq!(read(&data, layer).unwrap(), expected);
            assert!(braid_inner::check(&data.bytes, data.offload, layer).is_ok());
            assert_eq!(
                read(&tcp_data(ENDS, 9, 1, 7, &[7], layer), layer).unwrap(),
                [stamped(9, 7, 7)]
            );
            assert_eq!(
                read(&tcp_ack(ENDS, 70_000, 7, true, layer), layer).unwrap(),
                [segment(70_000, 0)]
            );
            assert_eq!(read(&udp(ENDS, 3, 333, layer), layer).unwrap(), [segment(3, 333)]);
            let echo = read(&ping(ENDS, 4, false, layer), layer).unwrap();
            assert_eq!((echo[0].number, echo[0].dst_port), (4, 2000));
        }
    }

    #[test]
    fn an_altered_byte_is_seen() {
        let mut packet = udp(ENDS, 3, 333, Layer::L3);
        packet.bytes[200] ^= 1;
        assert!(read(&packet, Layer::L3).is_err());
    }
}
