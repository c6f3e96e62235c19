use super::begin::Begin;
use serde::{Deserialize, Serialize};

/// A stored stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The snapshot, and what its stream builds on.
    #[serde(flatten)]
    pub begin: Begin,
    /// How long the file is.
    pub bytes: u64,
    /// BLAKE3 of the file, as b3sum(1) prints it.
    pub blake3: String,
}

/// A stored stream, and the state of its file now.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StoredNow {
    /// As its manifest has it.
    pub entry: Entry,
    /// BLAKE3 of the file, if it was read.
    pub blake3_now: Option<String>,
}
