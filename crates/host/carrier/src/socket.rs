//! TCP sockets with almost no send queue.

use braid_linux::udp::Family;
use socket2::{Domain, Protocol, Socket, TcpKeepalive, Type};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// A socket accepts no more data while this many bytes are unsent (`TCP_NOTSENT_LOWAT`, tcp(7)):
/// one TLS record. The rest waits in our queue, where late data can be dropped.
const NOT_SENT: u32 = 16 << 10;
/// A connection ends after this long without acknowledgements (`TCP_USER_TIMEOUT`): the network may
/// have forgotten it, and a new one is quick.
const GIVE_UP: Duration = Duration::from_secs(10);
/// Below the shortest idle timeouts of NATs, some 30 s.
const KEEPALIVE: Duration = Duration::from_secs(25);
const BACKLOG: i32 = 1024;

/// Opens a listener; accepted sockets inherit its mark.
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

/// Socket options of both ends; an accepted socket doesn't inherit all of them.
pub(crate) fn set_up(socket: &Socket) -> io::Result<()> {
    socket.set_tcp_nodelay(true)?;
    socket.set_tcp_notsent_lowat(NOT_SENT)?;
    socket.set_tcp_user_timeout(Some(GIVE_UP))?;
    // If the kernel lacks BBR, its default is used. BBR suffers less from random loss.
    let _ = socket.set_tcp_congestion(b"bbr");
    socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE).with_interval(GIVE_UP))
}
