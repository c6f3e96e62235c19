#![allow(unsafe_code)]

use braid_units::Time;
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How long a receiver waits for one packet.
const PATIENCE: Duration = Duration::from_millis(300);
/// Large, since the receiver may not run for a while on a busy machine.
const BUFFER: usize = 4 << 20;

/// A UDP socket that knows when the kernel received each packet (`SO_TIMESTAMPNS` of socket(7)),
/// independent of when the receiving thread runs.
pub(super) struct StampedSocket(UdpSocket);

/// A numbered packet and when it arrived.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    pub(super) number: usize,
    pub(super) at: Time,
}

/// The clock of the kernel's timestamps.
pub(super) fn wall_clock() -> Time {
    Time::ZERO + SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

impl StampedSocket {
    pub(super) fn bind(address: SocketAddr) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
        socket.set_recv_buffer_size(BUFFER)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.bind(&address.into())?;
        let on: libc::c_int = 1;
        // SAFETY: pointer and length describe `on`, which outlives the call.
        let result = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_TIMESTAMPNS,
                (&raw const on).cast(),
                size_of_val(&on) as libc::socklen_t,
            )
        };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(StampedSocket(socket.into()))
    }

    pub(super) fn local_address(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    pub(super) fn send(&self, payload: &[u8], to: SocketAddr) -> io::Result<usize> {
        self.0.send_to(payload, to)
    }

    /// The next packet, whose first four bytes are its number; `None` if none arrives for a while.
    pub(super) fn receive(&self) -> io::Result<Option<Arrival>> {
        let mut number = [0u8; 4];
        // Eight-byte words: control messages are aligned to them.
        let mut control = [0u64; 8];
        let mut part = libc::iovec { iov_base: number.as_mut_ptr().cast(), iov_len: number.len() };
        // SAFETY: msghdr is plain data, for which zeros are valid.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control) as _;
        // SAFETY: the message's pointers and lengths describe buffers that
        // outlive the call.
        let length = unsafe { libc::recvmsg(self.0.as_raw_fd(), &raw mut message, 0) };
        if length < 0 {
            let error = io::Error::last_os_error();
            return match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(None),
                _ => Err(error),
            };
        }
        let at = stamp(&message).unwrap_or_else(wall_clock);
        Ok(Some(Arrival { number: u32::from_be_bytes(number) as usize, at }))
    }
}

fn stamp(message: &libc::msghdr) -> Option<Time> {
    // SAFETY: the kernel has filled in the control messages that the header
    // describes; CMSG_FIRSTHDR and CMSG_NXTHDR stay inside them or give null.
    let mut header = unsafe { libc::CMSG_FIRSTHDR(message) };
    while !header.is_null() {
        // SAFETY: not null, so it points to a control message header.
        let (level, kind) = unsafe { ((*header).cmsg_level, (*header).cmsg_type) };
        if level == libc::SOL_SOCKET && kind == libc::SCM_TIMESTAMPNS {
            // SAFETY: a message of this kind carries a timespec.
            let time: libc::timespec =
                unsafe { std::ptr::read_unaligned(libc::CMSG_DATA(header).cast()) };
            let seconds = u64::try_from(time.tv_sec).ok()?;
            let nanos = u32::try_from(time.tv_nsec).ok()?;
            return Some(Time::ZERO + Duration::new(seconds, nanos));
        }
        // SAFETY: as above.
        header = unsafe { libc::CMSG_NXTHDR(message, header) };
    }
    None
}
