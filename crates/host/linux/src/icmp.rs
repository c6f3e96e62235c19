//! One ping (ICMP echo, RFC 792 and RFC 4443) by a given device: whether a link
//! passes traffic to a host and back.

#![allow(unsafe_code)]

use crate::sys;
use braid_inner::checksum;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

const ECHO_REQUEST_V4: u8 = 8;
const ECHO_REPLY_V4: u8 = 0;
const ECHO_REQUEST_V6: u8 = 128;
const ECHO_REPLY_V6: u8 = 129;
/// More than any answer to so short a question.
const BUFFER: usize = 512;

/// Pings `host` from `source` over `device`. Returns the round-trip time, or `None` if no answer
/// came within `patience`.
///
/// # Errors
/// `PermissionDenied` without `CAP_NET_RAW`; the kernel's error when the host is unreachable.
pub fn ping(
    device: &str,
    source: IpAddr,
    host: IpAddr,
    sequence: u16,
    patience: Duration,
) -> io::Result<Option<Duration>> {
    let (domain, protocol) = match host {
        IpAddr::V4(_) => (libc::AF_INET, libc::IPPROTO_ICMP),
        IpAddr::V6(_) => (libc::AF_INET6, libc::IPPROTO_ICMPV6),
    };
    let fd = sys::socket(domain, libc::SOCK_RAW, protocol)?;
    sys::set_option_bytes(
        fd.as_raw_fd(),
        libc::SOL_SOCKET,
        libc::SO_BINDTODEVICE,
        device.as_bytes(),
    )?;
    let socket = std::net::UdpSocket::from(fd);
    bind(&socket, source)?;
    socket.connect(SocketAddr::new(host, 0))?;
    let identity = (std::process::id() & 0xffff) as u16;
    let began = Instant::now();
    socket.send(&question(host, identity, sequence))?;
    let mut buffer = [0; BUFFER];
    loop {
        let left = patience.saturating_sub(began.elapsed());
        if left.is_zero() {
            return Ok(None);
        }
        socket.set_read_timeout(Some(left))?;
        match socket.recv(&mut buffer) {
            Ok(len)
                if is_answer(host, buffer.get(..len).unwrap_or_default(), identity, sequence) =>
            {
                return Ok(Some(began.elapsed()));
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn bind(socket: &std::net::UdpSocket, source: IpAddr) -> io::Result<()> {
    let fd = socket.as_raw_fd();
    match source {
        IpAddr::V4(source) => {
            // SAFETY: all-zero is a valid sockaddr_in.
            let mut address: libc::sockaddr_in = unsafe { std::mem::zeroed() };
            address.sin_family = libc::AF_INET as libc::sa_family_t;
            address.sin_addr.s_addr = u32::from_ne_bytes(source.octets());
            let len = std::mem::size_of::<libc::sockaddr_in>() as libc::socklen_t;
            // SAFETY: pointer and length describe `address`.
            sys::check(unsafe { libc::bind(fd, (&raw const address).cast(), len) }).map(drop)
        }
        IpAddr::V6(source) => {
            // SAFETY: all-zero is a valid sockaddr_in6.
            let mut address: libc::sockaddr_in6 = unsafe { std::mem::zeroed() };
            address.sin6_family = libc::AF_INET6 as libc::sa_family_t;
            address.sin6_addr.s6_addr = source.octets();
            let len = std::mem::size_of::<libc::sockaddr_in6>() as libc::socklen_t;
            // SAFETY: pointer and length describe `address`.
            sys::check(unsafe { libc::bind(fd, (&raw const address).cast(), len) }).map(drop)
        }
    }
}

fn question(host: IpAddr, identity: u16, sequence: u16) -> [u8; 8] {
    let kind = if host.is_ipv4() { ECHO_REQUEST_V4 } else { ECHO_REQUEST_V6 };
    let [a, b] = identity.to_be_bytes();
    let [c, d] = sequence.to_be_bytes();
    let mut packet = [kind, 0, 0, 0, a, b, c, d];
    if host.is_ipv4() {
        // For IPv6 the kernel fills in the checksum.
        let sum = (!checksum::sum(&packet)).to_be_bytes();
        packet[2..4].copy_from_slice(&sum);
    }
    packet
}

fn is_answer(host: IpAddr, packet: &[u8], identity: u16, sequence: u16) -> bool {
    let (reply, message) = match host {
        // Raw IPv4 sockets receive the IP header too.
        IpAddr::V4(_) => {
            let header = packet.first().map_or(0, |first| usize::from(first & 0xf) * 4);
            (ECHO_REPLY_V4, packet.get(header..).unwrap_or_default())
        }
        IpAddr::V6(_) => (ECHO_REPLY_V6, packet),
    };
    let field = |at: usize| message.get(at..at + 2).map(|b| u16::from_be_bytes([b[0], b[1]]));
    message.first() == Some(&reply) && field(4) == Some(identity) && field(6) == Some(sequence)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netns::NetNs;

    #[test]
    fn the_kernel_answers_on_lo_and_nobody_beyond() {
        let Ok(namespace) = NetNs::new() else {
            eprintln!("SKIPPED: network namespaces need root");
            return;
        };
        let test = || {
            for own in ["127.0.0.1", "::1"].map(|ip| ip.parse::<IpAddr>().unwrap()) {
                let answer = ping("lo", own, own, 7, Duration::from_secs(2)).unwrap();
                assert!(answer.is_some(), "{own}");
            }
            let own: IpAddr = "127.0.0.1".parse().unwrap();
            let nobody =
                ping("lo", own, "192.0.2.1".parse().unwrap(), 1, Duration::from_millis(50));
            assert!(!matches!(nobody, Ok(Some(_))), "{nobody:?}");
        };
        namespace.run(test).unwrap();
    }
}
