//! What the user names a disk by.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The id with which the user permits erasing this very disk: its serial number; without one the
/// WWN, else the by-id name, else the path. A partition's ends in `-part5` or the like, so that
/// permission for one isn't permission for the other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DiskId(String);

impl DiskId {
    /// The id that the user wrote.
    pub fn new(id: impl Into<String>) -> Self {
        DiskId(id.into())
    }
    /// As it is written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for DiskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}
