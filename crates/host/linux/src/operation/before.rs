//! The host's state before an operation.

use super::absence::found;
use super::sysctl;
use crate::netlink::Netlink;
use braid_engines::{Operation, forwarding_switch};

/// The current state of what an [`Operation`] would change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Before {
    /// It doesn't exist: it would be added, and removed again.
    Absent,
    /// It is already as wanted, set by somebody else, and stays so afterwards.
    AsWanted,
    /// It has this value, which is restored afterwards.
    Value(String),
    /// It can't be read, for this reason.
    Unseen(String),
}

/// Reads the current state in the calling thread's network namespace. Changes nothing.
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
