//! The sockets of both ends: how connections are accepted and continued.

use crate::{Access, Home, header};
use ipnet::IpNet;
use rustix::net::sockopt::{ip_original_dst, ipv6_original_dst};
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

/// Linux' number of the protocol (include/uapi/linux/in.h).
const IPPROTO_MPTCP: libc::c_int = 262;
/// Connections that wait to be accepted.
const BACKLOG: libc::c_int = 1024;
/// A home sends its header at once; anything slower isn't a home.
const HEADER_WITHIN: Duration = Duration::from_secs(10);
/// A server that doesn't answer is given up after this, as Linux' own TCP does.
const CONNECT_WITHIN: Duration = Duration::from_secs(127);

/// Plain TCP listeners.
pub(crate) fn listen_at_home(port: u16) -> io::Result<Vec<Socket>> {
    both_versions(|domain| {
        let socket = Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?;
        bind(socket, domain, port)
    })
}

/// MPTCP listeners.
pub(crate) fn listen_at_server(port: u16) -> io::Result<Vec<Socket>> {
    both_versions(|domain| {
        let socket = Socket::new(domain, Type::STREAM, Some(Protocol::from(IPPROTO_MPTCP)))?;
        bind(socket, domain, port)
    })
}

/// IPv4's and, where the host has it, IPv6's.
fn both_versions(listen: impl Fn(Domain) -> io::Result<Socket>) -> io::Result<Vec<Socket>> {
    let mut sockets = vec![listen(Domain::IPV4)?];
    match listen(Domain::IPV6) {
        Ok(socket) => sockets.push(socket),
        Err(error) if error.raw_os_error() == Some(libc::EAFNOSUPPORT) => {}
        Err(error) => return Err(error),
    }
    Ok(sockets)
}

fn bind(socket: Socket, domain: Domain, port: u16) -> io::Result<Socket> {
    socket.set_reuse_address(true)?;
    let any: SocketAddr = match domain {
        Domain::IPV6 => {
            socket.set_only_v6(true)?;
            (Ipv6Addr::UNSPECIFIED, port).into()
        }
        _ => (Ipv4Addr::UNSPECIFIED, port).into(),
    };
    socket.bind(&any.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket)
}

/// The MPTCP connection for a redirected client: to the other end's proxy, or,
/// where there is none, to where the client was going.
pub(crate) fn onward_from_home(client: &Socket, home: &Home) -> io::Result<Socket> {
    let wanted = original_destination(client)?;
    let from = client.peer_addr()?.as_socket().ok_or_else(no_address)?;
    let open = |to: SocketAddr| {
        let protocol = Protocol::from(IPPROTO_MPTCP);
        let socket = Socket::new(Domain::for_address(to), Type::STREAM, Some(protocol))?;
        socket.set_mark(home.mark)?;
        connect(socket, to)
    };
    let far = home.far_end.unwrap_or(wanted.ip());
    match open(SocketAddr::new(far, home.far_port)) {
        Ok(proxy) => {
            (&proxy).write_all(&header::write(from, wanted))?;
            Ok(proxy)
        }
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => open(wanted),
        Err(error) => Err(error),
    }
}

/// The TCP connection to the server that a home's proxy asks for.
pub(crate) fn onward_from_links(home: &Socket, access: &Access) -> io::Result<Socket> {
    let from = home.peer_addr()?.as_socket().ok_or_else(no_address)?;
    let contains = |nets: &[IpNet], ip: IpAddr| nets.iter().any(|net| net.contains(&ip));
    if !contains(&access.homes, from.ip().to_canonical()) {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    home.set_read_timeout(Some(HEADER_WITHIN))?;
    let wanted = header::read(home)?;
    home.set_read_timeout(None)?;
    if !contains(&access.servers, wanted.ip().to_canonical()) {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    connect(Socket::new(Domain::for_address(wanted), Type::STREAM, Some(Protocol::TCP))?, wanted)
}

fn connect(server: Socket, wanted: SocketAddr) -> io::Result<Socket> {
    server.connect_timeout(&wanted.into(), CONNECT_WITHIN)?;
    server.set_tcp_nodelay(true)?;
    Ok(server)
}

fn original_destination(client: &Socket) -> io::Result<SocketAddr> {
    let local = client.local_addr()?.as_socket().ok_or_else(no_address)?;
    Ok(match local.is_ipv6() {
        true => ipv6_original_dst(client)?.into(),
        false => ip_original_dst(client)?.into(),
    })
}

fn no_address() -> io::Error {
    io::Error::other("a connection without an internet address")
}
