//! Headers of inner packets, told by how they differ from one that both ends know, the *context*
//! (RFC 6846 has the word): of 28 to 72 bytes most never change within a flow. The idea is RFC
//! 1144's, the bytes are ours (docs/protocol.md, section 6). Unlike there a context doesn't follow
//! the flow: a packet that is lost or late spoils no other.

use crate::integer::{Reader, put_varint};
use braid_inner::checksum::{add, sum};
use braid_inner::{Checksum, Fragment, Headers, IpVersion, Layer, Offload};
use std::ops::Range;

const TCP: u8 = 6;
const UDP: u8 = 17;
const UDP_HEADER: usize = 8;
/// The options that Linux sends with all but the first packets: two fillers and the timestamps
/// (RFC 7323, appendix A).
const TIMESTAMPS: [u8; 4] = [1, 1, 8, 10];
const TIMESTAMPS_LEN: usize = 12;
/// The longest header that can be a context: Ethernet with four tags, IPv6, TCP with options.
const MAX_HEADER: usize = 14 + 4 * 4 + 40 + 60;

const IDENTIFICATION: u8 = 0x01;
const ACKNOWLEDGEMENT: u8 = 0x02;
const WINDOW: u8 = 0x04;
const FLAGS: u8 = 0x08;
const VALUE: u8 = 0x10;
const ECHO: u8 = 0x20;
const OPTIONS: u8 = 0x40;
const PARTIAL: u8 = 0x80;

/// A header that both ends know, for the packets of a flow that differ little from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderContext {
    header: Vec<u8>,
    layout: Layout,
    sums: Sums,
}

/// What checksums of every packet have in common: ones' complement sums of fields that never
/// change within a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sums {
    /// Of IPv4's header, without its length, identification and checksum.
    ipv4: u16,
    /// Of the pseudo-header, without the length.
    pseudo: u16,
}

/// Where things are in a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layout {
    version: IpVersion,
    /// Where the IP header begins.
    ip: usize,
    /// Where the transport's header begins.
    transport: usize,
    is_tcp: bool,
    /// Where the payload begins.
    payload: usize,
}

impl HeaderContext {
    /// Most bytes of a context.
    pub const MAX_LEN: usize = MAX_HEADER;

    /// The context that a packet's header makes: TCP or UDP, directly in IPv4 without options or
    /// in IPv6, whole, of as many bytes as its headers say.
    pub fn of_packet(packet: &[u8], layer: Layer) -> Option<Self> {
        let layout = Layout::of(packet, layer)?;
        let context = Self::of_header(packet.get(..layout.payload)?, layer)?;
        context.has_true_lengths(packet).then_some(context)
    }

    /// As it came from the peer: the bytes before the payload.
    pub fn of_header(header: &[u8], layer: Layer) -> Option<Self> {
        let layout = Layout::of(header, layer)?;
        let fits = layout.payload == header.len() && header.len() <= Self::MAX_LEN;
        let sums = layout.sums(header)?;
        fits.then(|| Self { header: header.to_vec(), layout, sums })
    }

    /// Tells packets apart that can't have the same context: a hash of addresses and ports. `None`
    /// of one that can have none.
    pub fn fingerprint(packet: &[u8], layer: Layer) -> Option<u32> {
        let layout = Layout::of(packet, layer)?;
        let addresses = match layout.version {
            IpVersion::V4 => layout.ip + 12,
            IpVersion::V6 => layout.ip + 8,
        };
        let bytes = packet.get(addresses..layout.transport + 4)?;
        // FNV-1a.
        let step = |hash: u32, &byte: &u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
        Some(bytes.iter().fold(0x811c_9dc5, step))
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.header
    }

