//! Sending: one datagram, or a batch of equal ones in one call.

#![allow(unsafe_code)]

use super::address::SocketAddress;
use super::control::Control;
use super::{Family, Kind, LinkSocket};
use crate::sys;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;

/// The kernel's limit (`UDP_MAX_SEGMENTS`) before Linux 6.9.
const MAX_SEGMENTS: usize = 64;
/// Largest UDP payload over IPv4.
const MAX_BATCH: usize = 65_507;

/// What to send, to whom.
#[derive(Clone, Copy, Debug)]
pub struct Transmit<'a> {
    /// The destination.
    pub remote: SocketAddr,
    /// The source address, if the socket isn't bound to one.
    pub local: Option<IpAddr>,
    /// Outer TOS or traffic class byte: DSCP and, in the lowest two bits, ECN.
    pub traffic_class: u8,
    /// The datagram, or a batch of them one after another.
    pub contents: &'a [u8],
    /// Length of each datagram of the batch except the last; `None` for a single one.
    pub segment_size: Option<usize>,
}

/// Why something could not be sent. Preceding datagrams of a batch have been sent.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// The socket's buffer is full: wait until it is writable, then send what
    /// follows the first `sent` bytes.
    #[error("the socket's send buffer is full")]
    WouldBlock {
        /// Bytes of the batch that have been sent.
        sent: usize,
    },
    /// The destination is unreachable over this link at the moment: no route, link down, address
    /// gone.
    #[error("the destination can't be reached over this link: {0}")]
    Unreachable(io::Error),
    /// The destination answered that the port is closed.
    #[error("the destination refuses: {0}")]
    Refused(io::Error),
    /// A local firewall forbids it.
    #[error("forbidden by the local firewall: {0}")]
    Denied(io::Error),
    /// The interface's queue is full: the datagram is lost.
    #[error("the interface's queue is full: {0}")]
    QueueFull(io::Error),
    /// Longer than the interface's MTU allows.
    #[error("longer than the interface's MTU allows: {0}")]
    TooLong(io::Error),
    /// Anything else.
    #[error(transparent)]
    Other(io::Error),
}

impl LinkSocket {
    /// Sends a datagram or a batch. If the kernel or the device can't segment batches, they are
    /// split here from then on.
    ///
    /// # Errors
    /// See [`SendError`].
    pub fn send(&self, transmit: &Transmit<'_>) -> Result<(), SendError> {
        if self.kind == Kind::Carried {
            return self.send_carried(transmit);
        }
        let size = transmit.segment_size.unwrap_or(transmit.contents.len()).max(1);
        if transmit.contents.len() <= size {
            return self.send_once(transmit, transmit.contents, None).map_err(|e| classify(e, 0));
        }
        let batch = size * MAX_SEGMENTS.min(MAX_BATCH / size).max(1);
        let mut sent = 0;
        for part in transmit.contents.chunks(batch) {
            self.send_part(transmit, part, size, sent)?;
            sent += part.len();
        }
        Ok(())
    }

    /// Sends what the kernel accepts in one call; `before` bytes have been sent already.
    fn send_part(
        &self,
        transmit: &Transmit<'_>,
        part: &[u8],
        size: usize,
        before: usize,
    ) -> Result<(), SendError> {
        let cuttable = u16::try_from(size).ok().filter(|_| self.segments_in_kernel());
        let Some(segment) = cuttable.filter(|_| part.len() > size) else {
            return self.send_each(transmit, part, size, before);
        };
        match self.send_once(transmit, part, Some(segment)) {
            // Errors of drivers and kernels that can't (quinn#1128, #2202).
            Err(error)
                if matches!(
                    error.raw_os_error(),
                    Some(libc::EIO | libc::EINVAL | libc::EMSGSIZE)
                ) =>
            {
                let (first, rest) = part.split_at(size);
                self.send_each(transmit, first, size, before)?;
                // Sent alone it succeeded, so segmentation was at fault.
                self.disable_segmentation();
                self.send_each(transmit, rest, size, before + size)
            }
            result => result.map_err(|error| classify(error, before)),
        }
    }

    fn send_each(
        &self,
        transmit: &Transmit<'_>,
        part: &[u8],
        size: usize,
        before: usize,
    ) -> Result<(), SendError> {
        let mut sent = before;
        for datagram in part.chunks(size) {
            self.send_once(transmit, datagram, None).map_err(|error| classify(error, sent))?;
            sent += datagram.len();
        }
        Ok(())
    }

    fn send_once(
        &self,
        transmit: &Transmit<'_>,
        contents: &[u8],
        segment: Option<u16>,
    ) -> io::Result<()> {
        let mut control = Control::new();
        if let Some(local) = transmit.local.filter(|&local| Family::of(local) == self.family()) {
            control.push_source(local);
        }
        if transmit.traffic_class != 0 {
            control.push_traffic_class(self.family(), transmit.traffic_class);
        }
        if let Some(size) = segment {
            control.push_segment_size(size);
        }
        let mut remote = transmit.remote;
        if let Kind::Udp { port_instead: Some(instead) } = self.kind
            && remote.port() == instead.named
        {
            remote.set_port(instead.used);
        }
        let mut remote = SocketAddress::new(remote, 0);
        let mut body =
            libc::iovec { iov_base: contents.as_ptr().cast_mut().cast(), iov_len: contents.len() };
        // SAFETY: all-zero is a valid msghdr (it has padding on some platforms).
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_name = (&raw mut remote).cast();
        message.msg_namelen = remote.len();
        message.msg_iov = &raw mut body;
        message.msg_iovlen = 1;
        if control.len() > 0 {
            message.msg_control = control.as_mut_ptr();
            message.msg_controllen = control.len() as _;
        }
        loop {
            // SAFETY: the message points to live locals and borrowed memory,
            // which sendmsg only reads.
            let sent = sys::check_len(unsafe {
                libc::sendmsg(self.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL)
            });
            match sent {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => return other.map(drop),
            }
        }
    }
}

fn classify(error: io::Error, sent: usize) -> SendError {
    match error.raw_os_error() {
        Some(libc::EAGAIN) => SendError::WouldBlock { sent },
        Some(
            libc::ENETUNREACH
            | libc::EHOSTUNREACH
            | libc::ENETDOWN
            | libc::EHOSTDOWN
            | libc::EADDRNOTAVAIL
            | libc::ENODEV
            | libc::ENXIO
            // The source address is gone.
            | libc::EINVAL,
        ) => SendError::Unreachable(error),
        Some(libc::ECONNREFUSED) => SendError::Refused(error),
        Some(libc::EPERM | libc::EACCES) => SendError::Denied(error),
        Some(libc::ENOBUFS | libc::ENOMEM) => SendError::QueueFull(error),
        Some(libc::EMSGSIZE) => SendError::TooLong(error),
        _ => SendError::Other(error),
    }
}
