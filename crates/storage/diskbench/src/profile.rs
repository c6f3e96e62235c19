//! Groups of things to measure.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// Large files, by one reader or writer and by many.
    Sequential,
    /// Pieces of 4 KiB at random places, and how long fsync takes.
    Random,
    /// Transactions of a real database server.
    Database,
}

/// A word that is no profile's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is none of sequential, random, database")]
pub struct UnknownProfile(String);

impl Profile {
    /// All, in the order they are measured.
    pub const ALL: [Profile; 3] = [Profile::Sequential, Profile::Random, Profile::Database];

    const fn as_str(self) -> &'static str {
        match self {
            Profile::Sequential => "sequential",
            Profile::Random => "random",
            Profile::Database => "database",
        }
    }
}

impl FromStr for Profile {
    type Err = UnknownProfile;
    fn from_str(word: &str) -> Result<Self, UnknownProfile> {
        let found = Profile::ALL.into_iter().find(|profile| profile.as_str() == word);
        found.ok_or_else(|| UnknownProfile(word.chars().take(40).collect()))
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
