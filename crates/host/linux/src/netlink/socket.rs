//! A blocking netlink socket: one request, its answers.

#![allow(unsafe_code)]

use super::message::{HEADER_LEN, Message, Request, messages, u32_at};
use crate::sys;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// The kernel fills at most this much of one datagram of a dump (netlink(7)
/// recommends at least 8 KiB; the kernel uses up to 32 KiB).
const RECEIVE_BUFFER: usize = 64 * 1024;
/// The kernel answers requests at once; a lost answer is an error and must not hang the control
/// thread.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// A connection to the kernel's routing tables, in the network namespace of
/// the thread that opened it.
pub struct Netlink {
    fd: OwnedFd,
    sequence: u32,
    buffer: Vec<u8>,
}

impl Netlink {
    /// Opens a socket for requests.
    ///
    /// # Errors
    /// Those of socket(2).
    pub fn open() -> io::Result<Netlink> {
        Netlink::speaking(libc::NETLINK_ROUTE)
    }

    /// Opens a socket of a netlink protocol (`NETLINK_…`).
    pub(super) fn speaking(protocol: libc::c_int) -> io::Result<Netlink> {
        let fd = sys::socket(libc::AF_NETLINK, libc::SOCK_RAW, protocol)?;
        let timeout = libc::timeval { tv_sec: ANSWER_TIMEOUT.as_secs() as _, tv_usec: 0 };
        // SAFETY: any `timeval` is plain bytes without padding on Linux.
        let bytes = unsafe {
            std::slice::from_raw_parts(
                (&raw const timeout).cast::<u8>(),
                std::mem::size_of::<libc::timeval>(),
            )
        };
        sys::set_option_bytes(fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_RCVTIMEO, bytes)?;
        // Makes the kernel filter dumps (such as the routes of one table).
        let _ = sys::set_option(&fd, libc::SOL_NETLINK, libc::NETLINK_GET_STRICT_CHK, 1);
        Ok(Netlink { fd, sequence: 0, buffer: vec![0; RECEIVE_BUFFER] })
    }

    /// Uses the caller's socket.
    #[cfg(test)]
    pub(super) fn over(fd: OwnedFd) -> Netlink {
        Netlink { fd, sequence: 0, buffer: vec![0; RECEIVE_BUFFER] }
    }

    /// The socket, for messages that are not answers.
    pub(super) fn into_fd(self) -> OwnedFd {
        self.fd
    }

    /// Sends a request that changes something and waits for the acknowledgement.
    pub(crate) fn change(&mut self, request: Request) -> io::Result<()> {
        self.exchange(request, |_| {})
    }

    /// Sends a request and calls `each` with the type and body of every answer.
    pub(crate) fn query(
        &mut self,
        request: Request,
        mut each: impl FnMut(u16, &[u8]),
    ) -> io::Result<()> {
        self.exchange(request, |message| each(message.kind, message.body))
    }

    /// Sends requests for changes as one transaction, framed by begin and end messages.
    pub(super) fn batch(
        &mut self,
        begin: Request,
        requests: Vec<Request>,
        end: Request,
    ) -> io::Result<()> {
        let first = self.sequence.wrapping_add(1);
        let mut waited_for = requests.len();
        let mut bytes = begin.finish(first);
        self.sequence = first;
        for request in requests {
            self.sequence = self.sequence.wrapping_add(1);
            bytes.extend(acknowledged(request.finish(self.sequence)));
        }
        self.sequence = self.sequence.wrapping_add(1);
        bytes.extend(end.finish(self.sequence));
        // SAFETY: pointer and length describe `bytes`.
        sys::check_len(unsafe {
            libc::send(self.fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), 0)
        })?;
        while waited_for > 0 {
            let len = self.receive()?;
            let datagram = self.buffer.get(..len).unwrap_or_default();
            for message in messages(datagram) {
                let ours =
                    message.sequence.wrapping_sub(first) <= self.sequence.wrapping_sub(first);
                if ours && libc::c_int::from(message.kind) == libc::NLMSG_ERROR {
                    status(message.body)?;
                    waited_for = waited_for.saturating_sub(1);
                }
            }
        }
        Ok(())
    }

    fn exchange(&mut self, request: Request, mut each: impl FnMut(Message<'_>)) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        // The acknowledgement ends a change; a dump ends by itself.
        let bytes = acknowledged(request.finish(self.sequence));
        // SAFETY: pointer and length describe `bytes`.
        sys::check_len(unsafe {
            libc::send(self.fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), 0)
        })?;
        loop {
            let len = self.receive()?;
            let datagram = self.buffer.get(..len).unwrap_or_default();
            for message in messages(datagram) {
                if message.sequence != self.sequence {
                    continue;
                }
                match libc::c_int::from(message.kind) {
                    libc::NLMSG_DONE => return status(message.body),
                    libc::NLMSG_ERROR => return status(message.body),
                    _ => each(message),
                }
            }
        }
    }

    fn receive(&mut self) -> io::Result<usize> {
        loop {
            // SAFETY: pointer and length describe the buffer, borrowed mutably.
            let received = sys::check_len(unsafe {
                libc::recv(
                    self.fd.as_raw_fd(),
                    self.buffer.as_mut_ptr().cast(),
                    self.buffer.len(),
                    libc::MSG_TRUNC,
                )
            });
            match received {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Err(io::Error::new(
                        io::ErrorKind::TimedOut,
                        "the kernel did not answer a netlink request",
                    ));
                }
                Ok(len) if len > self.buffer.len() => {
                    return Err(io::Error::new(
                        io::ErrorKind::InvalidData,
                        "a netlink answer exceeds the buffer",
                    ));
                }
                other => return other,
            }
        }
    }
}

impl AsRawFd for Netlink {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

fn acknowledged(mut request: Vec<u8>) -> Vec<u8> {
    let flags = u16::from_ne_bytes([request[6], request[7]]) | libc::NLM_F_ACK as u16;
    request[6..8].copy_from_slice(&flags.to_ne_bytes());
    request
}

/// `NLMSG_ERROR` and `NLMSG_DONE` start with a negated errno, or zero.
fn status(body: &[u8]) -> io::Result<()> {
    match u32_at(body, 0).map_or(0, |code| code as i32) {
        code if code < 0 => Err(io::Error::from_raw_os_error(code.saturating_neg())),
        _ => Ok(()),
    }
}

const _: () = assert!(HEADER_LEN == std::mem::size_of::<libc::nlmsghdr>());
