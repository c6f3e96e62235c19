//! Monitors changes: links come and go, DHCP assigns addresses, routes change.

#![allow(unsafe_code)]

use super::message::{Message, messages};
use super::{Address, Link, Route, address, link, route};
use crate::sys;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

const GROUPS: libc::c_int = libc::RTMGRP_LINK
    | libc::RTMGRP_IPV4_IFADDR
    | libc::RTMGRP_IPV6_IFADDR
    | libc::RTMGRP_IPV4_ROUTE
    | libc::RTMGRP_IPV6_ROUTE
    | group(RULES_V4)
    | group(RULES_V6)
    | group(SETTINGS_V4)
    | group(SETTINGS_V6);
/// `RTNLGRP_…` of linux/rtnetlink.h.
const RULES_V4: u32 = 8;
const RULES_V6: u32 = 19;
const SETTINGS_V4: u32 = 24;
const SETTINGS_V6: u32 = 25;
const RTM_NEWNETCONF: u16 = 80;
const BUFFER: usize = 64 * 1024;

/// Something changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// An interface appeared or changed.
    Link(Link),
    /// An interface is gone.
    LinkGone(Link),
    /// An address was set or changed.
    Address(Address),
    /// An address was taken away.
    AddressGone(Address),
    /// A route was set.
    Route(Route),
    /// A route was taken away.
    RouteGone(Route),
    /// A policy rule was set or taken away.
    Rule,
    /// A setting of an interface was changed (forwarding, reverse path filter).
    Setting,
    /// Changes came faster than they were read, and some were lost: list everything again.
    Lost,
}

/// Reports changes in the network namespace of the thread that opened it.
pub struct Monitor {
    fd: OwnedFd,
    buffer: Vec<u8>,
    waiting: VecDeque<Change>,
}

impl Monitor {
    /// Starts listening; changes from now on are reported.
    ///
    /// # Errors
    /// Those of socket(2) and bind(2).
    pub fn open() -> io::Result<Monitor> {
        let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK;
        let fd = sys::socket(libc::AF_NETLINK, kind, libc::NETLINK_ROUTE)?;
        // SAFETY: all-zero is a valid sockaddr_nl.
        let mut address: libc::sockaddr_nl = unsafe { std::mem::zeroed() };
        address.nl_family = libc::AF_NETLINK as libc::sa_family_t;
        address.nl_groups = GROUPS as u32;
        let len = std::mem::size_of::<libc::sockaddr_nl>() as libc::socklen_t;
        // SAFETY: pointer and length describe `address`.
        sys::check(unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), len) })?;
        Ok(Monitor { fd, buffer: vec![0; BUFFER], waiting: VecDeque::new() })
    }

    /// Reads all pending changes; returns whether there were any.
    ///
    /// # Errors
    /// As [`Monitor::next_change`].
    pub fn drain(&mut self) -> io::Result<bool> {
        let mut changed = false;
        while self.next_change()?.is_some() {
            changed = true;
        }
        Ok(changed)
    }

    /// The next change; `None` if none is pending (the descriptor becomes readable when one is).
    ///
    /// # Errors
    /// Those of recv(2).
    pub fn next_change(&mut self) -> io::Result<Option<Change>> {
        loop {
            if let Some(change) = self.waiting.pop_front() {
                return Ok(Some(change));
            }
            // SAFETY: pointer and length describe the buffer, borrowed mutably.
            let received = sys::check_len(unsafe {
                libc::recv(
                    self.fd.as_raw_fd(),
                    self.buffer.as_mut_ptr().cast(),
                    self.buffer.len(),
                    0,
                )
            });
            match received {
                Ok(len) => {
                    let datagram = self.buffer.get(..len).unwrap_or_default();
                    self.waiting.extend(messages(datagram).flat_map(changes));
                }
                Err(error) => match error.raw_os_error() {
                    Some(libc::EAGAIN) => return Ok(None),
                    Some(libc::ENOBUFS) => return Ok(Some(Change::Lost)),
                    Some(libc::EINTR) => {}
                    _ => return Err(error),
                },
            }
        }
    }
}

impl AsFd for Monitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn changes(message: Message<'_>) -> Vec<Change> {
    let body = message.body;
    let one = |change: Option<Change>| change.into_iter().collect();
    match message.kind {
        libc::RTM_NEWLINK => one(link::parse(body).map(Change::Link)),
        libc::RTM_DELLINK => one(link::parse(body).map(Change::LinkGone)),
        libc::RTM_NEWADDR => one(address::parse(body).map(Change::Address)),
        libc::RTM_DELADDR => one(address::parse(body).map(Change::AddressGone)),
        libc::RTM_NEWROUTE => route::parse(body).into_iter().map(Change::Route).collect(),
        libc::RTM_DELROUTE => route::parse(body).into_iter().map(Change::RouteGone).collect(),
        libc::RTM_NEWRULE | libc::RTM_DELRULE => vec![Change::Rule],
        RTM_NEWNETCONF => vec![Change::Setting],
        _ => Vec::new(),
    }
}

const fn group(number: u32) -> libc::c_int {
    1 << (number - 1)
}
