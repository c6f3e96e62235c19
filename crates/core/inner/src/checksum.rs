//! The internet checksum (RFC 1071) and its incremental update (RFC 1624).

use crate::headers::{IpVersion, Layer, protocol};
use crate::packet::{Checksum, InnerPacket, Offload};
use crate::{Fragment, Headers};
use std::net::IpAddr;

/// Ones' complement sum of `bytes` as 16-bit words, an odd last byte padded
/// with zero; not yet complemented.
pub fn sum(bytes: &[u8]) -> u16 {
    fold(accumulate(bytes))
}

/// Ones' complement addition.
pub fn add(a: u16, b: u16) -> u16 {
    let (sum, carry) = a.overflowing_add(b);
    sum + u16::from(carry)
}

/// The checksum after one 16-bit word under it went from `old` to `new`
/// (RFC 1624, equation 3).
pub fn update(checksum: u16, old: u16, new: u16) -> u16 {
    !add(add(!checksum, !old), new)
}

/// Sum of the pseudo-header (RFC 9293 section 3.1, RFC 8200 section 8.1), not
/// complemented: what a partial checksum holds. `len` counts the transport
/// header and payload in bytes.
pub fn pseudo_header(src: IpAddr, dst: IpAddr, protocol: u8, len: usize) -> u16 {
    let address = |address: IpAddr| match address {
        IpAddr::V4(address) => sum(&address.octets()),
        IpAddr::V6(address) => sum(&address.octets()),
    };
    let len = sum(&(len as u32).to_be_bytes());
    add(add(address(src), address(dst)), add(u16::from(protocol), len))
}

/// Why a partial checksum cannot be completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompleteError {
    /// `start + offset` points behind the packet's end.
    #[error("the checksum field lies outside of the packet")]
    OutOfPacket,
    /// Each segment has its own: cut it first.
    #[error("a super-packet has no complete checksum before it is cut")]
    SuperPacket,
}

/// Computes a partial checksum in software; a complete one stays as it is.
/// The packet is unchanged after an error.
///
/// # Errors
/// [`CompleteError::SuperPacket`] when the packet has to be cut first,
/// [`CompleteError::OutOfPacket`] when the checksum's field lies behind its end.
pub fn complete(packet: &mut InnerPacket) -> Result<(), CompleteError> {
    match packet.offload {
        Offload { checksum: Checksum::Complete, .. } => Ok(()),
        Offload { segmentation: Some(_), .. } => Err(CompleteError::SuperPacket),
        Offload { checksum: Checksum::Partial { start, offset }, segmentation: None } => {
            complete_at(&mut packet.bytes, start.into(), offset.into())?;
            packet.offload.checksum = Checksum::Complete;
            Ok(())
        }
    }
}

/// Sums from `start` to the end and stores it `offset` bytes further. A
/// checksum of 0 is stored as 0xffff, the same number in ones' complement: 0
/// means "none" in UDP.
pub(crate) fn complete_at(
    bytes: &mut [u8],
    start: usize,
    offset: usize,
) -> Result<(), CompleteError> {
    let checksum = match !sum(bytes.get(start..).ok_or(CompleteError::OutOfPacket)?) {
        0 => 0xffff,
        checksum => checksum,
    };
    put16(bytes, start + offset, checksum).ok_or(CompleteError::OutOfPacket)
}

/// Whether the checksum of a TCP or UDP packet is right, computed over the
/// packet as it is. `None` where there is nothing to check: other protocols,
/// fragments, UDP without a checksum. Packets with an IPv6 routing header,
/// whose pseudo-header has another destination, count as not checkable too.
pub fn verify(bytes: &[u8], layer: Layer) -> Option<bool> {
    let headers = Headers::parse(bytes, layer);
    let ip = headers.ip.filter(|ip| ip.fragment == Fragment::Whole)?;
    if ip.version == IpVersion::V6 && ip.transport != ip.start + 40
        || ip.version == IpVersion::V4 && ip.transport != ip.start + 20
    {
        return None;
    }
    let transport = bytes.get(ip.transport..ip.end)?;
    match ip.protocol {
        protocol::TCP if transport.len() >= 20 => {}
        protocol::UDP if transport.len() >= 8 && transport.get(6..8) != Some(&[0, 0]) => {}
        _ => return None,
    }
    let pseudo = pseudo_header(ip.src, ip.dst, ip.protocol, transport.len());
    Some(add(pseudo, sum(transport)) == 0xffff)
}

/// Writes the checksum of the IPv4 header that `header` is.
pub(crate) fn seal_ipv4(header: &mut [u8]) {
    put16(header, 10, 0);
    let checksum = !sum(header);
    put16(header, 10, checksum);
}

pub(crate) fn put16(bytes: &mut [u8], at: usize, value: u16) -> Option<()> {
    *bytes.get_mut(at..)?.first_chunk_mut()? = value.to_be_bytes();
    Some(())
}

/// The sum does not depend on byte order (RFC 1071, section 2B), so words are
/// taken as the CPU reads them, four bytes at once; [`fold`] swaps at the end.
fn accumulate(bytes: &[u8]) -> u64 {
    let (words, tail) = bytes.as_chunks::<4>();
    let mut last = [0; 4];
    for (to, from) in last.iter_mut().zip(tail) {
        *to = *from;
    }
    words.iter().map(|&word| u64::from(u32::from_ne_bytes(word))).sum::<u64>()
        + u64::from(u32::from_ne_bytes(last))
}

fn fold(sum: u64) -> u16 {
    let sum = (sum >> 32) + (sum & 0xffff_ffff);
    let sum = (sum >> 32) + (sum & 0xffff_ffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    u16::from_be(sum as u16)
}
