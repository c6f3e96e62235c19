//! Route netlink (rtnetlink(7)), blocking and small: links, addresses, routes,
//! policy rules, and a monitor of their changes.

mod link;
mod message;
mod socket;

pub use link::Link;
pub use socket::Netlink;
