//! UDP sockets bound to one link: batches are sent with segmentation offload and received with
//! receive offload (udp(7), ip(7), ipv6(7)).

mod address;
mod carried;
mod control;
mod receive;
mod send;
mod steering;

pub use braid_engines::Family;
pub use carried::{CarriedBatch, CarrierEnd, LARGEST_BATCH};
pub use receive::{Datagram, ReceiveBuffers, Received};
pub use send::{SendError, Transmit};
pub use steering::{Steered, Steering};

use crate::sys;
use address::SocketAddress;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// Some 60 ms of 1 Gbit/s, counted as the kernel counts (with its overhead).
const RECEIVE_BUFFER: libc::c_int = 16 << 20;
const SEND_BUFFER: libc::c_int = 4 << 20;
/// linux/udp.h
const UDP_SEGMENT: libc::c_int = 103;
const UDP_GRO: libc::c_int = 104;

/// How a socket is bound to a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkBind {
    /// Only through this interface, whatever the routes say (`SO_BINDTODEVICE`).
    pub device: Option<String>,
    /// From this address.
    pub source: Option<IpAddr>,
    /// With this mark, for policy rules (`SO_MARK`; needs `CAP_NET_ADMIN`).
    pub fwmark: Option<u32>,
    /// Local port; 0 for any.
    pub port: u16,
    /// IP version.
    pub family: Family,
}

/// A port of the peer that is replaced by another on the wire, hidden from the socket's user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortInstead {
    /// The port that the user sees.
    pub named: u16,
    /// The port on the wire.
    pub used: u16,
}

/// A non-blocking UDP socket that never fragments: packets longer than the path's MTU are lost or
/// refused, as MTU discovery needs (RFC 8899).
#[derive(Debug)]
pub struct LinkSocket {
    fd: OwnedFd,
    family: Family,
    segmentation: AtomicBool,
    kind: Kind,
}

/// What carries a socket's datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Udp {
        port_instead: Option<PortInstead>,
    },
    /// The holder of the other end carries them.
    Carried,
}

impl LinkSocket {
    /// Opens a socket in the calling thread's network namespace.
    ///
    /// # Errors
    /// `NotFound` (ENODEV) when there is no such device, `AddrNotAvailable`
    /// when the source isn't ours now, `AddrInUse`, `PermissionDenied` for a
    /// mark without `CAP_NET_ADMIN`, `InvalidInput` when source and family differ.
    pub fn open(bind: &LinkBind) -> io::Result<LinkSocket> {
        let socket = LinkSocket::unbound(bind)?;
        bind_to_address(&socket.fd, bind)?;
        Ok(socket)
    }

    fn unbound(bind: &LinkBind) -> io::Result<LinkSocket> {
        let family = bind.family;
        if bind.source.is_some_and(|source| Family::of(source) != family) {
            let message = "source address and socket differ in IP version";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let domain = match family {
            Family::V4 => libc::AF_INET,
            Family::V6 => libc::AF_INET6,
        };
        let fd = sys::socket(domain, libc::SOCK_DGRAM | libc::SOCK_NONBLOCK, 0)?;
        if let Some(mark) = bind.fwmark {
            sys::set_option(&fd, libc::SOL_SOCKET, libc::SO_MARK, mark as libc::c_int)
                .map_err(|error| context(error, "setting the firewall mark"))?;
        }
        if let Some(device) = &bind.device {
            bind_to_device(&fd, device)?;
        }
        never_fragment(&fd, family)?;
        report_addresses(&fd, family)?;
        grow_buffers(&fd)?;
        // Missing before Linux 5.0; then every datagram arrives separately.
        let _ = sys::set_option(&fd, libc::SOL_UDP, UDP_GRO, 1);
        let segmentation = sys::get_option(&fd, libc::SOL_UDP, UDP_SEGMENT).is_ok();
        let kind = Kind::Udp { port_instead: None };
        Ok(LinkSocket { fd, family, segmentation: AtomicBool::new(segmentation), kind })
    }

    /// From now on datagrams to `named` go to `used` instead, and those from `used` appear to come
    /// from `named`. A carried socket isn't changed.
    #[must_use]
    pub fn with_port_instead(self, instead: PortInstead) -> LinkSocket {
        let kind = match self.kind {
            Kind::Udp { .. } => Kind::Udp { port_instead: Some(instead) },
            Kind::Carried => Kind::Carried,
        };
        LinkSocket { kind, ..self }
    }

    /// Another reference to the socket, for sending.
    ///
    /// # Errors
    /// Those of fcntl(2).
    pub fn try_clone(&self) -> io::Result<LinkSocket> {
        Ok(LinkSocket {
            fd: self.fd.try_clone()?,
            family: self.family,
            segmentation: AtomicBool::new(self.segments_in_kernel()),
            kind: self.kind,
        })
    }

    /// The address and port the socket is bound to.
    ///
    /// # Errors
    /// Those of getsockname(2).
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        SocketAddress::of_socket(self.fd.as_raw_fd())
    }

