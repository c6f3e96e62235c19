//! Encrypted copies elsewhere, made by timers.

use super::{LockSpan, When};
use crate::retention::Policy;
use braid_units::Rate;
use std::fmt;
use std::str::FromStr;

/// Backups of folders of the pool. All paths are relative to where it is mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backups {
    /// When they are made.
    pub when: When,
    /// Of what; at least one.
    pub of: Vec<String>,
    /// To where; at least one.
    pub to: Vec<BackupTarget>,
    /// Maximum rate.
    pub limit: Option<Rate>,
    /// When targets are checked, something is restored as a test, and old backups are deleted.
    pub care: When,
    /// Percentage of the data that a check reads.
    pub read_percent: u8,
    /// Which backups stay; all if there is none.
    pub policy: Option<Policy>,
    /// How long nobody can delete them, if the target supports locks.
    pub lock: Option<LockSpan>,
}

/// A target as `braid pool backup` takes it, validated as far as possible here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupTarget(String);

/// A string that isn't a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}; write s3://HOST/BUCKET, sftp:[USER@]HOST:PATH, rest:https://HOST/ or /PATH")]
pub struct BackupTargetError(&'static str);

impl BackupTarget {
    /// As it is written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The folder, if it is on this computer.
    pub fn folder(&self) -> Option<&str> {
        self.0.starts_with('/').then_some(self.0.as_str())
    }
}

impl fmt::Display for BackupTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for BackupTarget {
    type Err = BackupTargetError;

    fn from_str(text: &str) -> Result<Self, BackupTargetError> {
        if text.chars().any(|c| c.is_control() || c == ' ') && !text.starts_with('/') {
            return Err(BackupTargetError("it has spaces in it"));
        }
        if text.chars().any(char::is_control) {
            return Err(BackupTargetError("it has control characters in it"));
        }
        let rest = match text.split_once(':') {
            _ if text.starts_with('/') => return Ok(BackupTarget(text.to_owned())),
            Some(("s3" | "sftp" | "rest", rest)) if !rest.trim_matches('/').is_empty() => rest,
            _ => return Err(BackupTargetError("this kind of target isn't known")),
        };
        // Units and process lists are readable by everybody.
        let server = rest.split_once("://").map_or(rest, |(_, rest)| rest);
        let server = server.split('/').next().unwrap_or_default();
        if server.split_once('@').is_some_and(|(user, _)| user.contains(':')) {
            return Err(BackupTargetError("it has a password in it; that belongs to backup.env"));
        }
        Ok(BackupTarget(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_told_from_what_is_none() {
        for good in [
            "/mnt/usb disk/b",
            "s3://host/bucket",
            "s3:http://10.0.0.2:9000/b/p",
            "sftp:me@nas:/backup",
            "rest:https://nas:8000/mine/",
        ] {
            assert_eq!(good.parse::<BackupTarget>().unwrap().as_str(), good);
        }
        for bad in ["", "relative", "b2:x", "s3:", "sftp:a b:/c", "rest:https://me:secret@nas/"] {
            assert!(bad.parse::<BackupTarget>().is_err(), "{bad}");
        }
    }
}
