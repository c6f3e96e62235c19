//! A network namespace with TUN devices, for one test each.

#![allow(unsafe_code)]

use braid_inner::{Checksum, InnerPacket, Layer, Offload, Segmentation, SegmentationKind};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::process::Command;
use std::time::Duration;

/// Runs `test` in a thread with a network namespace of its own, which ends
/// with the thread. Says so and skips where that is not allowed.
pub fn in_namespace(test: impl FnOnce() + Send + 'static) {
    let thread = std::thread::spawn(|| {
        // SAFETY: unshare changes this new thread only.
        if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
            println!("SKIPPED: no network namespace: {}", io::Error::last_os_error());
            return;
        }
        if let Err(error) = File::open("/dev/net/tun") {
            println!("SKIPPED: /dev/net/tun: {error}");
            return;
        }
        ip("link set lo up");
        test();
    });
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

/// Runs `ip` with these arguments in the thread's namespace.
pub fn ip(arguments: &str) {
    let output = Command::new("ip").args(arguments.split(' ')).output().expect("iproute2");
    assert!(output.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&output.stderr));
}

pub fn sysctl(name: &str, value: &str) {
    std::fs::write(format!("/proc/sys/net/{name}"), value).expect(name);
}

/// A TUN device, set up and without addresses.
pub struct Tun {
    file: File,
    offloads: bool,
}

const VIRTIO_HEADER: usize = 10;
const NEEDS_CHECKSUM: u8 = 1;
const GSO: [(u8, SegmentationKind); 3] =
    [(1, SegmentationKind::TcpV4), (4, SegmentationKind::TcpV6), (5, SegmentationKind::Udp)];
const GSO_ECN: u8 = 0x80;

impl Tun {
    /// With virtio-net headers and all offloads, or without any.
    pub fn new(name: &str, offloads: bool) -> Tun {
        const TUNSETIFF: libc::c_ulong = 0x4004_54ca;
        const TUNSETOFFLOAD: libc::c_ulong = 0x4004_54d0;
        const IFF_TUN_NO_PI: u16 = 0x1001;
        const IFF_VNET_HDR: u16 = 0x4000;
        /// Checksum, TSO4, TSO6, TSO with ECN, USO4, USO6.
        const ALL_OFFLOADS: libc::c_ulong = 0x6f;
        let file = OpenOptions::new().read(true).write(true).open("/dev/net/tun").unwrap();
        // struct ifreq: the name, then the flags.
        let mut request = [0u8; 40];
        request[..name.len()].copy_from_slice(name.as_bytes());
        let flags = IFF_TUN_NO_PI | if offloads { IFF_VNET_HDR } else { 0 };
        request[16..18].copy_from_slice(&flags.to_ne_bytes());
        // SAFETY: `request` is as large as struct ifreq.
        let set = unsafe { libc::ioctl(file.as_raw_fd(), TUNSETIFF, request.as_mut_ptr()) };
        assert_eq!(set, 0, "TUNSETIFF: {}", io::Error::last_os_error());
        if offloads {
            // SAFETY: this ioctl takes its argument by value.
            let set = unsafe { libc::ioctl(file.as_raw_fd(), TUNSETOFFLOAD, ALL_OFFLOADS) };
            assert_eq!(set, 0, "TUNSETOFFLOAD: {}", io::Error::last_os_error());
        }
        // The kernel's own chatter (router solicitations) would be in the way.
        sysctl(&format!("ipv6/conf/{name}/addr_gen_mode"), "1");
        ip(&format!("link set {name} up"));
        Tun { file, offloads }
    }

    pub fn write(&mut self, packet: &InnerPacket) {
        let mut bytes = Vec::new();
        if self.offloads {
            bytes.extend_from_slice(&virtio_header(packet.offload));
        }
        bytes.extend_from_slice(&packet.bytes);
        let written = self.file.write(&bytes).expect("the kernel takes the packet");
        assert_eq!(written, bytes.len());
    }

    /// The next packet; `None` when none comes within five seconds.
    pub fn read(&mut self) -> Option<InnerPacket> {
        let mut poll = libc::pollfd { fd: self.file.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let timeout = Duration::from_secs(5).as_millis() as libc::c_int;
        // SAFETY: one pollfd, as said.
        if unsafe { libc::poll(&mut poll, 1, timeout) } != 1 {
            return None;
        }
        let mut bytes = vec![0; 70_000];
        let len = self.file.read(&mut bytes).unwrap();
        bytes.truncate(len);
        let mut offload = Offload::default();
        if self.offloads {
            let header: Vec<u8> = bytes.drain(..VIRTIO_HEADER).collect();
            offload = read_virtio_header(&header, &bytes);
        }
        Some(InnerPacket { bytes, offload })
    }
}

/// struct virtio_net_hdr: flags, gso_type, hdr_len, gso_size, csum_start,
/// csum_offset.
fn virtio_header(offload: Offload) -> [u8; VIRTIO_HEADER] {
    let mut header = [0; VIRTIO_HEADER];
    if let Checksum::Partial { start, offset } = offload.checksum {
        header[0] = NEEDS_CHECKSUM;
        header[6..8].copy_from_slice(&start.to_ne_bytes());
        header[8..10].copy_from_slice(&offset.to_ne_bytes());
    }
    if let Some(segmentation) = offload.segmentation {
        let (gso, _) = GSO.into_iter().find(|&(_, kind)| kind == segmentation.kind).unwrap();
        header[1] = gso | if segmentation.ecn { GSO_ECN } else { 0 };
        header[2..4].copy_from_slice(&segmentation.header_len.to_ne_bytes());
        header[4..6].copy_from_slice(&segmentation.segment_size.get().to_ne_bytes());
    }
    header
}

fn read_virtio_header(header: &[u8], bytes: &[u8]) -> Offload {
    let field = |at| u16::from_ne_bytes([header[at], header[at + 1]]);
    let checksum = if header[0] & NEEDS_CHECKSUM != 0 {
        Checksum::Partial { start: field(6), offset: field(8) }
    } else {
        Checksum::Complete
    };
    let kind = GSO.into_iter().find(|&(gso, _)| gso == header[1] & !GSO_ECN);
    let segmentation = kind.and_then(|(_, kind)| {
        Segmentation::of(bytes, Layer::L3, kind, field(4), header[1] & GSO_ECN != 0)
    });
    Offload { checksum, segmentation }
}
