//! The sockets of a proxy.

#![allow(unsafe_code)]

use crate::{Settings, Way};
use socket2::{Domain, Protocol, SockAddr, Socket, TcpKeepalive, Type};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsRawFd;
use std::time::Duration;

/// Connections that wait to be accepted.
const BACKLOG: libc::c_int = 4096;
/// A socket toward the tunnel accepts no more data while this many bytes are unsent
/// (`TCP_NOTSENT_LOWAT`): enough for the next burst, but not a queue of seconds that would hide the
/// rate from the sender.
const NOT_SENT: libc::c_int = 512 << 10;
/// Keepalive interval toward clients and servers, as they can no longer probe each other. Below the
/// time after which NATs forget a connection (RFC 5382: at least 2 h 4 min; many take 30 min).
const KEEPALIVE: Duration = Duration::from_secs(600);
/// Toward the tunnel: only to end connections eventually whose other end was switched off (Linux'
/// default, RFC 1122 section 4.2.3.6).
const KEEPALIVE_INSIDE: Duration = Duration::from_secs(7200);
/// linux/tcp.h, since Linux 4.15.
const TCP_FASTOPEN_NO_COOKIE: libc::c_int = 34;
/// Maximum ports tried for a connection; others are busy, or were within the last minute.
const TRIES: usize = 256;

/// A connection's way and ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) way: Way,
    pub(crate) client: SocketAddr,
    pub(crate) server: SocketAddr,
}

/// The ports that a proxy's own connections come from. The proxies of both ends and the clients use
/// the same addresses; if their ports were the same too, firewalls would mistake two connections
/// for one. Clients use 49152 and above (RFC 6335, section 6) or, with Linux, 32768 to 60999; so
/// connections into the tunnel use ports below.
#[derive(Debug)]
pub(crate) struct Ports {
    into: Cursor,
    out_of: Cursor,
}

#[derive(Debug)]
struct Cursor {
    first: u16,
    count: u16,
    next: u16,
}

impl Ports {
    /// Starts at a random port: firewalls may remember connections of a previous proxy.
    pub(crate) fn new() -> Self {
        Ports { into: Cursor::new(4096, 32_767), out_of: Cursor::new(32_768, 60_999) }
    }

    /// Candidate ports for a connection: the one after the last; if that is busy random ones, since
    /// its successors were most likely taken together with it.
    fn candidates(&mut self, way: Way) -> impl Iterator<Item = u16> {
        let cursor = match way {
            Way::Into => &mut self.into,
            Way::OutOf => &mut self.out_of,
        };
        (0..TRIES).map(|tried| {
            if tried > 0 {
                cursor.go_anywhere();
            }
            cursor.next()
        })
    }
}

impl Cursor {
    fn new(first: u16, last: u16) -> Self {
        let mut cursor = Cursor { first, count: last - first + 1, next: 0 };
        cursor.go_anywhere();
        cursor
    }

    fn go_anywhere(&mut self) {
        let random = RandomState::new().build_hasher().finish();
        self.next = (random % u64::from(self.count)) as u16;
    }

    fn next(&mut self) -> u16 {
        self.next = (self.next + 1) % self.count;
        self.first + self.next
    }
}

/// A listener for `way`; on the loopback address, so that nobody outside can connect to it
/// directly.
pub(crate) fn listen(
    way: Way,
    domain: Domain,
    port: u16,
    settings: &Settings,
) -> io::Result<Socket> {
    let socket = Socket::new(domain, Type::STREAM.nonblocking(), Some(Protocol::TCP))?;
    // Accepted sockets inherit these.
    match way {
        Way::Into => toward_others(&socket, settings)?,
        Way::OutOf => toward_tunnel(&socket, settings)?,
    }
    transparent(&socket, domain)?;
    marks_wanted(&socket, domain, true)?;
    let address: SocketAddr = match domain {
        Domain::IPV6 => {
            socket.set_only_v6(true)?;
            (Ipv6Addr::LOCALHOST, port).into()
        }
        _ => (Ipv4Addr::LOCALHOST, port).into(),
    };
    socket.bind(&address.into())?;
    if way == Way::OutOf {
        set(&socket, libc::IPPROTO_TCP, libc::TCP_FASTOPEN, BACKLOG)?;
    }
    socket.listen(BACKLOG)?;
    Ok(socket)
}

/// Sets options that accepted sockets don't inherit. Returns the class of the client's packets,
/// which the replies also get.
pub(crate) fn accepted(socket: &Socket, client: SocketAddr) -> io::Result<Class> {
    socket.set_nonblocking(true)?;
    socket.set_tcp_nodelay(true)?;
    // If this process dies, the connection is reset, so that incomplete data isn't taken for
    // complete.
    socket.set_linger(Some(Duration::ZERO))?;
    let domain = Domain::for_address(client);
    let class = class_of(socket, domain);
    // With IPv6 the kernel would keep storing each packet's.
    marks_wanted(socket, domain, false)?;
    set_class(socket, domain, class)?;
    Ok(class)
}

