//! Socket addresses in the kernel's layout.

#![allow(unsafe_code)]

use crate::sys;
use std::ffi::CString;
use std::io;
use std::mem;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::RawFd;

/// A `struct sockaddr_in` or `sockaddr_in6`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) union SocketAddress {
    family: libc::sa_family_t,
    v4: libc::sockaddr_in,
    v6: libc::sockaddr_in6,
}

impl SocketAddress {
    pub(super) const LEN: usize = mem::size_of::<SocketAddress>();

    /// All zero: of no family.
    pub(super) const fn none() -> SocketAddress {
        // SAFETY: all-zero is a valid value of each of the union's fields.
        unsafe { mem::zeroed() }
    }

    /// The layout of an address. `scope` (an interface's index) is used if the address has none.
    pub(super) fn new(address: SocketAddr, scope: u32) -> SocketAddress {
        let mut raw = SocketAddress::none();
        match address {
            SocketAddr::V4(address) => {
                raw.v4 = libc::sockaddr_in {
                    sin_family: libc::AF_INET as libc::sa_family_t,
                    sin_port: address.port().to_be(),
                    sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(address.ip().octets()) },
                    sin_zero: [0; 8],
                };
            }
            SocketAddr::V6(address) => {
                raw.v6 = libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as libc::sa_family_t,
                    sin6_port: address.port().to_be(),
                    sin6_flowinfo: 0,
                    sin6_addr: libc::in6_addr { s6_addr: address.ip().octets() },
                    sin6_scope_id: if address.scope_id() == 0 { scope } else { address.scope_id() },
                };
            }
        }
        raw
    }

    /// The address; `None` when the kernel wrote none.
    pub(super) fn get(&self) -> Option<SocketAddr> {
        // SAFETY: the kernel (or `new`) wrote the family, all fields are plain
        // bytes, and the union is initialised in its whole length.
        unsafe {
            match libc::c_int::from(self.family) {
                libc::AF_INET => {
                    let ip = Ipv4Addr::from(self.v4.sin_addr.s_addr.to_ne_bytes());
                    Some(SocketAddrV4::new(ip, u16::from_be(self.v4.sin_port)).into())
                }
                libc::AF_INET6 => {
                    let ip = Ipv6Addr::from(self.v6.sin6_addr.s6_addr);
                    let port = u16::from_be(self.v6.sin6_port);
                    Some(SocketAddrV6::new(ip, port, 0, self.v6.sin6_scope_id).into())
                }
                _ => None,
            }
        }
    }

    /// Bytes that the kernel expects for this family.
    pub(super) fn len(&self) -> libc::socklen_t {
        // SAFETY: `family` is plain bytes and always initialised.
        let len = match libc::c_int::from(unsafe { self.family }) {
            libc::AF_INET => mem::size_of::<libc::sockaddr_in>(),
            _ => mem::size_of::<libc::sockaddr_in6>(),
        };
        len as libc::socklen_t
    }

    /// The address that a socket is bound to.
    pub(super) fn of_socket(fd: RawFd) -> io::Result<SocketAddr> {
        let mut raw = SocketAddress::none();
        let mut len = SocketAddress::LEN as libc::socklen_t;
        // SAFETY: `raw` has room for `len` bytes.
        sys::check(unsafe { libc::getsockname(fd, (&raw mut raw).cast(), &raw mut len) })?;
        raw.get().ok_or_else(|| io::Error::from(io::ErrorKind::Unsupported))
    }

    /// Binds a socket to this address.
    pub(super) fn bind(&self, fd: RawFd) -> io::Result<()> {
        // SAFETY: the union is at least as long as `len` says.
        sys::check(unsafe { libc::bind(fd, std::ptr::from_ref(self).cast(), self.len()) }).map(drop)
    }
}

/// The index of an interface.
pub(super) fn interface_index(name: &str) -> io::Result<u32> {
    let name = CString::new(name)?;
    // SAFETY: the name is zero-terminated.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(io::Error::last_os_error()),
        index => Ok(index),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive_the_kernels_layout() {
        for text in ["192.0.2.7:4500", "[2001:db8::7]:4500", "[fe80::1%3]:9"] {
            let address: SocketAddr = text.parse().unwrap();
            assert_eq!(SocketAddress::new(address, 0).get(), Some(address));
        }
        assert_eq!(SocketAddress::none().get(), None);
        let scoped = SocketAddress::new("[fe80::1]:9".parse().unwrap(), 5);
        assert_eq!(scoped.get(), Some("[fe80::1%5]:9".parse().unwrap()));
    }
}
