//! The lab's addresses. Link number `k` counts from 1.

use std::net::{Ipv4Addr, Ipv6Addr};

/// The concentrator's public IPv4 address (TEST-NET-3, RFC 5737).
pub const CONCENTRATOR_V4: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 1);
/// The concentrator's public IPv6 address (RFC 3849).
pub const CONCENTRATOR_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 1);
/// The home's own address in the `ecmp` setup (TEST-NET-2, RFC 5737).
pub const HOME_V4: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 1);
/// The home's own IPv6 address in the `ecmp` setup.
pub const HOME_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 2, 0, 0, 0, 0, 1);

/// Maximum number of links: what the third byte of 192.168.(10 + k).2 has room for.
pub(super) const MAX_LINKS: usize = 200;

/// The addresses of one link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkAddresses {
    /// The home's address, in a /24.
    pub home_v4: Ipv4Addr,
    /// The provider's router, the home's gateway.
    pub gateway_v4: Ipv4Addr,
    /// The concentrator's view of a link with NAT before any rebinding; the whole /24 belongs to
    /// the link.
    pub public_v4: Ipv4Addr,
    /// The home's address, in a /64. IPv6 is never translated.
    pub home_v6: Ipv6Addr,
    /// The provider's router.
    pub gateway_v6: Ipv6Addr,
}

impl LinkAddresses {
    pub(super) fn of(number: u8) -> Self {
        let v6 = |host| Ipv6Addr::new(0xfd00, u16::from(number), 0, 0, 0, 0, 0, host);
        LinkAddresses {
            home_v4: Ipv4Addr::new(192, 168, 10 + number, 2),
            gateway_v4: Ipv4Addr::new(192, 168, 10 + number, 1),
            public_v4: Ipv4Addr::new(100, 64, number, 2),
            home_v6: v6(2),
            gateway_v6: v6(1),
        }
    }
}
