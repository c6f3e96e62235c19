//! The header that the home's proxy sends first: the client's destination. It is version 2 of the
//! PROXY protocol (HAProxy's proxy-protocol.txt, section 2.2), so that other programs that support
//! it can be the other end.

use std::io::{self, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// Version 2, command PROXY.
const PROXY: u8 = 0x21;
const TCP_V4: u8 = 0x11;
const TCP_V6: u8 = 0x21;
/// Addresses and further fields, which are skipped.
const MOST_BYTES: usize = 1024;

/// The header of a connection from `client` to `server`; both of one IP version.
pub fn write(client: SocketAddr, server: SocketAddr) -> Vec<u8> {
    let mut header = SIGNATURE.to_vec();
    header.push(PROXY);
    let mut addresses = Vec::new();
    match (client.ip(), server.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            header.push(TCP_V4);
            addresses.extend(from.octets());
            addresses.extend(to.octets());
        }
        (from, to) => {
            header.push(TCP_V6);
            addresses.extend(mapped(from).octets());
            addresses.extend(mapped(to).octets());
        }
    }
    addresses.extend(client.port().to_be_bytes());
    addresses.extend(server.port().to_be_bytes());
    // 12 or 36 bytes.
    header.extend((addresses.len() as u16).to_be_bytes());
    header.extend(addresses);
    header
}

/// Reads a header and returns the client's destination.
///
/// # Errors
/// The connection's, and `InvalidData` for anything else than such a header.
pub fn read(mut from: impl Read) -> io::Result<SocketAddr> {
    let mut start = [0; 16];
    from.read_exact(&mut start)?;
    let [signature @ .., command, family, high, low] = start;
    let length = usize::from(u16::from_be_bytes([high, low]));
    if signature != SIGNATURE || command != PROXY || length > MOST_BYTES {
        return Err(invalid());
    }
    let mut addresses = vec![0; length];
    from.read_exact(&mut addresses)?;
    match family {
        TCP_V4 => destination(&addresses, |octets: [u8; 4]| Ipv4Addr::from(octets).into()),
        TCP_V6 => destination(&addresses, |octets: [u8; 16]| Ipv6Addr::from(octets).into()),
        _ => None,
    }
    .ok_or_else(invalid)
}

/// The second of two addresses, with the second of two ports.
fn destination<const N: usize>(
    fields: &[u8],
    address: impl Fn([u8; N]) -> IpAddr,
) -> Option<SocketAddr> {
    let (_, rest) = fields.split_first_chunk::<N>()?;
    let (to, rest) = rest.split_first_chunk::<N>()?;
    let (_, rest) = rest.split_first_chunk::<2>()?;
    let (port, _) = rest.split_first_chunk::<2>()?;
    Some(SocketAddr::new(address(*to), u16::from_be_bytes(*port)))
}

fn mapped(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    }
}

fn invalid() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "not a PROXY header of version 2")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_back_and_anything_else_refused() {
        for (client, server) in
            [("192.0.2.1:1000", "203.0.113.1:445"), ("[fd00::1]:1000", "[2001:db8::2]:443")]
        {
            let (client, server) = (client.parse().unwrap(), server.parse().unwrap());
            let header = write(client, server);
            let mut stream = header.clone();
            stream.extend(b"data");
            assert_eq!(read(stream.as_slice()).unwrap(), server);
            for cut in 0..header.len() {
                assert!(read(&header[..cut]).is_err(), "{cut}");
            }
            for at in 0..14 {
                let mut damaged = header.clone();
                damaged[at] ^= 0x55;
                assert!(read(damaged.as_slice()).is_err(), "{at}");
            }
        }
        assert!(read(&b"GET / HTTP/1.1\r\nHost: somewhere\r\n\r\n"[..]).is_err());
    }
}
