//! A socket whose datagrams aren't carried by UDP: a pair of local sockets (unix(7),
//! `SOCK_SEQPACKET`), one end in place of a UDP socket, the other for the carrier. A message is a
//! batch: the address, the length of each datagram but the last, the datagrams.

#![allow(unsafe_code)]

use super::{Family, Kind, LinkSocket, SendError, Transmit};
use crate::sys;
use std::io::{self, IoSlice};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::AtomicBool;

/// Datagrams of one batch, bytes: with its head it fits into UDP's receive buffers.
pub const LARGEST_BATCH: usize = 65_000;
/// IP version, address, port, length of a datagram.
const HEAD: usize = 1 + 16 + 2 + 2;
/// Buffer between both ends, as the kernel counts: some batches. The carrier takes them out at once
/// and has its own queue.
const BUFFER: libc::c_int = 1 << 20;

/// The carrier's end; non-blocking.
#[derive(Debug)]
pub struct CarrierEnd {
    fd: OwnedFd,
}

/// Datagrams of equal length (the last may be shorter) to or from one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CarriedBatch<'a> {
    /// Destination or source.
    pub remote: SocketAddr,
    /// Length of each datagram except the last; not 0.
    pub segment: u16,
    /// The datagrams, one after another.
    pub contents: &'a [u8],
}

/// The header before the datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) remote: SocketAddr,
    pub(super) segment: u16,
}

impl LinkSocket {
    /// A carried socket for addresses of `family`, and the carrier's end. When one end is closed,
    /// the other notices.
    ///
    /// # Errors
    /// Those of socketpair(2).
    pub fn carried(family: Family) -> io::Result<(LinkSocket, CarrierEnd)> {
        let mut fds = [0; 2];
        let kind = libc::SOCK_SEQPACKET | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // SAFETY: the array has room for the two descriptors that are written.
        sys::check(unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, fds.as_mut_ptr()) })?;
        // SAFETY: the call succeeded, so both are open and nobody else's.
        let [ours, theirs] = fds.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
        for fd in [&ours, &theirs] {
            if sys::set_option(fd, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, BUFFER).is_err() {
                sys::set_option(fd, libc::SOL_SOCKET, libc::SO_SNDBUF, BUFFER)?;
            }
        }
        let segmentation = AtomicBool::new(true);
        let socket = LinkSocket { fd: ours, family, segmentation, kind: Kind::Carried };
        Ok((socket, CarrierEnd { fd: theirs }))
    }

    pub(super) fn send_carried(&self, transmit: &Transmit<'_>) -> Result<(), SendError> {
        let size = transmit.segment_size.unwrap_or(transmit.contents.len());
        let Some(segment) = u16::try_from(size).ok().filter(|&size| size > 0) else {
            return Err(SendError::TooLong(io::ErrorKind::InvalidInput.into()));
        };
        let most = LARGEST_BATCH / size * size;
        let mut sent = 0;
        for contents in transmit.contents.chunks(most.max(size)) {
            let batch = CarriedBatch { remote: transmit.remote, segment, contents };
            match send(self.fd.as_fd(), &batch) {
                Ok(()) => sent += contents.len(),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Err(SendError::WouldBlock { sent });
                }
                Err(error) => return Err(SendError::Other(error)),
            }
        }
        Ok(())
    }
}

impl CarrierEnd {
    /// The socket, for a runtime to watch; [`CarriedBatch::send`] and [`CarriedBatch::receive`] use
    /// it.
    pub fn into_fd(self) -> OwnedFd {
        self.fd
    }
}

impl CarriedBatch<'_> {
    /// Delivers it to the holder of the socket; `end` is the carrier's.
    ///
    /// # Errors
    /// `WouldBlock` while its buffer is full, `BrokenPipe` when it is closed.
    pub fn send(&self, end: impl AsFd) -> io::Result<()> {
        send(end.as_fd(), self)
    }

    /// Receives a batch to carry; `buffer` should have room for [`LARGEST_BATCH`] and a head, some
    /// 64 bytes. `None` when the socket is closed.
    ///
    /// # Errors
    /// `WouldBlock` when none is pending, `InvalidData` for an incomplete one.
    pub fn receive(end: impl AsFd, buffer: &mut [u8]) -> io::Result<Option<CarriedBatch<'_>>> {
        let len = loop {
            // SAFETY: the buffer has room for its length.
            let received = sys::check_len(unsafe {
                let fd = end.as_fd().as_raw_fd();
                libc::recv(fd, buffer.as_mut_ptr().cast(), buffer.len(), 0)
            });
            match received {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other?,
            }
        };
        if len == 0 {
            return Ok(None);
        }
        let message = buffer.get_mut(..len).and_then(split);
        let (Head { remote, segment }, contents) = message.ok_or(io::ErrorKind::InvalidData)?;
        Ok(Some(CarriedBatch { remote, segment, contents }))
    }
}