    /// Appends what stands for the header of `packet` to `out`, and says where its payload
    /// begins. `None`, with anything in `out`, if it isn't a header of this context, or can't be
    /// made again from it bit by bit.
    pub fn compress(&self, packet: &[u8], checksum: Checksum, out: &mut Vec<u8>) -> Option<usize> {
        let layout = self.layout_of(packet).filter(|_| self.has_true_lengths(packet))?;
        let partial = match checksum {
            Checksum::Complete => false,
            Checksum::Partial { start, offset } => {
                let at = layout.checksum_at();
                let expected = self.pseudo_sum(packet.len()).to_be_bytes();
                let usual = usize::from(start) == layout.transport
                    && usize::from(start) + usize::from(offset) == at
                    && packet.get(at..at + 2)? == expected;
                if !usual {
                    return None;
                }
                true
            }
        };
        let place = out.len();
        out.push(if partial { PARTIAL } else { 0 });
        let mut flags = 0;
        if layout.version == IpVersion::V4 {
            flags |= self.put_field(packet, layout.ip + 4..layout.ip + 6, IDENTIFICATION, out)?;
        }
        if layout.is_tcp {
            flags |= self.put_tcp(packet, &layout, out)?;
        }
        if !partial {
            out.extend_from_slice(packet.get(layout.checksum_at()..)?.first_chunk::<2>()?);
        }
        out[place] |= flags;
        Some(layout.payload)
    }

    /// What [`Self::compress`] wrote becomes a header again, appended to `out`; says where the
    /// payload behind it begins in `compressed`, and what is left to be done on the packet. The
    /// payload ends at `len`, which may lie behind what there is of it. `None`, with anything in
    /// `out`, if it's nothing of the kind.
    pub fn expand(
        &self,
        compressed: &[u8],
        len: usize,
        out: &mut Vec<u8>,
    ) -> Option<(usize, Offload)> {
        let (layout, start) = (&self.layout, out.len());
        let mut reader = Reader(compressed);
        let flags = reader.u8().ok()?;
        out.extend_from_slice(&self.header);
        if flags & IDENTIFICATION != 0 {
            let field = reader.bytes(2).ok().filter(|_| layout.version == IpVersion::V4)?;
            out[start + layout.ip + 4..][..2].copy_from_slice(field);
        }
        if layout.is_tcp {
            self.expand_tcp(flags, &mut reader, start, out)?;
        } else if flags & !(IDENTIFICATION | PARTIAL) != 0 {
            return None;
        }
        let header = &mut out[start..];
        let field = layout.checksum_at();
        if flags & PARTIAL == 0 {
            header[field..][..2].copy_from_slice(reader.bytes(2).ok()?);
        }
        let payload = compressed.len() - reader.0.len();
        let len = header.len() + len.checked_sub(payload)?;
        self.set_lengths(header, len)?;
        let checksum = if flags & PARTIAL == 0 {
            Checksum::Complete
        } else {
            header[field..][..2].copy_from_slice(&self.pseudo_sum(len).to_be_bytes());
            let offset = (field - layout.transport) as u16;
            Checksum::Partial { start: layout.transport as u16, offset }
        };
        Some((payload, Offload { checksum, segmentation: None }))
    }

    /// The layout of a packet in which all that is never told is as in the context: with the
    /// versions, protocol and fragment's place all but the length of TCP's options follows.
    fn layout_of(&self, packet: &[u8]) -> Option<Layout> {
        let same = |range: Range<usize>| {
            let of_context = self.header.get(range.clone());
            of_context.is_some() && of_context == packet.get(range)
        };
        let Layout { version, ip, transport, is_tcp, .. } = self.layout;
        let fixed = match version {
            // Version and class; flags to protocol; addresses and ports.
            IpVersion::V4 => {
                same(0..ip + 2) && same(ip + 6..ip + 10) && same(ip + 12..transport + 4)
            }
            IpVersion::V6 => same(0..ip + 4) && same(ip + 6..transport + 4),
        };
        if !fixed {
            return None;
        }
        let mut payload = transport + UDP_HEADER;
        if is_tcp {
            let at = transport + 12;
            let (offset, of_context) = (*packet.get(at)?, *self.header.get(at)?);
            let urgent = same(transport + 18..transport + 20);
            if !urgent || (offset ^ of_context) & 0x0f != 0 || offset >> 4 < 5 {
                return None;
            }
            payload = transport + usize::from(offset >> 4) * 4;
        }
        (payload <= packet.len()).then_some(Layout { payload, ..self.layout })
    }

