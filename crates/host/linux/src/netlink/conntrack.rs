//! Connections that the kernel keeps track of (linux/netfilter/nfnetlink_conntrack.h).

use super::Netlink;
use super::message::Request;
use std::io;

/// `NFNL_SUBSYS_CTNETLINK` and `IPCTNL_MSG_CT_DELETE`.
const DELETE: u16 = 1 << 8 | 2;
const CTA_MARK: u16 = 8;
const CTA_MARK_MASK: u16 = 21;

/// Forgets all connections that have `mark` in the bits of `mask`: the next packet of one begins
/// it anew, by the rules and the translation of addresses that hold then. In the network
/// namespace of the calling thread.
///
/// # Errors
/// What the kernel says; `NotFound` where it keeps track of none.
pub fn forget_connections(mark: u32, mask: u32) -> io::Result<()> {
    let request = Request::new(DELETE, 0)
        // struct nfgenmsg: either IP version, version 0.
        .fixed(&[libc::AF_UNSPEC as u8, 0, 0, 0])
        .attribute(CTA_MARK, &mark.to_be_bytes())
        .attribute(CTA_MARK_MASK, &mask.to_be_bytes());
    Netlink::speaking(libc::NETLINK_NETFILTER)?.change(request)
}