/// Splits a message into head and datagrams.
pub(super) fn split(message: &mut [u8]) -> Option<(Head, &mut [u8])> {
    let (head, contents) = message.split_at_mut_checked(HEAD)?;
    let address = head.get(1..17)?.first_chunk::<16>()?;
    let ip: IpAddr = match head.first()? {
        4 => Ipv4Addr::from(*address.first_chunk::<4>()?).into(),
        6 => Ipv6Addr::from(*address).into(),
        _ => return None,
    };
    let port = u16::from_be_bytes(*head.get(17..19)?.first_chunk()?);
    let segment = u16::from_be_bytes(*head.get(19..21)?.first_chunk()?);
    let whole = segment > 0 && !contents.is_empty();
    whole.then_some((Head { remote: SocketAddr::new(ip, port), segment }, contents))
}

fn send(fd: BorrowedFd<'_>, batch: &CarriedBatch<'_>) -> io::Result<()> {
    let mut head = [0; HEAD];
    match batch.remote.ip() {
        IpAddr::V4(ip) => {
            head[0] = 4;
            head[1..5].copy_from_slice(&ip.octets());
        }
        IpAddr::V6(ip) => {
            head[0] = 6;
            head[1..17].copy_from_slice(&ip.octets());
        }
    }
    head[17..19].copy_from_slice(&batch.remote.port().to_be_bytes());
    head[19..21].copy_from_slice(&batch.segment.to_be_bytes());
    let parts = [IoSlice::new(&head), IoSlice::new(batch.contents)];
    // SAFETY: all-zero is a valid msghdr (it has padding on some platforms).
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    // IoSlice is laid out as an iovec.
    message.msg_iov = parts.as_ptr().cast_mut().cast();
    message.msg_iovlen = parts.len() as _;
    loop {
        // SAFETY: the message points to live locals and borrowed memory, which sendmsg only
        // reads.
        let sent = sys::check_len(unsafe {
            libc::sendmsg(fd.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL)
        });
        match sent {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other.map(drop),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::ReceiveBuffers;
    use super::*;

    #[test]
    fn batches_pass_both_ways_and_an_end_that_is_closed_is_seen() {
        let (socket, carrier) = LinkSocket::carried(Family::V4).unwrap();
        let carrier = carrier.into_fd();
        for remote in ["192.0.2.1:51900", "[2001:db8::1]:443"] {
            let remote: SocketAddr = remote.parse().unwrap();
            let contents = [7; 2500];
            let transmit = Transmit {
                remote,
                local: None,
                traffic_class: 0,
                contents: &contents,
                segment_size: Some(1000),
            };
            socket.send(&transmit).unwrap();
            let mut buffer = vec![0; LARGEST_BATCH + HEAD];
            let batch = CarriedBatch::receive(&carrier, &mut buffer).unwrap().unwrap();
            assert_eq!(batch, CarriedBatch { remote, segment: 1000, contents: &contents });

            batch.send(&carrier).unwrap();
            let mut received = Vec::new();
            let each = |datagram: super::super::Datagram<'_>| {
                received.push((datagram.remote, datagram.bytes.len()));
            };
            socket.receive(&mut ReceiveBuffers::new(), each).unwrap();
            assert_eq!(received, [(remote, 1000), (remote, 1000), (remote, 500)]);
        }
        drop(socket);
        assert_eq!(CarriedBatch::receive(&carrier, &mut [0; 100]).unwrap(), None);
    }

    #[test]
    fn a_batch_larger_than_a_message_is_cut_between_datagrams() {
        let (socket, carrier) = LinkSocket::carried(Family::V4).unwrap();
        let carrier = carrier.into_fd();
        let contents = vec![1; 1400 * 60];
        let remote = "192.0.2.1:1".parse().unwrap();
        let transmit = Transmit {
            remote,
            local: None,
            traffic_class: 0,
            contents: &contents,
            segment_size: Some(1400),
        };
        socket.send(&transmit).unwrap();
        let mut buffer = vec![0; LARGEST_BATCH + HEAD];
        let first = CarriedBatch::receive(&carrier, &mut buffer).unwrap().unwrap().contents.len();
        let second = CarriedBatch::receive(&carrier, &mut buffer).unwrap().unwrap().contents.len();
        assert_eq!((first % 1400, first + second), (0, contents.len()));
    }
}
