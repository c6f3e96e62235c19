//! Copies of packets from nftables' `log group` (linux/netfilter/nfnetlink_log.h).

#![allow(unsafe_code)]

use super::Netlink;
use super::message::{Request, attributes, messages};
use crate::sys;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

/// Receives copies of one group's packets until it is dropped. If its buffer is full, copies are
/// lost; the packets themselves aren't delayed.
#[derive(Debug)]
pub struct PacketLog {
    fd: OwnedFd,
    buffer: Vec<u8>,
}

/// `NFNL_SUBSYS_ULOG`.
const SUBSYSTEM: u16 = 4;
const PACKET: u16 = SUBSYSTEM << 8;
const CONFIG: u16 = SUBSYSTEM << 8 | 1;
const NFULA_CFG_CMD: u16 = 1;
const NFULA_CFG_MODE: u16 = 2;
const NFULNL_CFG_CMD_BIND: u8 = 1;
const NFULNL_COPY_PACKET: u8 = 2;
const NFULA_PAYLOAD: u16 = 9;
/// `struct nfgenmsg`.
const GENERIC_LEN: usize = 4;
/// Several packets arrive in one datagram.
const RECEIVE_BUFFER: usize = 256 * 1024;

impl PacketLog {
    /// Binds to an unused group in the calling thread's network namespace, and requests at most
    /// `bytes` of each packet.
    ///
    /// # Errors
    /// The kernel's error; `ResourceBusy` when the group is in use.
    pub fn open(group: u16, bytes: u32) -> io::Result<PacketLog> {
        let mut netlink = Netlink::speaking(libc::NETLINK_NETFILTER)?;
        let config = |attribute, payload: &[u8]| {
            let [high, low] = group.to_be_bytes();
            Request::new(CONFIG, 0)
                .fixed(&[libc::AF_UNSPEC as u8, 0, high, low])
                .attribute(attribute, payload)
        };
        netlink.change(config(NFULA_CFG_CMD, &[NFULNL_CFG_CMD_BIND]))?;
        let [a, b, c, d] = bytes.to_be_bytes();
        netlink.change(config(NFULA_CFG_MODE, &[a, b, c, d, NFULNL_COPY_PACKET, 0]))?;
        let fd = netlink.into_fd();
        let flags = sys::check(
            // SAFETY: no pointer is passed.
            unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFL) },
        )?;
        sys::check(
            // SAFETY: no pointer is passed.
            unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, flags | libc::O_NONBLOCK) },
        )?;
        Ok(PacketLog { fd, buffer: vec![0; RECEIVE_BUFFER] })
    }

    /// Calls `each` with every pending packet, starting at its IP header.
    ///
    /// # Errors
    /// `WouldBlock` when none is pending; otherwise those of recv(2).
    pub fn read(&mut self, mut each: impl FnMut(&[u8])) -> io::Result<()> {
        // SAFETY: pointer and length describe the buffer, borrowed mutably.
        let received = sys::check_len(unsafe {
            libc::recv(self.fd.as_raw_fd(), self.buffer.as_mut_ptr().cast(), self.buffer.len(), 0)
        });
        let length = match received {
            // Some were lost; continue.
            Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => return Ok(()),
            other => other?,
        };
        let datagram = self.buffer.get(..length).unwrap_or_default();
        for message in messages(datagram).filter(|message| message.kind == PACKET) {
            let body = message.body.get(GENERIC_LEN..).unwrap_or_default();
            for (_, payload) in attributes(body).filter(|(kind, _)| *kind == NFULA_PAYLOAD) {
                each(payload);
            }
        }
        Ok(())
    }
}

impl AsRawFd for PacketLog {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

impl AsFd for PacketLog {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
