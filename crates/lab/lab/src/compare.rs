//! Compares all engines over the same links, for the tables in a series of articles about home
//! networks; each case of a suite is a scenario.

mod page;
mod text;

pub use page::page;
pub use text::markdown;

use crate::cancel::Cancel;
use crate::engines;
use crate::live::Live;
use crate::plan::{Findings, Plan};
use crate::report::Results;
use crate::run::run;
use crate::scenario::{Scenario, ScenarioError};
use crate::scratch::Scratch;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Links and traffic that belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Suite {
    /// Two hosts and two Ethernet cables
    HomeLan,
    /// A home with two or three lines to the Internet
    Wan,
}

/// A scenario of a suite.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Its name, without the suite's.
    pub name: &'static str,
    file: &'static str,
    text: &'static str,
}

macro_rules! cases {
    ($suite:literal: $($name:literal),*) => {
        &[$(Case {
            name: $name,
            file: concat!($suite, "-", $name, ".toml"),
            text: include_str!(concat!("../../../../scenarios/compare/", $suite, "-", $name, ".toml")),
        }),*]
    };
}

const HOME_LAN: &[Case] = cases!("home-lan": "equal", "delay", "slow", "lossy", "pulled");
const WAN: &[Case] = cases!("wan": "equal", "unequal", "slow", "lossy", "pulled");

/// Engines compared by default: first what most host kernels have, then what needs drivers that may
/// be missing.
const ENGINES: [&str; 20] = [
    "tunnel",
    "mptcp",
    "mptcp:proxy",
    "ecmp:nexthop",
    "ecmp:resilient",
    "pcc",
    "round-robin",
    "bonding:balance-rr",
    "bonding:active-backup",
    "bonding:balance-xor",
    "bonding:broadcast",
    "bonding:802.3ad",
    "bonding:balance-tlb",
    "bonding:balance-alb",
    "team:roundrobin",
    "team:activebackup",
    "team:loadbalance",
    "team:lacp",
    "teql",
    "pppoe-multilink",
];

impl Suite {
    /// Its cases, in the order of the report.
    pub fn cases(self) -> &'static [Case] {
        match self {
            Suite::HomeLan => HOME_LAN,
            Suite::Wan => WAN,
        }
    }

    /// Engines that its links can't have, and why.
    pub fn left_out(self) -> (&'static [&'static str], &'static str) {
        match self {
            Suite::HomeLan => (
                &["bonding:balance-tlb"],
                "over plain cables the other end drops what comes by a port that isn't the active \
                 one; it wants a switch between",
            ),
            Suite::Wan => (
                &["bonding:802.3ad", "team:lacp"],
                "LACP leaves out ports of unknown speed, such as GRETAP devices",
            ),
        }
    }

    /// Engines compared by default.
    fn engines(self) -> Vec<String> {
        let (left_out, _) = self.left_out();
        ENGINES.iter().filter(|name| !left_out.contains(name)).map(|&name| name.into()).collect()
    }

    /// The report's title.
    pub fn title(self) -> &'static str {
        match self {
            Suite::HomeLan => "Two cables between two hosts: the kernel's engines and Braid",
            Suite::Wan => "Several lines to the Internet: the kernel's engines and Braid",
        }
    }
}

impl Case {
    /// Reads it, with other run times if `seconds` says so.
    ///
    /// # Errors
    /// None, except for a bug.
    pub fn load(self, seconds: Option<u64>) -> Result<Scenario, ScenarioError> {
        let mut scenario = Scenario::parse(self.file, self.text, Path::new("."))?;
        // A case with events needs its full time.
        if let Some(seconds) = seconds
            && scenario.events.is_empty()
        {
            // None of the cases has traffic that starts later.
            let _ = scenario.last(Duration::from_secs(seconds));
        }
        Ok(scenario)
    }
}

/// What a comparison measures.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// The suite.
    pub suite: Suite,
    /// Only these of its cases; all if empty.
    pub only: Vec<String>,
    /// Only these engines; the default ones if empty.
    pub engines: Vec<String>,
    /// Duration of one run.
    pub seconds: Option<u64>,
    /// Number of repetitions.
    pub repeat: u32,
    /// The program that engines start.
    pub program: PathBuf,
}

