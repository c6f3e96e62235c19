//! What is set on the host, through the journal that undoes it.

use super::super::journal_trouble::JournalTrouble;
use super::super::names::Choice;
use braid_control::request::Refusal;
use braid_engines::{MAIN_TABLE, Operation, Route};
use braid_linux::journal::UndoJournal;
use braid_linux::nft::Split;
use braid_linux::routing::HostRouting;
use std::fs::File;
use std::io;
use std::time::{Duration, Instant};

/// Applies the latest plan of the host's routing.
pub struct Routing {
    journal: UndoJournal,
    /// Redirects connections to the proxy that splits them.
    split: Option<Split>,
    /// What could not be done, as last reported.
    troubles: Vec<String>,
    journal_trouble: JournalTrouble,
    /// Reserved file descriptors, closed at the end, as undoing needs some even if the process has
    /// none left.
    spare_files: Vec<File>,
}

/// What starting `nft` needs: both ends of three pipes, and `/dev/null`.
const SPARE_FILES: usize = 7;

/// If undoing took less than this, nothing hangs and another try is worthwhile.
const ANOTHER_TRY: Duration = Duration::from_secs(4);

impl Routing {
    /// Makes what the journal lacks, and takes back what is in it for nothing.
    pub fn new(journal: UndoJournal, split: Option<Split>) -> io::Result<Routing> {
        let spare_files =
            (0..SPARE_FILES).map(|_| File::open("/dev/null")).collect::<Result<_, _>>()?;
        let journal_trouble = JournalTrouble::new("changed settings below /proc/sys would stay");
        Ok(Routing { journal, split, troubles: Vec::new(), journal_trouble, spare_files })
    }

    /// Applies a plan, with name servers that answer. Returns whether all of it was done.
    pub fn apply(&mut self, plan: HostRouting, names: &Choice) -> bool {
        let failures = self.journal.reconcile(&self.desired(plan, names));
        let troubles: Vec<String> = failures.iter().map(ToString::to_string).collect();
        for trouble in troubles.iter().filter(|it| !self.troubles.contains(it)) {
            tracing::warn!("routing: {trouble}");
        }
        self.troubles = troubles;
        for item in self.journal.take_restored() {
            tracing::warn!("{item}: somebody removed it; it is set again");
        }
        let written = self.journal_trouble.follow(&mut self.journal);
        self.troubles.is_empty() && written
    }

    fn desired(&self, mut plan: HostRouting, names: &Choice) -> Vec<Operation> {
        plan.firewall.diversions.clone_from(&names.diversions);
        plan.split = self.split;
        let mut desired = plan.desired();
        desired.extend(names.routes.iter().map(|route| {
            Operation::Route(Route {
                gateway: route.router,
                device: Some(route.device.clone()),
                ..Route::new(route.address.into(), MAIN_TABLE)
            })
        }));
        desired
    }

    /// Frees the file descriptors reserved for the end.
    pub fn free_files(&mut self) {
        self.spare_files.clear();
    }

    /// Whether another program could take over what is set.
    ///
    /// # Errors
    /// It isn't recorded.
    pub fn can_stay(&mut self) -> Result<(), Refusal> {
        self.journal.retry();
        self.journal.trouble().map_or(Ok(()), |trouble| {
            Err(Refusal::Failed(format!(
                "what is set on this host can't be recorded for the program that would continue \
                 with it: {trouble}"
            )))
        })
    }

    /// Undoes everything except what `stays`.
    ///
    /// # Errors
    /// What is left.
    pub fn take_back(&mut self, stays: &[Operation]) -> Result<(), String> {
        let began = Instant::now();
        let mut failures = self.journal.reconcile(stays);
        // A temporary shortage may be over; what hangs isn't waited for twice.
        if !failures.is_empty() && began.elapsed() < ANOTHER_TRY {
            failures = self.journal.reconcile(stays);
        }
        for failure in &failures {
            tracing::warn!("taking back: {failure}");
        }
        match &failures[..] {
            [] => Ok(()),
            [one] => Err(one.to_string()),
            [one, more @ ..] => Err(format!("{one}, and {} more", more.len())),
        }
    }
}
