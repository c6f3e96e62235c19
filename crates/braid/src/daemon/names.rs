//! Looking names up beside what the host does for that: which name servers it
//! has, and asking them, by a link or as the host would.

mod query;
mod resolv_conf;

pub use query::{Asked, look_up};
pub use resolv_conf::name_servers;

use std::net::IpAddr;

/// A name server and how it's asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Its address.
    pub address: IpAddr,
    /// By this device only.
    pub device: Option<String>,
    /// With this mark, for policy rules.
    pub mark: Option<u32>,
}
