//! A new pool's mount options, besides those of all pools.

use std::fmt;
use std::str::FromStr;

/// Options of mount(8), as `compress=zstd:3,autodefrag`. Whether its filesystem knows them shows
/// when it is mounted; if not, the pool is undone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MountOptions(Vec<String>);

/// What is wrong with them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MountOptionsError {
    /// It has characters that options can't have.
    #[error("{0:?} is no mount option; write them as compress=zstd,autodefrag")]
    Malformed(String),
    /// An option that is set elsewhere, or breaks what pools promise.
    #[error("{option} is no option for a pool: {why}")]
    Refused {
        /// Its name.
        option: String,
        /// Why.
        why: &'static str,
    },
}

impl MountOptions {
    /// Each of them.
    pub fn each(&self) -> &[String] {
        &self.0
    }
}

impl FromStr for MountOptions {
    type Err = MountOptionsError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let options: Vec<String> = text.split(',').map(str::to_owned).collect();
        for option in &options {
            let plain = |c: char| c.is_ascii_alphanumeric() || "_=:.-+/@".contains(c);
            if option.is_empty() || option.starts_with('-') || !option.chars().all(plain) {
                return Err(MountOptionsError::Malformed(option.clone()));
            }
            let name = option.split('=').next().unwrap_or_default();
            let why = match name {
                "degraded" => "a disk that is missing would go unnoticed at every boot",
                "noauto" | "auto" | "nofail" | "noatime" | "_netdev" | "device" => {
                    "Braid decides that itself"
                }
                "ro" | "rw" | "bind" | "remount" | "loop" | "subvol" | "subvolid" => {
                    "all of the pool is mounted, to be written to"
                }
                _ => continue,
            };
            return Err(MountOptionsError::Refused { option: name.to_owned(), why });
        }
        Ok(MountOptions(options))
    }
}

impl fmt::Display for MountOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_and_what_breaks_a_pool_is_refused() {
        for good in ["compress=zstd:3", "autodefrag,space_cache=v2", "commit=120", "user_xattr"] {
            assert_eq!(good.parse::<MountOptions>().unwrap().to_string(), good);
        }
        for bad in ["", ",", "a b", "x\n/dev/sda", "-o", "a,,b", "x\"y", "a\\040"] {
            assert!(matches!(bad.parse::<MountOptions>(), Err(MountOptionsError::Malformed(_))));
        }
        for refused in ["compress=lzo,degraded", "noauto", "subvol=@", "device=/dev/sdz", "ro"] {
            let error = refused.parse::<MountOptions>().unwrap_err();
            assert!(matches!(error, MountOptionsError::Refused { .. }), "{error}");
        }
    }
}
