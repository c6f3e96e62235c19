//! Which peer a packet goes to: by its IP address, or on an L2 tunnel by its
//! Ethernet address.

mod allowed_ips;
mod forwarding;

pub use allowed_ips::AllowedIps;
pub use forwarding::{Forward, ForwardingDatabase, ForwardingLimits, MacAddress};