/// Starts connecting to the client's destination, from the client's address. The first packet
/// carries as much of the `request` as fits (RFC 7413); returns how much the kernel took.
pub(crate) fn connect(
    route: Route,
    request: &[u8],
    ports: &mut Ports,
    settings: &Settings,
    class: Class,
) -> io::Result<(Socket, usize)> {
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for port in ports.candidates(route.way) {
        let socket = onward(route, port, settings, class);
        match socket.and_then(|socket| begin(&socket, route, request).map(|sent| (socket, sent))) {
            Err(error)
                if matches!(error.raw_os_error(), Some(libc::EADDRINUSE | libc::EADDRNOTAVAIL)) =>
            {
                last = error;
            }
            outcome => return outcome,
        }
    }
    Err(last)
}

fn onward(route: Route, port: u16, settings: &Settings, class: Class) -> io::Result<Socket> {
    let domain = Domain::for_address(route.server);
    let socket = Socket::new(domain, Type::STREAM.nonblocking(), Some(Protocol::TCP))?;
    match route.way {
        Way::Into => toward_tunnel(&socket, settings)?,
        Way::OutOf => toward_others(&socket, settings)?,
    }
    transparent(&socket, domain)?;
    set_class(&socket, domain, class)?;
    socket.set_tcp_nodelay(true)?;
    socket.set_linger(Some(Duration::ZERO))?;
    // The same port may go to different servers.
    socket.set_reuse_address(true)?;
    socket.bind(&SocketAddr::new(route.client.ip(), port).into())?;
    Ok(socket)
}

fn begin(socket: &Socket, route: Route, request: &[u8]) -> io::Result<usize> {
    let server = route.server.into();
    let outcome = match request.is_empty() {
        true => socket.connect(&server).map(|()| 0),
        false => socket.send_to_with_flags(request, &server, libc::MSG_FASTOPEN),
    };
    match outcome {
        // It is connecting, without the request.
        Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => Ok(0),
        outcome => outcome,
    }
}

/// Client and server of an accepted connection.
pub(crate) fn ends(socket: &Socket, client: &SockAddr) -> io::Result<(SocketAddr, SocketAddr)> {
    let unknown = || io::Error::other("a connection without an internet address");
    let server = socket.local_addr()?.as_socket().ok_or_else(unknown)?;
    Ok((client.as_socket().ok_or_else(unknown)?, server))
}

fn toward_tunnel(socket: &Socket, settings: &Settings) -> io::Result<()> {
    socket.set_mark(settings.tunnel_mark)?;
    // The handshake fixes how far the window can ever grow; the actual size is set later.
    receive_buffer(socket, settings.buffer)?;
    send_buffer(socket, settings.buffer)?;
    set(socket, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, NOT_SENT)?;
    // Without a cookie, which proves that clients own their address: the tunnel ensures that.
    set(socket, libc::IPPROTO_TCP, TCP_FASTOPEN_NO_COOKIE, 1)?;
    // Where the kernel lacks it, its default does.
    let _ = socket.set_tcp_congestion(settings.congestion.as_bytes());
    keepalive(socket, KEEPALIVE_INSIDE)
}

fn toward_others(socket: &Socket, settings: &Settings) -> io::Result<()> {
    socket.set_mark(settings.outer_mark)?;
    keepalive(socket, KEEPALIVE)
}

fn keepalive(socket: &Socket, idle: Duration) -> io::Result<()> {
    socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(idle))
}

/// Sets the receive buffer, beyond the limit for ordinary programs.
pub(crate) fn receive_buffer(socket: &Socket, bytes: u64) -> io::Result<()> {
    set(socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, half(bytes))
}

/// Enlarges the receive buffer. Without the second call the kernel would announce no more than the
/// size at the start of the connection.
pub(crate) fn more_receive_buffer(socket: &Socket, bytes: u64) -> io::Result<()> {
    receive_buffer(socket, bytes)?;
    set(socket, libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP, half(bytes).saturating_mul(2))
}

/// Sets the send buffer, beyond the limit for ordinary programs.
pub(crate) fn send_buffer(socket: &Socket, bytes: u64) -> io::Result<()> {
    set(socket, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, half(bytes))
}

/// The kernel doubles the given size (socket(7)).
fn half(bytes: u64) -> libc::c_int {
    libc::c_int::try_from(bytes / 2).unwrap_or(libc::c_int::MAX)
}

/// Bytes that a program could read now.
pub(crate) fn unread(socket: &Socket) -> u64 {
    in_queue(socket, libc::FIONREAD)
}

