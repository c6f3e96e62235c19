//! TCP sockets that keep no queue of their own.

use braid_linux::udp::Family;
use socket2::{Domain, Protocol, Socket, TcpKeepalive, Type};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// Unsent bytes in a socket from which on it takes no more (`TCP_NOTSENT_LOWAT`, tcp(7)): a
/// record of TLS. What waits longer waits where what is late can be dropped.
const NOT_SENT: u32 = 16 << 10;
/// Bytes on the way that nobody acknowledges end a connection after this
/// (`TCP_USER_TIMEOUT`): the network may have forgotten it, and a new one is quick.
const GIVE_UP: Duration = Duration::from_secs(10);
/// Below what networks that forget quickly allow: some 30 s.
const KEEPALIVE: Duration = Duration::from_secs(25);
const BACKLOG: i32 = 1024;

/// Listens; accepted sockets are marked as this one is.
pub(crate) fn listen(at: SocketAddr, mark: Option<u32>) -> io::Result<std::net::TcpListener> {
    let socket = Socket::new(Domain::for_address(at), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    if let Some(mark) = mark {
        socket.set_mark(mark)?;
    }
    if Family::of(at.ip()) == Family::V6 {
        socket.set_only_v6(true)?;
    }
    socket.set_reuse_address(true)?;
    socket.bind(&at.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// What both ends ask of the kernel; an accepted socket hasn't all of the listener's.
pub(crate) fn set_up(socket: &Socket) -> io::Result<()> {
    socket.set_tcp_nodelay(true)?;
    socket.set_tcp_notsent_lowat(NOT_SENT)?;
    socket.set_tcp_user_timeout(Some(GIVE_UP))?;
    // Where the kernel lacks it its default does: more of what random loss leaves.
    let _ = socket.set_tcp_congestion(b"bbr");
    socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE).with_interval(GIVE_UP))
}
