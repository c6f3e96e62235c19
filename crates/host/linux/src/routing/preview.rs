//! How the host is where something would be set.

use super::forwarding;
use super::item::{Item, found, read_sysctl};
use crate::netlink::Netlink;

/// What is there now in the place of an [`Item`].
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

impl Item {
    /// What is there now, in the calling thread's network namespace. Changes nothing.
    pub fn before(&self, netlink: &mut Netlink) -> Before {
        let setting = match self {
            Item::Sysctl { key, value } => Some((key.clone(), value.clone())),
            Item::Forwarding(family) => Some((forwarding::switch(*family), "1".to_owned())),
            _ => None,
        };
        if let Some((key, wanted)) = setting {
            return match found(read_sysctl(&key)) {
                Ok(Some(now)) if now == wanted => Before::AsWanted,
                Ok(Some(now)) => Before::Value(now),
                Ok(None) => Before::Absent,
                Err(error) => Before::Unseen(error.to_string()),
            };
        }
        match self.is_set(None, netlink) {
            Ok(true) => Before::AsWanted,
            Ok(false) => Before::Absent,
            Err(error) => Before::Unseen(error.to_string()),
        }
    }
}
