//! One end of the engine `null`: TUN to UDP to TUN, in batches, each byte copied once in each
//! direction. No keys, acknowledgements, ordering or repair: its rate is the upper limit for any
//! user-space tunnel.
//!
//! Packets form a stream that is cut into equal datagrams:
//!
//! ```text
//! datagram: number u32, where the first packet begins in it u16, stream
//! packet:   length u32, offload (OFFLOAD_LEN bytes), contents
//! ```

use braid_inner::{Checksum, InnerPacket, Layer, Offload, Segmentation, SegmentationKind, Ticks};
use braid_linux::poller::{Interest, Poller, Token};
use braid_linux::tun::{OffloadChoice, Tun};
use braid_linux::udp::{Family, LinkBind, LinkSocket, ReceiveBuffers, Transmit};
use clap::Args;
use std::io;
use std::net::SocketAddr;
use std::num::NonZeroU16;

/// UDP payload that fits an MTU of 1500.
const DATAGRAM: usize = 1472;
const DATAGRAM_HEADER: usize = 6;
const OFFLOAD_LEN: usize = 9;
const PACKET_HEADER: usize = 4 + OFFLOAD_LEN;
/// No packet begins in the datagram.
const NOWHERE: u16 = u16::MAX;
/// Datagrams per call.
const BATCH: usize = 44;
/// Packets taken from the device before the socket gets its turn, as the
/// tunnel does.
const TUN_BATCH: usize = 16;

/// `braid lab null-loop`.
#[derive(Debug, Args)]
pub struct NullLoopArgs {
    /// The TUN device to make
    pub device: String,
    /// The other end; without it the one that speaks first
    #[arg(long)]
    pub to: Option<SocketAddr>,
    /// The device by which datagrams leave
    #[arg(long)]
    pub link: Option<String>,
    /// Our UDP port
    #[arg(long, default_value_t = 0)]
    pub port: u16,
}

/// Runs until the process is ended.
///
/// # Errors
/// An error of the device or the socket.
pub fn run(args: &NullLoopArgs) -> io::Result<()> {
    let mut tun = Tun::open(&args.device, Layer::L3, OffloadChoice::Best)?;
    let socket = LinkSocket::open(&LinkBind {
        device: args.link.clone(),
        source: None,
        fwmark: None,
        port: args.port,
        family: Family::V4,
    })?;
    let mut poller = Poller::new()?;
    let [from_device, from_socket] = [Token(0), Token(1)];
    poller.add(&tun, from_device, Interest::Read)?;
    poller.add(&socket, from_socket, Interest::Read)?;
    let mut remote = args.to;
    let mut buffers = ReceiveBuffers::new();
    let (mut sender, mut receiver) = (Sender::default(), Receiver::default());
    let mut packet = Vec::new();
    let mut ready = Vec::new();
    // Tells the other end our address.
    send(&socket, remote, &[]);
    loop {
        ready.clear();
        ready.extend(poller.wait(None)?);
        for event in &ready {
            if event.token == from_device {
                for _ in 0..TUN_BATCH {
                    let Some(offload) = tun.read(&mut packet)? else { break };
                    sender.push(&packet, offload, |batch| send(&socket, remote, batch));
                }
                sender.flush(|batch| send(&socket, remote, batch));
            } else {
                let mut last = None;
                socket.receive(&mut buffers, |datagram| {
                    last = Some(datagram.remote);
                    receiver.take(datagram.bytes, |packet| {
                        let _ = tun.write(packet);
                    });
                })?;
                remote = args.to.or(last).or(remote);
            }
        }
    }
}

/// Sends a batch; whatever the socket doesn't accept now is lost.
fn send(socket: &LinkSocket, remote: Option<SocketAddr>, contents: &[u8]) {
    let Some(remote) = remote else { return };
    let transmit = Transmit {
        remote,
        local: None,
        traffic_class: 0,
        contents,
        segment_size: (contents.len() > DATAGRAM).then_some(DATAGRAM),
    };
    let _ = socket.send(&transmit);
}

