//! Notices changes of the firewall's rules: other programs may flush all rules, including ours.

#![allow(unsafe_code)]

use crate::sys;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// `NFNLGRP_NFTABLES` of linux/netfilter/nfnetlink.h
const GROUP: u32 = 7;

/// Watches nftables in the network namespace of the thread that opened it; the descriptor becomes
/// readable on changes.
pub struct Watch {
    fd: OwnedFd,
}

impl Watch {
    /// Starts listening.
    ///
    /// # Errors
    /// Those of socket(2) and bind(2): `EPROTONOSUPPORT` in a kernel without
    /// nftables.
    pub fn open() -> io::Result<Watch> {
        let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK;
        let fd = sys::socket(libc::AF_NETLINK, kind, libc::NETLINK_NETFILTER)?;
        // SAFETY: all-zero is a valid sockaddr_nl.
        let mut address: libc::sockaddr_nl = unsafe { std::mem::zeroed() };
        address.nl_family = libc::AF_NETLINK as libc::sa_family_t;
        address.nl_groups = 1 << (GROUP - 1);
        let len = std::mem::size_of::<libc::sockaddr_nl>() as libc::socklen_t;
        // SAFETY: pointer and length describe `address`.
        sys::check(unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), len) })?;
        Ok(Watch { fd })
    }

    /// Whether anything has changed since the last call.
    ///
    /// # Errors
    /// Those of recv(2).
    pub fn drain(&self) -> io::Result<bool> {
        let mut changed = false;
        // The contents don't matter, so they may be truncated.
        let mut message = [0u8; 64];
        loop {
            // SAFETY: pointer and length describe `message`.
            let received = sys::check_len(unsafe {
                libc::recv(
                    self.fd.as_raw_fd(),
                    message.as_mut_ptr().cast(),
                    message.len(),
                    libc::MSG_DONTWAIT,
                )
            });
            match received {
                Ok(_) => changed = true,
                Err(error) => match error.raw_os_error() {
                    Some(libc::EAGAIN) => return Ok(changed),
                    Some(libc::ENOBUFS) => changed = true,
                    Some(libc::EINTR) => {}
                    _ => return Err(error),
                },
            }
        }
    }
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
