//! What a run of the lab measures, and its results.

use crate::engines::EngineName;
use crate::live::Live;
use crate::report::{Host, Report, Results};
use crate::scenario::Scenario;
use std::path::PathBuf;

/// What to measure.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The scenario.
    pub scenario: Scenario,
    /// Measured in turn, in each repetition.
    pub engines: Vec<EngineName>,
    /// Number of repetitions.
    pub repeat: u32,
    /// Whether to measure the links alone, too; without that there is no ratio.
    pub baseline: bool,
    /// Where to copy the engines' configs and logs.
    pub keep_logs: Option<PathBuf>,
    /// The program that the `tunnel` engine starts.
    pub program: PathBuf,
}

/// The results of a plan.
#[derive(Debug)]
pub struct Findings {
    /// Everything that could be measured.
    pub report: Report,
    /// What couldn't, and why, in words.
    pub failures: Vec<String>,
    /// What was measured in a VM because this kernel lacks it.
    pub in_vm: Option<Report>,
}

impl Findings {
    pub(crate) fn none(scenario: &Scenario) -> Self {
        Findings {
            report: Report {
                scenario: scenario.clone(),
                host: Host::this(),
                notes: scenario.notes(),
                records: Vec::new(),
            },
            failures: Vec::new(),
            in_vm: None,
        }
    }

    /// The reports that have any figures: this kernel's, and the VM's.
    pub fn reports(&self) -> Vec<&Report> {
        let own = (!self.report.records.is_empty() || self.in_vm.is_none()).then_some(&self.report);
        own.into_iter().chain(&self.in_vm).collect()
    }

    /// The form that is written as JSON.
    pub fn results(&self) -> Results {
        let mut results = self.report.results();
        results.vm = self.in_vm.as_ref().map(|report| Box::new(report.results()));
        results
    }

    pub(crate) fn fail(&mut self, live: &Live, message: &str) {
        live.line(&format!("FAILED {message}"));
        self.failures.push(message.to_owned());
    }
}