/// The stream on its way out.
#[derive(Default)]
struct Sender {
    batch: Vec<u8>,
    /// Bytes in the unfinished datagram.
    filled: usize,
    number: u32,
}

impl Sender {
    /// Appends a packet; passes each full batch to `send`.
    fn push(&mut self, packet: &[u8], offload: Offload, mut send: impl FnMut(&[u8])) {
        let mut header = [0; PACKET_HEADER];
        header[..4].copy_from_slice(&(packet.len() as u32).to_be_bytes());
        header[4..].copy_from_slice(&encode(offload));
        self.begin_if_needed();
        let start = self.batch.len() - self.filled;
        if self.batch[start + 4..start + 6] == NOWHERE.to_be_bytes() {
            let place = (self.filled as u16).to_be_bytes();
            self.batch[start + 4..start + 6].copy_from_slice(&place);
        }
        self.append(&header, &mut send);
        self.append(packet, &mut send);
    }

    /// Sends the rest.
    fn flush(&mut self, mut send: impl FnMut(&[u8])) {
        if !self.batch.is_empty() {
            send(&self.batch);
            self.batch.clear();
            self.filled = 0;
        }
    }

    fn append(&mut self, mut bytes: &[u8], send: &mut impl FnMut(&[u8])) {
        while !bytes.is_empty() {
            self.begin_if_needed();
            let (now, later) = bytes.split_at(bytes.len().min(DATAGRAM - self.filled));
            self.batch.extend_from_slice(now);
            self.filled += now.len();
            bytes = later;
            if self.filled == DATAGRAM && self.batch.len() >= BATCH * DATAGRAM {
                self.flush(&mut *send);
            }
        }
    }

    fn begin_if_needed(&mut self) {
        if self.filled == 0 || self.filled == DATAGRAM {
            self.batch.extend_from_slice(&self.number.to_be_bytes());
            self.batch.extend_from_slice(&NOWHERE.to_be_bytes());
            self.number = self.number.wrapping_add(1);
            self.filled = DATAGRAM_HEADER;
        }
    }
}

/// The received stream.
#[derive(Default)]
struct Receiver {
    expected: u32,
    /// A packet whose beginning has been received; empty if none.
    header: Vec<u8>,
    packet: Vec<u8>,
    missing: usize,
    /// Something was lost: wait for the next packet's beginning.
    lost: bool,
}

impl Receiver {
    /// Takes a datagram; passes each complete packet to `deliver`.
    fn take(&mut self, datagram: &[u8], mut deliver: impl FnMut(&InnerPacket)) {
        let Some((header, mut stream)) = datagram.split_first_chunk::<DATAGRAM_HEADER>() else {
            return;
        };
        let [n0, n1, n2, n3, f0, f1] = *header;
        let number = u32::from_be_bytes([n0, n1, n2, n3]);
        if number != self.expected {
            self.lost = true;
        }
        self.expected = number.wrapping_add(1);
        if self.lost {
            let first = usize::from(u16::from_be_bytes([f0, f1]));
            let Some(rest) = datagram.get(first..) else { return };
            stream = rest;
            self.header.clear();
            self.missing = 0;
            self.lost = false;
        }
        while !stream.is_empty() {
            if self.missing == 0 {
                let needed = PACKET_HEADER - self.header.len();
                let (now, later) = stream.split_at(needed.min(stream.len()));
                self.header.extend_from_slice(now);
                stream = later;
                let Some((len, _)) = self.header.split_first_chunk::<4>() else { return };
                if self.header.len() < PACKET_HEADER {
                    return;
                }
                self.missing = u32::from_be_bytes(*len) as usize;
                self.packet.clear();
                self.packet.reserve(self.missing);
            }
            let (now, later) = stream.split_at(self.missing.min(stream.len()));
            self.packet.extend_from_slice(now);
            self.missing -= now.len();
            stream = later;
            if self.missing == 0 {
                let offload = self.header.get(4..).and_then(decode).unwrap_or_default();
                self.header.clear();
                let packet = InnerPacket { bytes: std::mem::take(&mut self.packet), offload };
                deliver(&packet);
                self.packet = packet.bytes;
            }
        }
    }
}

