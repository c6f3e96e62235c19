//! A TUN or TAP device with its offloads: super-packets of up to 64 KiB pass unsegmented
//! (Documentation/networking/tuntap.rst, linux/if_tun.h).

#![allow(unsafe_code)]

mod trust;
mod virtio;

use crate::netlink::Netlink;
use crate::sys;
use braid_inner::{Checksum, InnerPacket, Layer, Offload, SegmentationKind};
use std::fs::OpenOptions;
use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use trust::Trust;

/// The largest packet read from the device: 64 KiB and an Ethernet header with room for two VLAN
/// tags.
pub const MAX_PACKET: usize = 65_536 + 22;

const NO_OFFLOADS: libc::c_uint = 0;
const CHECKSUM_AND_TCP: libc::c_uint =
    libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;
/// Since Linux 6.2.
const CHECKSUM_TCP_AND_UDP: libc::c_uint = CHECKSUM_AND_TCP | libc::TUN_F_USO4 | libc::TUN_F_USO6;

/// Which offloads are requested from the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OffloadChoice {
    /// As many as the kernel supports.
    #[default]
    Best,
    /// None: packets in both directions fit the MTU and are complete.
    Off,
}

/// Which offloads the kernel granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Offloads {
    /// None.
    Off,
    /// Checksums and TCP segmentation (TSO).
    Tcp,
    /// These and UDP segmentation (USO).
    TcpAndUdp,
}

/// Error counters, in packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TunCounters {
    /// Read with a header that doesn't fit the packet; thrown away.
    pub malformed: u64,
    /// Super-packets cut here because the kernel refused them.
    pub cut_in_software: u64,
    /// Refused by the kernel; thrown away.
    pub refused: u64,
}

/// An open TUN or TAP device, or one queue of it; the device disappears when its last queue is
/// dropped.
pub struct Tun {
    fd: OwnedFd,
    name: String,
    layer: Layer,
    offloads: Offloads,
    header: bool,
    trust: [Trust; 3],
    netlink: Netlink,
    counters: TunCounters,
    /// Buffer for segmenting super-packets.
    scratch: Vec<u8>,
}

impl Tun {
    /// Creates a device in the calling thread's network namespace (or takes over a persistent one),
    /// non-blocking and down. A `%d` in the name is replaced by the first free number.
    ///
    /// # Errors
    /// `NotFound` when `/dev/net/tun` is missing, `PermissionDenied` without
    /// `CAP_NET_ADMIN`, `ResourceBusy` when the name is in use.
    pub fn open(name: &str, layer: Layer, choice: OffloadChoice) -> io::Result<Tun> {
        Tun::open_with(name, layer, choice, Queues::One)
    }

    /// As [`Self::open`], with the first of several queues, each with its own reader and writer:
    /// [`Self::another_queue`]. The kernel puts packets of a flow into the queue through which the
    /// flow's last packet was written, others by hash.
    ///
    /// # Errors
    /// As for [`Self::open`]; `ResourceBusy` for a persistent device, too.
    pub fn open_multi_queue(name: &str, layer: Layer, choice: OffloadChoice) -> io::Result<Tun> {
        Tun::open_with(name, layer, choice, Queues::First)
    }

    fn open_with(
        name: &str,
        layer: Layer,
        choice: OffloadChoice,
        queues: Queues,
    ) -> io::Result<Tun> {
        let fd = open_driver()?;
        let mut request = interface_request(name)?;
        let header = attach(&fd, &mut request, layer, queues)?;
        // A persistent device would survive a crash of ours.
        let _ = set(&fd, libc::TUNSETPERSIST, 0);
        Tun::attached(fd, request_name(&request), layer, header, choice)
    }

    /// One more queue of a device that was opened for several.
    ///
    /// # Errors
    /// `InvalidInput` when it was opened for one, `ArgumentListTooLong` (E2BIG) when it has as
    /// many as the kernel allows, 256.
    pub fn another_queue(&self) -> io::Result<Tun> {
        let fd = open_driver()?;
        let mut request = interface_request(&self.name)?;
        let header = attach(&fd, &mut request, self.layer, Queues::Another)?;
        let choice = match self.offloads {
            Offloads::Off => OffloadChoice::Off,
            _ => OffloadChoice::Best,
        };
        Tun::attached(fd, self.name.clone(), self.layer, header, choice)
    }