    /// Every length in the headers of a packet of this context is its own, and the checksum of
    /// IPv4 is right.
    fn has_true_lengths(&self, packet: &[u8]) -> bool {
        let Layout { version, ip, transport, is_tcp, .. } = self.layout;
        let field = |at: usize| packet.get(at..)?.first_chunk().map(|&f| u16::from_be_bytes(f));
        let is = |at: usize, len: usize| field(at).is_some_and(|field| usize::from(field) == len);
        let len = packet.len() - ip;
        let by_ip = match version {
            IpVersion::V4 => {
                let identification = field(ip + 4).unwrap_or_default();
                let right = self.checksum_of_ipv4(len as u16, identification);
                is(ip + 2, len) && field(ip + 10) == Some(right)
            }
            IpVersion::V6 => len >= 40 && is(ip + 4, len - 40),
        };
        by_ip && (is_tcp || is(transport + 4, packet.len() - transport))
    }

    /// Writes every length of a packet of `len` bytes, and the checksum of IPv4; `None` if no
    /// packet is so long.
    fn set_lengths(&self, packet: &mut [u8], len: usize) -> Option<()> {
        let Layout { version, ip, transport, is_tcp, .. } = self.layout;
        let behind = u16::try_from(len - transport).ok()?.to_be_bytes();
        match version {
            IpVersion::V4 => {
                let len = u16::try_from(len - ip).ok()?;
                let header = packet.get_mut(ip..transport)?;
                let identification = u16::from_be_bytes([header[4], header[5]]);
                let checksum = self.checksum_of_ipv4(len, identification);
                header[2..4].copy_from_slice(&len.to_be_bytes());
                header[10..12].copy_from_slice(&checksum.to_be_bytes());
            }
            IpVersion::V6 => packet[ip + 4..ip + 6].copy_from_slice(&behind),
        }
        if !is_tcp {
            packet[transport + 4..transport + 6].copy_from_slice(&behind);
        }
        Some(())
    }

    fn checksum_of_ipv4(&self, len: u16, identification: u16) -> u16 {
        !add(add(self.sums.ipv4, len), identification)
    }

    /// What a partial checksum is before the bytes of a packet of `len` are added.
    fn pseudo_sum(&self, len: usize) -> u16 {
        add(self.sums.pseudo, sum(&((len - self.layout.transport) as u32).to_be_bytes()))
    }

    /// Appends a field if it isn't that of the context; its flag, then.
    fn put_field(
        &self,
        packet: &[u8],
        range: Range<usize>,
        flag: u8,
        out: &mut Vec<u8>,
    ) -> Option<u8> {
        let (field, of_context) = (packet.get(range.clone())?, self.header.get(range)?);
        if field == of_context {
            return Some(0);
        }
        out.extend_from_slice(field);
        Some(flag)
    }

    /// Appends by how much a number of 32 bits is above that of the context, if it isn't the
    /// same; its flag, then.
    fn put_number(&self, packet: &[u8], at: usize, flag: u8, out: &mut Vec<u8>) -> Option<u8> {
        match self.difference(packet, at)? {
            0 => Some(0),
            above => {
                put_varint(out, u64::from(above));
                Some(flag)
            }
        }
    }

    fn difference(&self, packet: &[u8], at: usize) -> Option<u32> {
        Some(number(packet, at)?.wrapping_sub(number(&self.header, at)?))
    }

    fn put_tcp(&self, packet: &[u8], layout: &Layout, out: &mut Vec<u8>) -> Option<u8> {
        let tcp = layout.transport;
        put_varint(out, u64::from(self.difference(packet, tcp + 4)?));
        let mut flags = self.put_number(packet, tcp + 8, ACKNOWLEDGEMENT, out)?;
        flags |= self.put_field(packet, tcp + 14..tcp + 16, WINDOW, out)?;
        flags |= self.put_field(packet, tcp + 13..tcp + 14, FLAGS, out)?;
        let (options, of_context) = (packet.get(tcp + 20..layout.payload)?, self.options()?);
        if is_timestamps(options) && is_timestamps(of_context) {
            flags |= self.put_number(packet, tcp + 24, VALUE, out)?;
            flags |= self.put_number(packet, tcp + 28, ECHO, out)?;
        } else if options != of_context {
            out.push(options.len() as u8);
            out.extend_from_slice(options);
            flags |= OPTIONS;
        }
        Some(flags)
    }

