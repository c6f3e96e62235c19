//! What all messages to nftables have in common (linux/netfilter/nf_tables.h).

use super::Netlink;
use std::io;

/// `NFNL_SUBSYS_NFTABLES`.
pub(super) const SUBSYSTEM: u16 = 10;
/// `struct nfgenmsg`: family `inet` (`NFPROTO_INET`), version 0, no resource.
pub(super) const OF_INET: [u8; 4] = [1, 0, 0, 0];

/// Opens a socket for nftables.
///
/// # Errors
/// Those of socket(2).
pub(crate) fn open() -> io::Result<Netlink> {
    Netlink::speaking(libc::NETLINK_NETFILTER)
}
