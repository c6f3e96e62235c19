//! Names of pools.

use std::fmt;
use std::str::FromStr;

/// A pool's name: 1 to 32 letters, digits, `.`, `_`, `-`, the first of them a letter or digit. So
/// it can be a part of a path, a unit's name, an md name (32 bytes) and a label.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PoolName(String);

/// A string that can't be a pool's name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{name:?} can't be a pool's name; use 1 to 32 letters, digits, '.', '_' or '-', first a letter or digit, \
     and not md followed by digits, which are the kernel's own names"
)]
pub struct PoolNameError {
    name: String,
}

impl PoolName {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name as a label, if the filesystem's superblock has room for it.
    pub(crate) fn label_within(&self, bytes: usize) -> Option<&str> {
        Some(self.0.as_str()).filter(|name| name.len() <= bytes)
    }
}

impl FromStr for PoolName {
    type Err = PoolNameError;
    fn from_str(name: &str) -> Result<Self, PoolNameError> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        let begins_well = name.starts_with(|c: char| c.is_ascii_alphanumeric());
        let kernels = name
            .strip_prefix("md")
            .is_some_and(|rest| !rest.is_empty() && rest.chars().all(|c| c.is_ascii_digit()));
        if name.len() <= 32 && begins_well && name.chars().all(allowed) && !kernels {
            return Ok(PoolName(name.to_owned()));
        }
        Err(PoolNameError { name: name.chars().take(40).collect() })
    }
}

impl fmt::Display for PoolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}