    /// IP version of the socket.
    pub fn family(&self) -> Family {
        self.family
    }

    /// Whether batches go to the kernel in one call (`UDP_SEGMENT`). Switched off when the kernel
    /// or the device turns out not to support it.
    pub fn segments_in_kernel(&self) -> bool {
        self.segmentation.load(Ordering::Relaxed)
    }

    /// Never uses segmentation offload again.
    pub fn disable_segmentation(&self) {
        self.segmentation.store(false, Ordering::Relaxed);
    }
}

impl AsFd for LinkSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsRawFd for LinkSocket {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

fn bind_to_device(fd: &OwnedFd, device: &str) -> io::Result<()> {
    let (level, name) = (libc::SOL_SOCKET, libc::SO_BINDTODEVICE);
    sys::set_option_bytes(fd.as_raw_fd(), level, name, device.as_bytes())
        .map_err(|error| context(error, &format!("binding to interface '{device}'")))
}

/// Sets DF and ignores ICMP's path MTU, which is probed instead.
fn never_fragment(fd: &OwnedFd, family: Family) -> io::Result<()> {
    match family {
        Family::V4 => {
            sys::set_option(fd, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE)
        }
        Family::V6 => {
            let level = libc::IPPROTO_IPV6;
            sys::set_option(fd, level, libc::IPV6_V6ONLY, 1)?;
            sys::set_option(fd, level, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_PROBE)?;
            sys::set_option(fd, level, libc::IPV6_DONTFRAG, 1)
        }
    }
}

/// Requests the local address and the traffic class of received datagrams.
fn report_addresses(fd: &OwnedFd, family: Family) -> io::Result<()> {
    let (level, address, class) = match family {
        Family::V4 => (libc::IPPROTO_IP, libc::IP_PKTINFO, libc::IP_RECVTOS),
        Family::V6 => (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, libc::IPV6_RECVTCLASS),
    };
    sys::set_option(fd, level, address, 1)?;
    sys::set_option(fd, level, class, 1)
}

fn grow_buffers(fd: &OwnedFd) -> io::Result<()> {
    set_receive_buffer(fd, RECEIVE_BUFFER)?;
    set_buffer(fd, libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, SEND_BUFFER)
}

fn set_receive_buffer(fd: &OwnedFd, size: libc::c_int) -> io::Result<()> {
    set_buffer(fd, libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, size)
}

fn set_buffer(
    fd: &OwnedFd,
    force: libc::c_int,
    ask: libc::c_int,
    size: libc::c_int,
) -> io::Result<()> {
    // It may exceed net.core.*mem_max only with CAP_NET_ADMIN.
    if sys::set_option(fd, libc::SOL_SOCKET, force, size).is_err() {
        sys::set_option(fd, libc::SOL_SOCKET, ask, size)?;
    }
    Ok(())
}

fn bind_to_address(fd: &OwnedFd, bind: &LinkBind) -> io::Result<()> {
    let source = bind.source.unwrap_or(match bind.family {
        Family::V4 => Ipv4Addr::UNSPECIFIED.into(),
        Family::V6 => Ipv6Addr::UNSPECIFIED.into(),
    });
    let scope = match (source, &bind.device) {
        (IpAddr::V6(address), Some(device)) if address.is_unicast_link_local() => {
            address::interface_index(device)?
        }
        _ => 0,
    };
    SocketAddress::new(SocketAddr::new(source, bind.port), scope)
        .bind(fd.as_raw_fd())
        .map_err(|error| context(error, &format!("binding to {source} port {}", bind.port)))
}

fn context(error: io::Error, doing: &str) -> io::Error {
    io::Error::new(error.kind(), format!("{doing}: {error}"))
}