/// A measured case.
#[derive(Debug)]
pub struct Compared {
    /// The case.
    pub case: Case,
    /// Its results.
    pub findings: Findings,
}

/// What `--json` writes.
#[derive(Clone, Debug, Serialize)]
pub struct ComparisonResults<'a> {
    suite: &'a str,
    cases: Vec<Results>,
}

impl Comparison {
    /// The plans for the cases and engines that it names.
    ///
    /// # Errors
    /// There is no such case or engine.
    pub fn plans(&self) -> Result<Vec<(Case, Plan)>, String> {
        let cases = self.suite.cases();
        let names: Vec<&str> = cases.iter().map(|case| case.name).collect();
        if let Some(unknown) = self.only.iter().find(|only| !names.contains(&only.as_str())) {
            return Err(format!(
                "there is no case {unknown:?}; the cases are: {}",
                names.join(", ")
            ));
        }
        let wanted =
            |case: &&Case| self.only.is_empty() || self.only.iter().any(|only| only == case.name);
        cases.iter().filter(wanted).map(|case| Ok((*case, self.plan(*case)?))).collect()
    }

    fn plan(&self, case: Case) -> Result<Plan, String> {
        let scenario = case.load(self.seconds).map_err(|error| error.to_string())?;
        let default = self.suite.engines();
        let texts = if self.engines.is_empty() { &default } else { &self.engines };
        let engines = engines::named(texts, &scenario)?;
        Ok(Plan {
            scenario,
            engines,
            repeat: self.repeat,
            baseline: true,
            keep_logs: None,
            program: self.program.clone(),
        })
    }
}

/// Measures the plans of a comparison, one after the other.
pub fn compare(
    plans: Vec<(Case, Plan)>,
    scratch: &Scratch,
    cancel: &Cancel,
    live: &Live,
) -> Vec<Compared> {
    let mut compared = Vec::new();
    let count = plans.len();
    for (number, (case, plan)) in (1..).zip(plans) {
        if cancel.is_cancelled() {
            break;
        }
        live.line(&format!("--- {number} of {count}: {}", plan.scenario.description));
        let findings = run(&plan, scratch, cancel, live);
        compared.push(Compared { case, findings });
    }
    compared
}

/// The form that is written as JSON.
pub fn results(suite: Suite, compared: &[Compared]) -> ComparisonResults<'_> {
    ComparisonResults {
        suite: match suite {
            Suite::HomeLan => "home-lan",
            Suite::Wan => "wan",
        },
        cases: compared.iter().map(|compared| compared.findings.results()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comparison(suite: Suite) -> Comparison {
        Comparison {
            suite,
            only: Vec::new(),
            engines: Vec::new(),
            seconds: Some(2),
            repeat: 1,
            program: PathBuf::new(),
        }
    }

    #[test]
    fn every_case_and_engine_can_be_planned() {
        for suite in [Suite::HomeLan, Suite::Wan] {
            let plans = comparison(suite).plans().unwrap();
            assert_eq!(plans.len(), 5);
            for (case, plan) in &plans {
                let left_out = suite.left_out().0;
                assert_eq!(plan.engines.len(), ENGINES.len() - left_out.len(), "{}", case.name);
                assert!(left_out.iter().all(|name| ENGINES.contains(name)));
                assert!(plan.scenario.in_turn);
                let events = !plan.scenario.events.is_empty();
                assert_eq!(events, case.name == "pulled");
                assert_eq!(plan.scenario.duration == Duration::from_secs(2), !events);
            }
        }
    }

    #[test]
    fn cases_and_engines_are_chosen_by_name() {
        let mut wanted = comparison(Suite::Wan);
        wanted.only = vec!["lossy".to_owned()];
        wanted.engines = vec!["each".to_owned(), "teql".to_owned()];
        let plans = wanted.plans().unwrap();
        assert_eq!(plans.len(), 1);
        assert_eq!(plans[0].1.engines.len(), 3);
        wanted.only = vec!["sunny".to_owned()];
        assert!(wanted.plans().unwrap_err().contains("lossy"));
        wanted.only.clear();
        wanted.engines = vec!["warp".to_owned()];
        assert!(wanted.plans().unwrap_err().contains("warp"));
    }
}
