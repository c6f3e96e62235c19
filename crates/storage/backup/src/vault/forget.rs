//! Removes old backups, and data that nothing refers to any longer.

use super::{Present, Vault};
use crate::Error;
use crate::error::one_line;
use crate::quiet::caught;
use crate::short_id::short_id;
use crate::store::Name;
use crate::target::LONGEST_BEHIND;
use braid_pool::retention::{self, Caution, Fate, Policy, Reason};
use rustic_core::{FileType, PruneOptions, ReadBackend};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

/// What becomes of one backup by a policy.
#[derive(Clone, Debug, Serialize)]
pub struct Forgotten {
    /// Which.
    #[serde(flatten)]
    pub backup: Present,
    /// Whether it stays.
    pub keep: bool,
    /// Why.
    pub because: Vec<Reason>,
}

impl Vault {
    /// What the policy decides for each backup, newest first. Each computer and path is counted
    /// separately.
    ///
    /// # Errors
    /// They can't be read.
    pub fn judge(&self, policy: &Policy, now: Duration) -> Result<Vec<Forgotten>, Error> {
        let mut series: BTreeMap<(String, Vec<PathBuf>), Vec<Present>> = BTreeMap::new();
        for one in self.backups()? {
            series.entry((one.host.clone(), one.paths.clone())).or_default().push(one);
        }
        let mut all = vec![];
        for of_series in series.values() {
            // One that lacks something doesn't push out one that is whole.
            let whole = of_series.iter().any(|one| !one.incomplete);
            let counted = of_series.iter().filter(|one| !whole || !one.incomplete);
            let snapshots: Vec<retention::Snapshot> = counted
                .map(|one| retention::Snapshot { name: one.id.clone(), taken: one.taken })
                .collect();
            let decisions = retention::select(policy, &snapshots, &[], now);
            for one in of_series.iter().rev() {
                let decision = decisions.iter().find(|decision| decision.snapshot == one.id);
                let (keep, because) = match decision {
                    Some(decision) => (decision.keep, decision.because.clone()),
                    None => self.fate_of_incomplete(one, &decisions, of_series),
                };
                all.push(Forgotten { backup: one.clone(), keep, because });
            }
        }
        Ok(all)
    }

    /// An incomplete backup stays until a newer one is complete.
    fn fate_of_incomplete(
        &self,
        one: &Present,
        decisions: &[retention::Decision],
        of_series: &[Present],
    ) -> (bool, Vec<Reason>) {
        let newer_whole =
            of_series.iter().any(|other| !other.incomplete && other.taken > one.taken);
        match newer_whole {
            true => (false, vec![Reason::TooOld]),
            false => (true, decisions.first().map_or(vec![], |_| vec![Reason::Newest])),
        }
    }

    /// What is to be told before that is carried out.
    pub fn cautions(all: &[Forgotten], is_known: bool, now: Duration) -> Vec<Caution> {
        let mut series: BTreeMap<(&str, &[PathBuf]), Vec<Fate<'_>>> = BTreeMap::new();
        for one in all {
            let key = (one.backup.host.as_str(), one.backup.paths.as_slice());
            series.entry(key).or_default().push(Fate {
                snapshot: &one.backup.id,
                taken: one.backup.taken,
                keep: one.keep,
            });
        }
        series.values().filter_map(|fates| retention::caution(fates, is_known, now)).collect()
    }

    /// Deletes the backups that don't stay, then data that nothing refers to any more; returns how
    /// many backups went. `made_here` are backups that this computer knows of: a list that lacks
    /// one is out of date, and the data of unlisted backups would be taken for unused.
    ///
    /// # Errors
    /// The target lets nothing be removed, or can't be reached; or its lists aren't whole.
    pub fn forget(&self, all: &[Forgotten], made_here: &[&str]) -> Result<usize, Error> {
        let going: Vec<&str> =
            all.iter().filter(|one| !one.keep).map(|one| one.backup.id.as_str()).collect();
        let repository = self.repository(true)?;
        self.courier.tidy();
        let ids =
            going.iter().map(|id| self.told(id.parse())).collect::<Result<Vec<_>, Error>>()?;
        self.refuse_lists_without(made_here)?;
        // Packs are only marked now, and removed by a later run: another computer's backup that
        // isn't listed yet may be using them.
        let mut options = PruneOptions::default();
        let longest = jiff::Span::new().hours(LONGEST_BEHIND.as_secs() as i64 / 3600);
        options.keep_pack = longest;
        // Until lists have such a backup, which then takes them back.
        options.keep_delete = longest;
        options.ignore_snaps.clone_from(&ids);
        let plan = repository.prune_plan(&options).map_err(|error| {
            let what = one_line(&error);
            self.courier.failure().unwrap_or_else(|| self.are_behind(&what))
        })?;
        if !ids.is_empty() {
            self.told(repository.delete_snapshots(&ids))?;
        }
        let pruned = caught(|| repository.prune(&options, plan));
        match pruned {
            Ok(pruned) => self.told(pruned)?,
            Err(said) => return Err(self.courier.error_of(said)),
        }
        Ok(going.len())
    }

    /// Each of these is listed, or is gone.
    fn refuse_lists_without(&self, made_here: &[&str]) -> Result<(), Error> {
        let listed = self.told(self.courier.list_with_size(FileType::Snapshot))?;
        let listed: BTreeSet<String> =
            listed.iter().map(|(id, _)| id.to_hex().as_str().to_owned()).collect();
        for id in made_here.iter().filter(|id| !listed.contains(**id)) {
            let name = Name::new(FileType::Snapshot, &self.told(id.parse())?);
            if self.courier.part(&name, 0..1)?.is_some() {
                return Err(self.are_behind(&format!("the backup {} isn't listed", short_id(id))));
            }
        }
        Ok(())
    }

    pub(crate) fn are_behind(&self, what: &str) -> Error {
        let what = format!(
            "nothing was removed: {what}; its lists may be behind: try again later, and where it \
             stays so `braid pool backup check` tells more"
        );
        Error::Target { target: self.target.shown(), what }
    }
}
