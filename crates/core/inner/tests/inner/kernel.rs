//! This kernel's opinion: what it makes of our super-packets, and what its own
//! look like.

#![allow(unsafe_code)]

use crate::build::{ACK, CWR, FIN, PSH, SYN, Spec, Transport, naive_checksum};
use crate::tun::{Tun, in_namespace, ip, sysctl};
use braid_inner::{
    Checksums, Coalescer, InnerPacket, Layer, Segments, check, checksum, clamp_mss,
    drop_first_segment, segment_count, set_ce, split_all,
};
use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::time::Duration;

/// A device `near` with offloads where 10.9.0.1 and fd00::1 are, and `far`
/// without where 10.9.0.2 and fd00::2 are; the kernel forwards between them.
fn router() -> (Tun, Tun) {
    let (near, far) = (Tun::new("near", true), Tun::new("far", false));
    for (host, device) in [(1, "near"), (2, "far")] {
        ip(&format!("route add 10.9.0.{host}/32 dev {device}"));
        ip(&format!("-6 route add fd00::{host}/128 dev {device}"));
        sysctl(&format!("ipv4/conf/{device}/rp_filter"), "0");
    }
    sysctl("ipv4/conf/all/rp_filter", "0");
    sysctl("ipv4/ip_forward", "1");
    sysctl("ipv6/conf/all/forwarding", "1");
    (near, far)
}

/// TCP with flags that matter, and UDP, over both IP versions.
fn specs(payload: usize) -> Vec<Spec> {
    let payload: Vec<u8> = (0..payload).map(|index| (index * 7 % 251) as u8).collect();
    let mut tcp = Spec::tcp(ACK | PSH | FIN | CWR, payload.clone());
    tcp.transport = Transport::Tcp {
        seq: u32::MAX - 1500,
        ack: 5,
        flags: ACK | PSH | FIN | CWR,
        options: vec![1, 1, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8],
    };
    let udp = Spec::udp(payload);
    vec![tcp.clone(), tcp.v6(), udp.clone(), udp.v6()]
}

fn extract(packet: &InnerPacket, range: Range<usize>) -> InnerPacket {
    let bytes = &packet.bytes;
    let segments = Segments::of(bytes, bytes.len(), packet.offload, Layer::L3).unwrap();
    let payload = &bytes[segments.payload(range.clone()).unwrap()];
    let mut bytes = Vec::new();
    let offload =
        segments.extract(&packet.bytes[..segments.header_len()], payload, range, &mut bytes);
    InnerPacket { bytes, offload: offload.unwrap() }
}

/// One hop further.
fn forwarded(spec: &Spec) -> Vec<u8> {
    let mut bytes = spec.bytes();
    if spec.v6 {
        bytes[7] -= 1;
    } else {
        bytes[8] -= 1;
        bytes[10..12].fill(0);
        let checksum = naive_checksum(&bytes[..20]);
        bytes[10..12].copy_from_slice(&checksum.to_be_bytes());
    }
    bytes
}

#[test]
fn the_kernel_cuts_our_pieces_into_the_original_segments() {
    in_namespace(|| {
        let (mut near, mut far) = router();
        for spec in specs(7300) {
            let packet = spec.super_packet(1000);
            let segments = spec.segments(1000);
            for range in [0..8, 0..1, 0..3, 2..5, 3..4, 5..8, 7..8] {
                let piece = extract(&packet, range.clone());
                assert!(check(&piece.bytes, piece.offload, Layer::L3).is_ok());
                near.write(&piece);
                for index in range.clone() {
                    let got = far.read().expect("the kernel forwards every segment");
                    let same = got.bytes == forwarded(&segments[index]);
                    assert!(same, "segment {index} of {range:?} of {:?}", spec.kind());
                }
            }
            let mut rest = packet.clone();
            assert!(drop_first_segment(&mut rest, Layer::L3));
            near.write(&rest);
            for segment in &segments[1..] {
                assert!(far.read().expect("forwarded").bytes == forwarded(segment));
            }
        }
    });
}

#[test]
fn the_kernel_cuts_what_was_coalesced_into_the_same_packets() {
    in_namespace(|| {
        let (mut near, mut far) = router();
        for spec in specs(9100) {
            let mut coalescer = Coalescer::new(Layer::L3, Checksums::Verify);
            let mut out = Vec::new();
            for segment in spec.segments(1200) {
                coalescer.push(segment.packet(), &mut out);
            }
            coalescer.flush(&mut out);
            assert_eq!(out.len(), 1);
            near.write(&out[0]);
            for segment in spec.segments(1200) {
                assert!(far.read().expect("forwarded").bytes == forwarded(&segment));
            }
        }
    });
}