fn encode(offload: Offload) -> [u8; OFFLOAD_LEN] {
    let mut bytes = [0; OFFLOAD_LEN];
    if let Checksum::Partial { start, offset } = offload.checksum {
        bytes[0] |= 8;
        bytes[1..3].copy_from_slice(&start.to_be_bytes());
        bytes[3..5].copy_from_slice(&offset.to_be_bytes());
    }
    if let Some(segmentation) = offload.segmentation {
        bytes[0] |= match segmentation.kind {
            SegmentationKind::TcpV4 => 1,
            SegmentationKind::TcpV6 => 2,
            SegmentationKind::Udp => 3,
        } | if segmentation.ecn { 4 } else { 0 };
        bytes[5..7].copy_from_slice(&segmentation.header_len.to_be_bytes());
        bytes[7..9].copy_from_slice(&segmentation.segment_size.get().to_be_bytes());
    }
    bytes
}

fn decode(bytes: &[u8]) -> Option<Offload> {
    let [flags, s0, s1, o0, o1, h0, h1, z0, z1] = *bytes.first_chunk::<OFFLOAD_LEN>()?;
    let pair = |a, b| u16::from_be_bytes([a, b]);
    let kind = match flags & 3 {
        1 => Some(SegmentationKind::TcpV4),
        2 => Some(SegmentationKind::TcpV6),
        3 => Some(SegmentationKind::Udp),
        _ => None,
    };
    let segmentation = match kind {
        None => None,
        Some(kind) => Some(Segmentation {
            kind,
            ecn: flags & 4 != 0,
            header_len: pair(h0, h1),
            segment_size: NonZeroU16::new(pair(z0, z1))?,
            ticks: Ticks::NONE,
        }),
    };
    let checksum = match flags & 8 {
        0 => Checksum::Complete,
        _ => Checksum::Partial { start: pair(s0, s1), offset: pair(o0, o1) },
    };
    Some(Offload { checksum, segmentation })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packets() -> Vec<InnerPacket> {
        let super_packet = Offload {
            checksum: Checksum::Partial { start: 20, offset: 16 },
            segmentation: Some(Segmentation {
                kind: SegmentationKind::TcpV4,
                ecn: true,
                header_len: 52,
                segment_size: NonZeroU16::new(1448).unwrap(),
                ticks: Ticks::NONE,
            }),
        };
        [(64, Offload::default()), (64_000, super_packet), (1453, Offload::default())]
            .into_iter()
            .cycle()
            .take(12)
            .enumerate()
            .map(|(number, (len, offload))| InnerPacket { bytes: vec![number as u8; len], offload })
            .collect()
    }

    fn sent(packets: &[InnerPacket]) -> Vec<Vec<u8>> {
        let mut datagrams = Vec::new();
        let mut keep = |batch: &[u8]| {
            datagrams.extend(batch.chunks(DATAGRAM).map(<[u8]>::to_vec));
        };
        let mut sender = Sender::default();
        for packet in packets {
            sender.push(&packet.bytes, packet.offload, &mut keep);
        }
        sender.flush(&mut keep);
        datagrams
    }

    fn received(datagrams: impl IntoIterator<Item = Vec<u8>>) -> Vec<InnerPacket> {
        let mut receiver = Receiver::default();
        let mut packets = Vec::new();
        for datagram in datagrams {
            receiver.take(&datagram, |packet| packets.push(packet.clone()));
        }
        packets
    }

    #[test]
    fn packets_come_out_as_they_went_in() {
        assert_eq!(received(sent(&packets())), packets());
    }

    #[test]
    fn a_lost_datagram_costs_the_packets_that_it_was_part_of() {
        let mut datagrams = sent(&packets());
        datagrams.remove(3);
        let packets = packets();
        let mut rest = packets.clone();
        rest.remove(1);
        assert_eq!(received(datagrams), rest);
    }
}