    /// Whether `device`, opened here or passed on, may have several queues.
    ///
    /// # Errors
    /// Those of the kernel when the device was deleted.
    pub fn is_multi_queue(device: impl AsFd) -> io::Result<bool> {
        Ok(request_of(device)?.1 & libc::IFF_MULTI_QUEUE != 0)
    }

    /// Continues with a device that another process opened: its routes and addresses still exist.
    ///
    /// # Errors
    /// `InvalidInput` when it isn't a device of this layer, those of the kernel when it isn't a
    /// device or was deleted.
    pub fn adopt(fd: OwnedFd, layer: Layer, choice: OffloadChoice) -> io::Result<Tun> {
        let (request, flags) = request_of(&fd)?;
        if flags & (libc::IFF_TUN | libc::IFF_TAP) != kind(layer) {
            let why = "the device that was passed on is of the other layer";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let header = flags & libc::IFF_VNET_HDR != 0;
        Tun::attached(fd, request_name(&request), layer, header, choice)
    }

    /// Another reference to the device, which exists as long as there is one.
    ///
    /// # Errors
    /// Those of fcntl(2).
    pub fn hold(&self) -> io::Result<OwnedFd> {
        self.fd.try_clone()
    }

    fn attached(
        fd: OwnedFd,
        name: String,
        layer: Layer,
        header: bool,
        choice: OffloadChoice,
    ) -> io::Result<Tun> {
        let offloads = if header {
            set_header_size(&fd)?;
            negotiate(&fd, choice)?
        } else {
            Offloads::Off
        };
        Ok(Tun {
            fd,
            name,
            layer,
            offloads,
            header,
            trust: [Trust::default(); 3],
            netlink: Netlink::open()?,
            counters: TunCounters::default(),
            scratch: Vec::new(),
        })
    }

    /// Reads the next packet into `bytes` (replacing its contents) and returns what work is left on
    /// it; `None` when no packet is waiting. Packets whose header doesn't fit them are counted and
    /// skipped.
    ///
    /// # Errors
    /// Those of the device, for instance that it was deleted.
    pub fn read(&mut self, bytes: &mut Vec<u8>) -> io::Result<Option<Offload>> {
        loop {
            let mut header = [0; virtio::HEADER_LEN];
            bytes.clear();
            bytes.reserve(MAX_PACKET);
            match self.read_once(&mut header, bytes) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            match virtio::decode(&header, bytes) {
                Some(offload) => return Ok(Some(offload)),
                None => self.counters.malformed += 1,
            }
        }
    }

    /// Gives a packet to the kernel. A super-packet that the kernel refuses is segmented here.
    ///
    /// # Errors
    /// `InvalidInput` when the kernel refuses the packet even then (the caller continues with the
    /// next), others when the device is down or gone.
    pub fn write(&mut self, packet: &InnerPacket) -> io::Result<()> {
        let written = match self.kernel_can(packet) {
            true => self.write_super(packet),
            false => self.write_cut(packet),
        };
        if matches!(&written, Err(error) if error.kind() == io::ErrorKind::InvalidInput) {
            self.counters.refused += 1;
        }
        written
    }

    /// The device's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the device carries.
    pub fn layer(&self) -> Layer {
        self.layer
    }

    /// The offloads that the kernel granted.
    pub fn offloads(&self) -> Offloads {
        self.offloads
    }

    /// What went wrong so far.
    pub fn counters(&self) -> TunCounters {
        self.counters
    }

    /// Sets the MTU, bytes: up to 65,535 (TUN) or 65,521 (TAP).
    ///
    /// # Errors
    /// `InvalidInput` when it is out of range.
    pub fn set_mtu(&mut self, mtu: u32) -> io::Result<()> {
        self.netlink.set_mtu(&self.name, mtu)
    }

    /// Sets how many packets wait in the device's ring before the kernel drops
    /// new ones silently (500 by default).
    ///
    /// # Errors
    /// Those of the kernel, for instance lack of memory.
    pub fn set_queue_length(&mut self, packets: u32) -> io::Result<()> {
        self.netlink.set_queue_length(&self.name, packets)
    }

    /// Brings the device up.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn bring_up(&mut self) -> io::Result<()> {
        self.netlink.set_up(&self.name)
    }

