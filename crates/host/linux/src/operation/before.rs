//! How the host is where something would be done.

use super::absence::found;
use super::sysctl;
use crate::netlink::Netlink;
use braid_engines::{Operation, forwarding_switch};

/// What is there now in the place of an [`Operation`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Before {
    /// Nothing: it would be added, and removed again.
    Absent,
    /// It is so already, by somebody else's hand, and stays so afterwards.
    AsWanted,
    /// This value, which comes back afterwards.
    Value(String),
    /// It can't be seen, and why.
    Unseen(String),
}

/// What is there now, in the calling thread's network namespace. Changes nothing.
pub fn before(operation: &Operation, netlink: &mut Netlink) -> Before {
    let setting = match operation {
        Operation::Sysctl { key, value } => Some((key.as_str(), value.as_str())),
        Operation::Forwarding(family) => Some((forwarding_switch(*family), "1")),
        _ => None,
    };
    if let Some((key, wanted)) = setting {
        return match found(sysctl::read(key)) {
            Ok(Some(now)) if now == wanted => Before::AsWanted,
            Ok(Some(now)) => Before::Value(now),
            Ok(None) => Before::Absent,
            Err(error) => Before::Unseen(error.to_string()),
        };
    }
    match super::is_set(operation, None, netlink) {
        Ok(true) => Before::AsWanted,
        Ok(false) => Before::Absent,
        Err(error) => Before::Unseen(error.to_string()),
    }
}
