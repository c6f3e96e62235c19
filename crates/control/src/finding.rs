//! What `braid doctor` tells: something that limits the tunnel or
//! is wrong. Fields are only ever added.

use braid_history::Severity;
use serde::{Deserialize, Serialize};

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// A name for it that stays the same, such as `link-lossy`: for scripts.
    pub code: String,
    /// How bad it is.
    pub severity: Severity,
    /// The link, peer or device that it is about; empty for the whole.
    pub subject: String,
    /// What is wrong and why it matters, in a sentence.
    pub what: String,
    /// What was seen that says so.
    pub evidence: Vec<String>,
    /// What mending it brings, in words.
    pub gain: Option<String>,
    /// The same in Mbit/s, where it can be told.
    pub gain_mbps: Option<f64>,
    /// The command that mends it, or what else to do.
    pub mend: String,
}