#[test]
fn udp_sockets_get_the_datagrams_and_send_packets_that_we_read_right() {
    in_namespace(|| {
        let mut tun = Tun::new("tun", true);
        ip("addr add 10.9.0.2/24 dev tun");
        let socket = UdpSocket::bind("10.9.0.2:40001").unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let spec = Spec::udp((0..9500).map(|index| (index % 253) as u8).collect());
        tun.write(&extract(&spec.super_packet(1000), 4..10));
        let mut buffer = [0; 2000];
        for segment in &spec.segments(1000)[4..] {
            let len = socket.recv(&mut buffer).expect("a datagram");
            assert!(buffer[..len] == segment.payload);
        }

        let size: libc::c_int = 1000;
        // SAFETY: the option is an int.
        let set = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_UDP,
                libc::UDP_SEGMENT,
                (&raw const size).cast(),
                size_of::<libc::c_int>() as libc::socklen_t,
            )
        };
        assert_eq!(set, 0);
        socket.send_to(&spec.payload, "10.9.0.1:40000").unwrap();
        let packet = tun.read().expect("what the socket sent");
        assert_eq!(segment_count(&packet), 10);
        assert_right(&packet);
        let payloads: Vec<Vec<u8>> =
            split_all(&packet, Layer::L3).unwrap().iter().map(|p| p.bytes[28..].to_vec()).collect();
        assert!(payloads.iter().map(Vec::as_slice).eq(spec.payload.chunks(1000)));
    });
}

#[test]
fn a_tcp_socket_takes_our_segments_and_sends_packets_that_we_read_right() {
    in_namespace(|| {
        let mut tun = Tun::new("tun", true);
        ip("addr add 10.9.0.2/24 dev tun");
        let listener = TcpListener::bind("10.9.0.2:40001").unwrap();
        let segment = |seq: u32, ack: u32, flags: u8, options: Vec<u8>, payload: Vec<u8>| {
            let mut spec = Spec::tcp(flags, payload);
            spec.transport = Transport::Tcp { seq, ack, flags, options };
            spec
        };
        // The MSS is clamped from 8960 to 1000: the socket must believe it.
        let mut syn = segment(999, 0, SYN, vec![2, 4, 35, 0], vec![]).packet();
        assert!(clamp_mss(&mut syn, Layer::L3, 1000));
        tun.write(&syn);
        let reply = tun.read().expect("SYN, ACK").bytes;
        assert_eq!(reply[33], SYN | ACK);
        let ours = u32::from_be_bytes([reply[24], reply[25], reply[26], reply[27]]) + 1;
        tun.write(&segment(1000, ours, ACK, vec![], vec![]).packet());
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();

        let sent: Vec<u8> = (0..8200).map(|index| (index % 253) as u8).collect();
        let mut packet = segment(1000, ours, ACK | PSH, vec![], sent.clone()).super_packet(1000);
        packet.bytes[1] |= 2;
        packet.bytes[10..12].fill(0);
        let header_checksum = naive_checksum(&packet.bytes[..20]);
        packet.bytes[10..12].copy_from_slice(&header_checksum.to_be_bytes());
        assert!(set_ce(&mut packet.bytes, Layer::L3));
        for range in [0..2, 5..9, 2..3, 3..5] {
            tun.write(&extract(&packet, range));
        }
        let mut received = vec![0; sent.len()];
        stream.read_exact(&mut received).expect("the whole stream");
        assert!(received == sent);

        stream.write_all(&sent[..5000]).unwrap();
        let (mut bytes, mut largest) = (0, 0);
        while bytes < 5000 {
            let packet = tun.read().expect("what the socket sent");
            assert_right(&packet);
            for piece in split_all(&packet, Layer::L3).unwrap() {
                let payload = piece.bytes.len() - 20 - usize::from(piece.bytes[32] >> 4) * 4;
                assert!(payload <= 1000, "the clamped MSS");
                bytes += payload;
            }
            largest = largest.max(segment_count(&packet));
        }
        assert!(largest > 1, "the kernel sent no super-packet");
    });
}

/// A packet of the kernel passes our checks, and cut it has right checksums.
fn assert_right(packet: &InnerPacket) {
    assert!(check(&packet.bytes, packet.offload, Layer::L3).is_ok(), "{:?}", packet.offload);
    for piece in split_all(packet, Layer::L3).unwrap() {
        assert_eq!(checksum::verify(&piece.bytes, Layer::L3), Some(true));
        assert_eq!(naive_checksum(&piece.bytes[..20]), 0);
    }
}
