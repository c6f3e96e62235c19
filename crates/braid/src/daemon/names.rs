//! Name resolution besides the host's own: finds its name servers, queries them over a link or as
//! the host would, and diverts queries from servers that don't answer.

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
    /// Only through this device.
    pub device: Option<String>,
    /// With this mark, for policy rules.
    pub mark: Option<u32>,
}
