//! Which peer a packet goes to: by its IP address, or on an L2 tunnel by its
//! Ethernet address; which one stands in for one that is gone; and
//! how many homes are taken on.

mod allowed_ips;
mod distance;
mod forwarding;
mod room;
mod stand_ins;

pub use allowed_ips::AllowedIps;
pub use forwarding::{Forward, ForwardingDatabase, ForwardingLimits, MacAddress};
pub use room::{Admitted, Residents, Room};
pub use stand_ins::{Health, StandIns, Step};
