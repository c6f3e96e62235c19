//! Looking names up beside what the host does for that: which name servers it
//! has, asking them, by a link or as the host would, and having others asked in
//! place of those that don't answer.

mod choice;
mod follow;
mod query;

pub use choice::{Choice, LinkOfNames, Role, Situation};
pub use follow::NameServers;
pub use query::{Asked, look_up};

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