    /// Packets that the kernel dropped because the ring was full.
    ///
    /// # Errors
    /// Those of the kernel, for instance that the device is gone.
    pub fn dropped(&mut self) -> io::Result<u64> {
        Ok(self.netlink.link(&self.name)?.sent_dropped)
    }

    fn read_once(
        &self,
        header: &mut [u8; virtio::HEADER_LEN],
        bytes: &mut Vec<u8>,
    ) -> io::Result<()> {
        let spare = bytes.spare_capacity_mut();
        let body = libc::iovec { iov_base: spare.as_mut_ptr().cast(), iov_len: spare.len() };
        let head = libc::iovec { iov_base: header.as_mut_ptr().cast(), iov_len: self.header_len() };
        let parts = [head, body];
        // SAFETY: both parts describe memory that is borrowed mutably here.
        let read = sys::check_len(unsafe {
            libc::readv(self.fd.as_raw_fd(), parts.as_ptr(), parts.len() as libc::c_int)
        })?;
        let len = read.saturating_sub(self.header_len()).min(spare.len());
        // SAFETY: the kernel has written `len` bytes from the vector's start,
        // and `len` is within its capacity.
        unsafe { bytes.set_len(len) };
        Ok(())
    }

    /// Whether the packet may be given to the kernel as it is.
    fn kernel_can(&mut self, packet: &InnerPacket) -> bool {
        match (packet.offload.segmentation, packet.offload.checksum) {
            (None, Checksum::Complete) => true,
            (None, Checksum::Partial { .. }) => self.header,
            (Some(_), Checksum::Complete) => false,
            (Some(segmentation), Checksum::Partial { .. }) => {
                self.offloads >= needed(segmentation.kind)
                    && self.trust[slot(segmentation.kind)].try_it()
            }
        }
    }

    fn write_super(&mut self, packet: &InnerPacket) -> io::Result<()> {
        let written = self.write_once(&virtio::encode(&packet.offload), &packet.bytes);
        let Some(segmentation) = packet.offload.segmentation else { return written };
        match written {
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                // The kernel has been seen to refuse valid ones (tailscale#13041) but accept their
                // segments.
                self.write_cut(packet)?;
                self.trust[slot(segmentation.kind)].refused();
                Ok(())
            }
            Ok(()) => {
                self.trust[slot(segmentation.kind)].accepted();
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    fn write_cut(&mut self, packet: &InnerPacket) -> io::Result<()> {
        self.counters.cut_in_software += 1;
        let complete = virtio::encode(&Offload::default());
        let mut scratch = mem::take(&mut self.scratch);
        let mut written = Ok(());
        let cut = braid_inner::for_each_segment(packet, self.layer, &mut scratch, |segment| {
            if written.is_ok() {
                written = self.write_once(&complete, segment);
            }
        });
        self.scratch = scratch;
        cut.map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        written
    }

    fn write_once(&self, header: &[u8; virtio::HEADER_LEN], bytes: &[u8]) -> io::Result<()> {
        let head =
            libc::iovec { iov_base: header.as_ptr().cast_mut().cast(), iov_len: self.header_len() };
        let body = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        let parts = [head, body];
        loop {
            // SAFETY: both parts describe borrowed memory that writev only reads.
            let written = sys::check_len(unsafe {
                libc::writev(self.fd.as_raw_fd(), parts.as_ptr(), parts.len() as libc::c_int)
            });
            match written {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => return other.map(drop),
            }
        }
    }

    fn header_len(&self) -> usize {
        if self.header { virtio::HEADER_LEN } else { 0 }
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsRawFd for Tun {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Queues {
    One,
    First,
    Another,
}

fn open_driver() -> io::Result<OwnedFd> {
    let opened = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open("/dev/net/tun");
    let hint = |error: io::Error| {
        io::Error::new(error.kind(), format!("/dev/net/tun: {error} (try: modprobe tun)"))
    };
    opened.map(OwnedFd::from).map_err(hint)
}

/// The device's name and flags.
fn request_of(fd: impl AsFd) -> io::Result<(libc::ifreq, libc::c_int)> {
    let mut request = interface_request("unknown")?;
    // SAFETY: TUNGETIFF writes one `struct ifreq`.
    sys::check(unsafe { libc::ioctl(fd.as_fd().as_raw_fd(), libc::TUNGETIFF, &raw mut request) })?;
    // SAFETY: TUNGETIFF has set the flags.
    let flags = libc::c_int::from(unsafe { request.ifr_ifru.ifru_flags });
    Ok((request, flags))
}

/// Attaches to the device; tells whether packets carry a virtio-net header.
fn attach(
    fd: &OwnedFd,
    request: &mut libc::ifreq,
    layer: Layer,
    queues: Queues,
) -> io::Result<bool> {
    let kind = match queues {
        Queues::One => kind(layer),
        // Another program's queue would be taken for one of ours.
        Queues::First => kind(layer) | libc::IFF_MULTI_QUEUE | libc::IFF_TUN_EXCL,
        Queues::Another => kind(layer) | libc::IFF_MULTI_QUEUE,
    };
    let mut with = |flags: libc::c_int| {
        request.ifr_ifru.ifru_flags = flags as libc::c_short;
        // SAFETY: TUNSETIFF reads and writes one `struct ifreq`.
        sys::check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETIFF, &raw mut *request) })
    };
    match with(kind | libc::IFF_NO_PI | libc::IFF_VNET_HDR) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
            with(kind | libc::IFF_NO_PI).map(|_| false)
        }
        Err(error) => Err(error),
    }
}

