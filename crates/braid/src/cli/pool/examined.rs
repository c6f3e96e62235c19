//! What the doctor finds on this host.

use super::carry_out::Place;
use super::named::choose;
use super::verdict::Verdict;
use crate::cli::failure::Failure;
use braid_diskbench::temporary_pool;
use braid_disks::{AskSmart, HostRoot, Inventory, pools};
use braid_pool::disk::Disk;
use braid_pool::doctor::{self, Baseline, Finding, Interrupted, Limits, Severity};
use braid_pool::observed::ObservedPool;

pub struct Examined {
    pub pools: Vec<ObservedPool>,
    pub disks: Vec<Disk>,
    /// Worst first.
    pub findings: Vec<Finding>,
}

impl Examined {
    /// Examines the pools with these names, or all; error counters are compared with `before`.
    pub fn now(
        names: &[String],
        ask_smart: AskSmart,
        before: &Baseline,
        place: &Place,
    ) -> Result<Self, Failure> {
        let root = HostRoot::real();
        let inventory = Inventory::take(&root, ask_smart);
        let pools = choose(pools::observe(&root, &inventory), names)?;
        let host = braid_runner::host::observe_host_of(&place.config(), &inventory);
        let disks = inventory.disks;
        let mut findings = doctor::examine(&pools, &disks, &host, before, Limits::default());
        findings.extend(interrupted(names, place)?);
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
        Ok(Examined { pools, disks, findings })
    }

    /// The worst that was found.
    pub fn verdict(&self) -> Verdict {
        let worst = self.findings.iter().map(|finding| verdict(finding.severity)).max();
        worst.unwrap_or(Verdict::Well)
    }
}

/// Changes of these pools, or all, that a crash or a reboot interrupted.
fn interrupted(names: &[String], place: &Place) -> Result<Vec<Finding>, Failure> {
    let mut found = place.state().interrupted()?;
    found.retain(|(pool, _)| names.is_empty() || names.contains(pool));
    let finding = |(pool, record): &(String, braid_runner::journal::Record)| {
        let change = Interrupted {
            pool,
            title: &record.plan.title,
            done: record.done(),
            steps: record.steps.len(),
            to_be_undone: record.abandoning || pool == temporary_pool::NAME,
        };
        change.finding()
    };
    Ok(found.iter().map(finding).collect())
}

fn verdict(severity: Severity) -> Verdict {
    match severity {
        Severity::Note => Verdict::Well,
        Severity::Attention => Verdict::Attention,
        Severity::Danger => Verdict::Danger,
        Severity::Lost => Verdict::Lost,
    }
}

/// A finding as a person reads it: what is wrong, then how to mend it.
pub fn render(finding: &Finding) -> String {
    let severity = match finding.severity {
        Severity::Note => "note",
        Severity::Attention => "attention",
        Severity::Danger => "DANGER",
        Severity::Lost => "LOST",
    };
    let pool = finding.pool.as_ref().map_or_else(String::new, |pool| format!("{pool}: "));
    let mend = match finding.mend.is_empty() {
        true => String::new(),
        false => format!("\n           mend it: {}", finding.mend),
    };
    format!("{severity:<9}  {pool}{}{mend}", finding.what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use braid_pool::doctor::Code;

    #[test]
    fn a_finding_says_what_and_how() {
        let finding = Finding {
            code: Code::MissingMember,
            severity: Severity::Danger,
            pool: Some("photos".into()),
            what: "a member is missing".into(),
            mend: "braid pool replace photos 2 NEW".into(),
        };
        let expected = "DANGER     photos: a member is missing\n           mend it: braid pool replace photos 2 NEW";
        assert_eq!(render(&finding), expected);
        assert_eq!(verdict(finding.severity), Verdict::Danger);
    }
}