/// Bytes that were written, and that the other end hasn't acknowledged (`SIOCOUTQ`).
pub(crate) fn unacknowledged(socket: &Socket) -> u64 {
    in_queue(socket, libc::TIOCOUTQ)
}

fn in_queue(socket: &Socket, which: libc::Ioctl) -> u64 {
    let mut bytes: libc::c_int = 0;
    // SAFETY: both requests write one int (tcp(7)).
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), which, &raw mut bytes) };
    if result == 0 { u64::try_from(bytes).unwrap_or(0) } else { 0 }
}

/// The differentiated services field of a connection's packets (RFC 2474), as the kernel takes it:
/// six bits, without ECN's, which each connection has itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Class(u8);

/// Whether accepted sockets report the class of their clients' packets.
fn marks_wanted(socket: &Socket, domain: Domain, wanted: bool) -> io::Result<()> {
    let (level, name) = match domain {
        Domain::IPV6 => (libc::SOL_IPV6, libc::IPV6_RECVTCLASS),
        _ => (libc::SOL_IP, libc::IP_RECVTOS),
    };
    set(socket, level, name, wanted.into())
}

/// The class of the packet that opened a connection; the default if the kernel doesn't report it.
fn class_of(socket: &Socket, domain: Domain) -> Class {
    let (level, options, name) = match domain {
        Domain::IPV6 => (libc::SOL_IPV6, libc::IPV6_2292PKTOPTIONS, libc::IPV6_TCLASS),
        _ => (libc::SOL_IP, libc::IP_PKTOPTIONS, libc::IP_TOS),
    };
    // The kernel puts control messages there, each aligned as its header is.
    let mut buffer = [0usize; 16];
    let mut length = size_of_val(&buffer) as libc::socklen_t;
    // SAFETY: the pointer and the length describe the live buffer.
    let result = unsafe {
        let (buffer, length) = (buffer.as_mut_ptr().cast(), &raw mut length);
        libc::getsockopt(socket.as_raw_fd(), level, options, buffer, length)
    };
    if result != 0 {
        return Class::default();
    }
    // SAFETY: all zeros are a message without anything.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_control = buffer.as_mut_ptr().cast();
    message.msg_controllen = length as _;
    // SAFETY: the buffer is aligned for headers and has `length` bytes that the kernel wrote.
    let mut at = unsafe { libc::CMSG_FIRSTHDR(&raw const message) };
    while !at.is_null() {
        // SAFETY: the two macros give only headers that lie in the buffer as a whole.
        let header = unsafe { at.read() };
        let has_int = header.cmsg_len as usize >= size_of::<libc::cmsghdr>() + size_of::<u32>();
        if (header.cmsg_level, header.cmsg_type) == (level, name) && has_int {
            // SAFETY: the header says that an int follows.
            let value = unsafe { libc::CMSG_DATA(at).cast::<u32>().read_unaligned() };
            return Class(value as u8 & !3);
        }
        // SAFETY: as above.
        at = unsafe { libc::CMSG_NXTHDR(&raw const message, at) };
    }
    Class::default()
}

fn set_class(socket: &Socket, domain: Domain, class: Class) -> io::Result<()> {
    match (domain, class) {
        (_, Class(0)) => Ok(()),
        (Domain::IPV6, Class(bits)) => set(socket, libc::SOL_IPV6, libc::IPV6_TCLASS, bits.into()),
        (_, Class(bits)) => set(socket, libc::SOL_IP, libc::IP_TOS, bits.into()),
    }
}

/// Lets a socket accept connections to, and open them from, foreign addresses.
fn transparent(socket: &Socket, domain: Domain) -> io::Result<()> {
    match domain {
        Domain::IPV6 => set(socket, libc::SOL_IPV6, libc::IPV6_TRANSPARENT, 1),
        _ => set(socket, libc::SOL_IP, libc::IP_TRANSPARENT, 1),
    }
}

fn set(
    socket: &Socket,
    level: libc::c_int,
    name: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    let length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the pointer and the length describe a live c_int.
    let result = unsafe {
        libc::setsockopt(socket.as_raw_fd(), level, name, (&raw const value).cast(), length)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Whether an address is loopback, where no foreign traffic goes.
pub(crate) fn is_loopback(ip: IpAddr) -> bool {
    ip.to_canonical().is_loopback()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// A client that has many connections to one server.
    #[test]
    fn a_long_row_of_busy_ports_leaves_room_for_the_next_connections() {
        let mut ports = Ports::new();
        let mut open =
            |busy: &BTreeSet<u16>| ports.candidates(Way::Into).find(|it| !busy.contains(it));
        let mut stay = BTreeSet::new();
        for _ in 0..20_000 {
            assert!(stay.insert(open(&stay).unwrap()));
        }
        // All others have had their turn, and have ended.
        for _ in 0..100_000 {
            let port = open(&stay).expect("a port");
            assert!((4096..=32_767).contains(&port));
        }
    }
}
