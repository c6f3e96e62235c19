//! Receiving: batches of datagrams, coalesced ones taken apart.

#![allow(unsafe_code)]

use super::address::SocketAddress;
use super::control::Control;
use super::{Kind, LinkSocket, carried};
use crate::sys;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;

/// Messages received per system call.
const BATCH: usize = 8;
/// The kernel coalesces up to this much.
const BUFFER_LEN: usize = 65_536;

/// A datagram received.
#[derive(Debug)]
pub struct Datagram<'a> {
    /// Who sent it.
    pub remote: SocketAddr,
    /// The local address that it was sent to.
    pub local: Option<IpAddr>,
    /// Outer TOS or traffic class byte; ECN is in the lowest two bits.
    pub traffic_class: u8,
    /// Its contents.
    pub bytes: &'a mut [u8],
}

/// The result of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Datagrams that could be used.
    pub datagrams: usize,
    /// The batch was full: more may be waiting. Otherwise nothing was, and asking again would waste
    /// a system call; the poller reports what has arrived since.
    pub more: bool,
}

/// Fixed-size memory to receive into; one is enough for all sockets of a thread.
pub struct ReceiveBuffers {
    bytes: Box<[u8]>,
    names: [SocketAddress; BATCH],
    controls: [Control; BATCH],
}

impl Default for ReceiveBuffers {
    fn default() -> ReceiveBuffers {
        ReceiveBuffers::new()
    }
}

impl ReceiveBuffers {
    /// 512 KiB, which become resident as they are used.
    pub fn new() -> ReceiveBuffers {
        ReceiveBuffers {
            bytes: vec![0; BATCH * BUFFER_LEN].into_boxed_slice(),
            names: [SocketAddress::none(); BATCH],
            controls: [Control::new(); BATCH],
        }
    }
}

impl LinkSocket {
    /// Receives one batch and calls `each` with every datagram.
    ///
    /// # Errors
    /// Those of recvmmsg(2), never `WouldBlock`.
    pub fn receive(
        &self,
        buffers: &mut ReceiveBuffers,
        mut each: impl FnMut(Datagram<'_>),
    ) -> io::Result<Received> {
        // SAFETY: all-zero is a valid mmsghdr.
        let mut headers: [libc::mmsghdr; BATCH] = unsafe { std::mem::zeroed() };
        let filled = self.fill(&mut headers, buffers)?;
        let mut datagrams = 0;
        let places = buffers.bytes.chunks_mut(BUFFER_LEN);
        let beside = buffers.names.iter().zip(&buffers.controls);
        for ((header, place), (name, control)) in
            headers.iter().zip(places).zip(beside).take(filled)
        {
            let cut = header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0;
            let bytes = place.get_mut(..header.msg_len as usize);
            if self.kind == Kind::Carried {
                let Some(bytes) = bytes.filter(|_| !cut) else { continue };
                let Some((head, bytes)) = carried::split(bytes) else { continue };
                for bytes in bytes.chunks_mut(head.segment.into()) {
                    let remote = head.remote;
                    each(Datagram { remote, local: None, traffic_class: 0, bytes });
                    datagrams += 1;
                }
                continue;
            }
            let (Some(mut remote), Some(bytes), false) = (name.get(), bytes, cut) else { continue };
            if let Kind::Udp { port_instead: Some(instead) } = self.kind
                && remote.port() == instead.used
            {
                remote.set_port(instead.named);
            }
            // A usize with glibc, 32 bits with musl.
            #[allow(clippy::unnecessary_cast)]
            let control_len = header.msg_hdr.msg_controllen as usize;
            let found = control.received(control_len);
            let stride = found.stride.unwrap_or(bytes.len()).max(1);
            for bytes in bytes.chunks_mut(stride) {
                let (local, traffic_class) = (found.local, found.traffic_class);
                each(Datagram { remote, local, traffic_class, bytes });
                datagrams += 1;
            }
        }
        Ok(Received { datagrams, more: filled == BATCH })
    }

    fn fill(
        &self,
        headers: &mut [libc::mmsghdr; BATCH],
        buffers: &mut ReceiveBuffers,
    ) -> io::Result<usize> {
        // SAFETY: all-zero is a valid iovec.
        let mut bodies: [libc::iovec; BATCH] = unsafe { std::mem::zeroed() };
        let places = buffers.bytes.chunks_mut(BUFFER_LEN);
        let beside = buffers.names.iter_mut().zip(&mut buffers.controls);
        for (((header, body), place), (name, control)) in
            headers.iter_mut().zip(&mut bodies).zip(places).zip(beside)
        {
            body.iov_base = place.as_mut_ptr().cast();
            body.iov_len = place.len();
            *name = SocketAddress::none();
            let message = &mut header.msg_hdr;
            message.msg_name = std::ptr::from_mut(name).cast();
            message.msg_namelen = SocketAddress::LEN as libc::socklen_t;
            message.msg_iov = body;
            message.msg_iovlen = 1;
            message.msg_control = control.as_mut_ptr();
            message.msg_controllen = Control::CAPACITY as _;
        }
        loop {
            // SAFETY: each header points to its own part of `buffers`, borrowed
            // mutably, and to `bodies`, which outlives the call.
            let received = sys::check(unsafe {
                libc::recvmmsg(
                    self.as_raw_fd(),
                    headers.as_mut_ptr(),
                    BATCH as libc::c_uint,
                    libc::MSG_DONTWAIT as _,
                    std::ptr::null_mut(),
                )
            });
            match received {
                Ok(count) => return Ok(count as usize),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(0),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}