    fn expand_tcp(
        &self,
        flags: u8,
        reader: &mut Reader<'_>,
        start: usize,
        out: &mut Vec<u8>,
    ) -> Option<()> {
        let tcp = start + self.layout.transport;
        let increase = |at: usize, above: u64, out: &mut Vec<u8>| {
            let sum = number(out, at)?.wrapping_add(u32::try_from(above).ok()?);
            out[at..at + 4].copy_from_slice(&sum.to_be_bytes());
            Some(())
        };
        increase(tcp + 4, reader.varint().ok()?, out)?;
        if flags & ACKNOWLEDGEMENT != 0 {
            increase(tcp + 8, reader.varint().ok()?, out)?;
        }
        if flags & WINDOW != 0 {
            out[tcp + 14..tcp + 16].copy_from_slice(reader.bytes(2).ok()?);
        }
        if flags & FLAGS != 0 {
            out[tcp + 13] = reader.u8().ok()?;
        }
        let timestamps = is_timestamps(self.options()?);
        if flags & (VALUE | ECHO) != 0 && (!timestamps || flags & OPTIONS != 0) {
            return None;
        }
        if flags & VALUE != 0 {
            increase(tcp + 24, reader.varint().ok()?, out)?;
        }
        if flags & ECHO != 0 {
            increase(tcp + 28, reader.varint().ok()?, out)?;
        }
        if flags & OPTIONS != 0 {
            let len = usize::from(reader.u8().ok()?);
            if len > 40 || !len.is_multiple_of(4) {
                return None;
            }
            out.truncate(tcp + 20);
            out.extend_from_slice(reader.bytes(len).ok()?);
            out[tcp + 12] = out[tcp + 12] & 0x0f | (((20 + len) / 4) as u8) << 4;
        }
        Some(())
    }

    fn options(&self) -> Option<&[u8]> {
        self.header.get(self.layout.transport + 20..)
    }
}

impl Layout {
    /// Of the headers of a packet, or alone.
    fn of(bytes: &[u8], layer: Layer) -> Option<Self> {
        let headers = Headers::parse(bytes, layer);
        let ip = headers.ip.filter(|ip| ip.fragment == Fragment::Whole)?;
        let fixed = match ip.version {
            IpVersion::V4 => 20,
            IpVersion::V6 => 40,
        };
        if ip.transport != ip.start + fixed || !matches!(ip.protocol, TCP | UDP) {
            return None;
        }
        // The length by the field may be that of a payload which isn't here.
        let is_tcp = ip.protocol == TCP;
        let len = match is_tcp {
            true => usize::from(*bytes.get(ip.transport + 12)? >> 4) * 4,
            false => UDP_HEADER,
        };
        let payload = ip.transport + len;
        let whole = len >= if is_tcp { 20 } else { UDP_HEADER } && payload <= bytes.len();
        let (version, ip, transport) = (ip.version, ip.start, ip.transport);
        whole.then_some(Self { version, ip, transport, is_tcp, payload })
    }

    fn checksum_at(&self) -> usize {
        self.transport + if self.is_tcp { 16 } else { 6 }
    }

    /// Of a header.
    fn sums(&self, header: &[u8]) -> Option<Sums> {
        let ip = header.get(self.ip..self.transport)?;
        let (ipv4, addresses) = match self.version {
            IpVersion::V4 => {
                let fixed = add(sum(&ip[..2]), add(sum(&ip[6..10]), sum(&ip[12..])));
                (fixed, &ip[12..])
            }
            IpVersion::V6 => (0, &ip[8..]),
        };
        let protocol = if self.is_tcp { TCP } else { UDP };
        Some(Sums { ipv4, pseudo: add(sum(addresses), u16::from(protocol)) })
    }
}

fn is_timestamps(options: &[u8]) -> bool {
    options.len() == TIMESTAMPS_LEN && options.starts_with(&TIMESTAMPS)
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|&field| u32::from_be_bytes(field))
}
