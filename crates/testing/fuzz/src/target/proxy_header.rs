use braid_mptcp_proxy::header::{read, write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

/// The first bytes from a home's proxy. The destination can be written and read again as the same.
///
/// # Panics
/// If that doesn't hold: this is what the fuzzer looks for.
pub fn proxy_header(data: &[u8]) {
    let Ok(server) = read(data) else { return };
    let client: SocketAddr = match server {
        SocketAddr::V4(_) => (Ipv4Addr::LOCALHOST, 1).into(),
        SocketAddr::V6(_) => (Ipv6Addr::LOCALHOST, 1).into(),
    };
    assert_eq!(read(write(client, server).as_slice()).ok(), Some(server));
}
