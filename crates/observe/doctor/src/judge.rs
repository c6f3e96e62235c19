//! The rules that produce findings, one file for each part of the way.

mod host;
mod limits;
mod links;
mod load;
mod paths;
mod peers;
mod routes;

pub(crate) use host::{host, running};
pub(crate) use limits::limits;
pub(crate) use links::links;
pub(crate) use load::load;
pub(crate) use paths::paths;
pub(crate) use peers::peers;
pub(crate) use routes::routes;

use crate::code::Code;
use braid_control::finding::Finding;
use braid_history::Severity;

/// Starts a finding.
fn finding(code: Code, severity: Severity, subject: &str, what: impl Into<String>) -> Finding {
    Finding {
        code: code.as_str().to_owned(),
        severity,
        subject: subject.to_owned(),
        what: what.into(),
        evidence: Vec::new(),
        gain: None,
        gain_mbps: None,
        mend: String::new(),
    }
}

/// Methods that complete a finding.
trait More {
    fn seen(self, evidence: impl Into<String>) -> Self;
    fn gain(self, words: impl Into<String>) -> Self;
    /// Ignores gains below 1 Mbit/s.
    fn gain_mbps(self, mbps: Option<f64>) -> Self;
    fn mend(self, command: impl Into<String>) -> Self;
}

impl More for Finding {
    fn seen(mut self, evidence: impl Into<String>) -> Self {
        self.evidence.push(evidence.into());
        self
    }

    fn gain(self, words: impl Into<String>) -> Self {
        Finding { gain: Some(words.into()), ..self }
    }

    fn gain_mbps(self, mbps: Option<f64>) -> Self {
        match mbps.filter(|mbps| *mbps >= 1.0) {
            None => self,
            Some(mbps) => {
                let words = format!("some {mbps:.0} Mbit/s more");
                Finding { gain_mbps: Some(mbps), gain: self.gain.or(Some(words)), ..self }
            }
        }
    }

    fn mend(self, command: impl Into<String>) -> Self {
        Finding { mend: command.into(), ..self }
    }
}
