//! A finding of `braid doctor`: something that limits the tunnel or is wrong. Fields are only ever
//! added.

use braid_history::Severity;
use serde::{Deserialize, Serialize};

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// A stable name for it, such as `link-lossy`, for scripts.
    pub code: String,
    /// How bad it is.
    pub severity: Severity,
    /// The link, peer or device that it is about; empty for the whole tunnel.
    pub subject: String,
    /// What is wrong and why it matters, in a sentence.
    pub what: String,
    /// The observations behind it.
    pub evidence: Vec<String>,
    /// What fixing it brings, in words.
    pub gain: Option<String>,
    /// The same in Mbit/s, if it can be estimated.
    pub gain_mbps: Option<f64>,
    /// The command that fixes it, or what else to do.
    pub mend: String,
}
