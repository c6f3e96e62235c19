//! WireGuard's keys and peers (linux/wireguard.h).

use super::message::Request;
use super::{Generic, family};
use std::io;
use std::net::SocketAddr;

const SET_DEVICE: u8 = 1;
const DEVICE_NAME: u16 = 2;
const DEVICE_PRIVATE_KEY: u16 = 3;
const DEVICE_FLAGS: u16 = 5;
const DEVICE_LISTEN_PORT: u16 = 6;
const DEVICE_FWMARK: u16 = 7;
const DEVICE_PEERS: u16 = 8;
const PEER_PUBLIC_KEY: u16 = 1;
const PEER_FLAGS: u16 = 3;
const PEER_ENDPOINT: u16 = 4;
const PEER_KEEPALIVE: u16 = 5;
const PEER_ALLOWED_IPS: u16 = 9;
const ALLOWED_FAMILY: u16 = 1;
const ALLOWED_ADDRESS: u16 = 2;
const ALLOWED_MASK: u16 = 3;
/// `WGDEVICE_F_REPLACE_PEERS`, `WGPEER_F_REPLACE_ALLOWEDIPS`.
const REPLACE: u32 = 1;
const REPLACE_ALLOWED_IPS: u32 = 2;
/// Seconds; keeps NAT open, as the WireGuard quick start recommends.
const KEEPALIVE: u16 = 25;

impl Generic {
    /// Opens WireGuard.
    ///
    /// # Errors
    /// `NotFound` when the kernel has none (or has not loaded it).
    pub fn wireguard() -> io::Result<Generic> {
        Generic::open("wireguard", 1)
    }

    /// Sets a WireGuard device's key, port, mark and only peer, whose allowed IPs are everything.
    ///
    /// # Errors
    /// `NotFound` when there is no such device.
    pub fn set_wireguard(
        &mut self,
        device: &str,
        private_key: &[u8; 32],
        port: u16,
        mark: u32,
        peer: &[u8; 32],
        endpoint: SocketAddr,
    ) -> io::Result<()> {
        let endpoint = socket_address(endpoint);
        self.change(SET_DEVICE, |request| {
            request
                .string(DEVICE_NAME, device)
                .attribute(DEVICE_PRIVATE_KEY, private_key)
                .u32(DEVICE_FLAGS, REPLACE)
                .attribute(DEVICE_LISTEN_PORT, &port.to_ne_bytes())
                .u32(DEVICE_FWMARK, mark)
                .nested(DEVICE_PEERS, |peers| {
                    peers.nested(0, |entry| {
                        entry
                            .attribute(PEER_PUBLIC_KEY, peer)
                            .u32(PEER_FLAGS, REPLACE_ALLOWED_IPS)
                            .attribute(PEER_ENDPOINT, &endpoint)
                            .attribute(PEER_KEEPALIVE, &KEEPALIVE.to_ne_bytes())
                            .nested(PEER_ALLOWED_IPS, everything)
                    })
                })
        })
    }
}

fn everything(list: Request) -> Request {
    let all = |list: Request, family: libc::c_int, address: &[u8]| {
        list.nested(0, |entry| {
            entry
                .attribute(ALLOWED_FAMILY, &(family as u16).to_ne_bytes())
                .attribute(ALLOWED_ADDRESS, address)
                .attribute(ALLOWED_MASK, &[0])
        })
    };
    let list = all(list, libc::AF_INET, &[0; 4]);
    all(list, libc::AF_INET6, &[0; 16])
}

/// `struct sockaddr_in` or `struct sockaddr_in6`.
fn socket_address(address: SocketAddr) -> Vec<u8> {
    let mut bytes = u16::from(family(address.ip())).to_ne_bytes().to_vec();
    bytes.extend(address.port().to_be_bytes());
    match address {
        SocketAddr::V4(address) => {
            bytes.extend(address.ip().octets());
            bytes.extend([0; 8]);
        }
        SocketAddr::V6(address) => {
            bytes.extend(address.flowinfo().to_be_bytes());
            bytes.extend(address.ip().octets());
            bytes.extend(address.scope_id().to_ne_bytes());
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_the_kernels_form() {
        let v4 = socket_address("192.0.2.1:51820".parse().unwrap());
        assert_eq!(v4.len(), std::mem::size_of::<libc::sockaddr_in>());
        assert_eq!(v4[2..8], [0xca, 0x6c, 192, 0, 2, 1]);
        let v6 = socket_address("[2001:db8::1]:1".parse().unwrap());
        assert_eq!(v6.len(), std::mem::size_of::<libc::sockaddr_in6>());
        assert_eq!(v6[8..12], [0x20, 0x01, 0x0d, 0xb8]);
    }
}