fn kind(layer: Layer) -> libc::c_int {
    match layer {
        Layer::L3 => libc::IFF_TUN,
        Layer::L2 => libc::IFF_TAP,
    }
}

fn negotiate(fd: &OwnedFd, choice: OffloadChoice) -> io::Result<Offloads> {
    let wanted = [
        (CHECKSUM_TCP_AND_UDP, Offloads::TcpAndUdp),
        (CHECKSUM_AND_TCP, Offloads::Tcp),
        (NO_OFFLOADS, Offloads::Off),
    ];
    let from = match choice {
        OffloadChoice::Best => 0,
        OffloadChoice::Off => 2,
    };
    let mut refusal = None;
    for (bits, offloads) in wanted.into_iter().skip(from) {
        match set(fd, libc::TUNSETOFFLOAD, libc::c_ulong::from(bits)) {
            Ok(()) => return Ok(offloads),
            Err(error) => refusal = Some(error),
        }
    }
    refusal.map_or(Ok(Offloads::Off), Err)
}

fn set_header_size(fd: &OwnedFd) -> io::Result<()> {
    let size = virtio::HEADER_LEN as libc::c_int;
    // SAFETY: TUNSETVNETHDRSZ reads one int.
    sys::check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETVNETHDRSZ, &raw const size) })
        .map(drop)
}

/// An ioctl that takes its argument by value.
fn set(fd: &OwnedFd, request: libc::Ioctl, value: libc::c_ulong) -> io::Result<()> {
    // SAFETY: the requests used here take a number, not a pointer.
    sys::check(unsafe { libc::ioctl(fd.as_raw_fd(), request, value) }).map(drop)
}

fn interface_request(name: &str) -> io::Result<libc::ifreq> {
    // SAFETY: all-zero is a valid `ifreq`: an empty name and zero flags.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    // The last byte stays the terminator.
    if name.is_empty() || name.len() >= request.ifr_name.len() || name.contains('\0') {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("interface name '{name}' must have 1 to 15 bytes"),
        ));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    Ok(request)
}

fn request_name(request: &libc::ifreq) -> String {
    let name = request.ifr_name.iter().take_while(|&&byte| byte != 0);
    String::from_utf8_lossy(&name.map(|&byte| byte as u8).collect::<Vec<_>>()).into_owned()
}

fn needed(kind: SegmentationKind) -> Offloads {
    match kind {
        SegmentationKind::TcpV4 | SegmentationKind::TcpV6 => Offloads::Tcp,
        SegmentationKind::Udp => Offloads::TcpAndUdp,
    }
}

fn slot(kind: SegmentationKind) -> usize {
    match kind {
        SegmentationKind::TcpV4 => 0,
        SegmentationKind::TcpV6 => 1,
        SegmentationKind::Udp => 2,
    }
}
