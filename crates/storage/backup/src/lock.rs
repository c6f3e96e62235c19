//! Object locks: until they expire nobody can delete a file at the target, not even with its
//! credentials. Every backup, and a target's regular care, extends the locks of all files that the
//! backups there need, once less than the wanted span is left.

use crate::Error;
use crate::store::{Name, after};
use crate::vault::Vault;
use braid_pool::upkeep::LockSpan;
use jiff::Timestamp;
use rustic_core::{FileType, ReadBackend};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Mutex;

/// When each file's lock expires, by its path at the target, in seconds since the Unix epoch. The
/// target is asked about files that aren't in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ends(BTreeMap<String, i64>);

/// What is to be locked.
pub struct LockPlan {
    span: LockSpan,
    /// What the backups there need, by path.
    needed: BTreeMap<String, Name>,
    /// Those of them that aren't locked until `least`.
    short: Vec<Name>,
    least: Timestamp,
    /// The expected result.
    pub would_be: Locked,
}

/// The result.
#[derive(Clone, Debug, Serialize)]
pub struct Locked {
    /// All are locked for at least this many days.
    pub days: u32,
    /// How many files the backups there need.
    pub files: usize,
    /// Those of them whose lock was extended, or would be.
    pub prolonged: usize,
    /// When the first of these locks ends, since the Unix epoch.
    pub ends_s: u64,
}

impl Vault {
    /// Prolongs the locks of all that the backups there need.
    ///
    /// # Errors
    /// The target can't lock, refuses, or says that something is locked which isn't.
    pub fn prolong(&self, span: LockSpan, ends: &mut Ends) -> Result<Locked, Error> {
        let plan = self.plan_locks(span, ends)?;
        self.prolong_as_planned(&plan, ends)
    }

    /// Which locks would be extended. Entries of `ends` that no backup needs are dropped.
    ///
    /// # Errors
    /// The target can't lock, or refuses.
    pub fn plan_locks(&self, span: LockSpan, ends: &mut Ends) -> Result<LockPlan, Error> {
        let courier = self.courier();
        courier.check_lock()?;
        let needed = self.needed()?;
        self.take_in_written(span, ends);
        ends.0.retain(|path, _| needed.contains_key(path));
        let now = courier.now();
        let least = after(now, span.least());
        let is_short = |path: &String| ends.0.get(path).is_none_or(|end| *end < least.as_second());
        let short: Vec<Name> =
            needed.iter().filter(|(path, _)| is_short(path)).map(|(_, name)| *name).collect();
        let would_be = locked(span, &needed, &short, ends, (least, after(now, span.at_once())));
        Ok(LockPlan { span, needed, short, least, would_be })
    }

    /// Prolongs them, from now on.
    ///
    /// # Errors
    /// As of [`Vault::prolong`].
    pub fn prolong_as_planned(&self, plan: &LockPlan, ends: &mut Ends) -> Result<Locked, Error> {
        let LockPlan { span, needed, short, least, .. } = plan;
        let at_once = after(self.courier().now(), span.at_once());
        let known = Mutex::new(&mut *ends);
        let each = |name: &Name, end: Timestamp| {
            let mut known = known.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            known.0.insert(name.path(), end.as_second());
        };
        self.courier().lock(short, at_once, &each)?;
        self.look_again_at_locks(needed, short, *least)?;
        Ok(locked(*span, needed, short, ends, (*least, at_once)))
    }

    /// The paths of all files that the backups there need: packs that the indexes name and that
    /// aren't marked for removal, and the files that lead to them.
    fn needed(&self) -> Result<BTreeMap<String, Name>, Error> {
        let courier = self.courier();
        let repository = self.repository(false)?;
        let named = self.named_packs(&repository)?;
        let mut names: Vec<Name> =
            named.packs.keys().map(|id| Name::new(FileType::Pack, id)).collect();
        for kind in [FileType::Config, FileType::Key, FileType::Snapshot, FileType::Index] {
            let listed = self.told(courier.list_with_size(kind))?;
            names.extend(listed.iter().map(|(id, _)| Name::new(kind, id)));
        }
        Ok(names.into_iter().map(|name| (name.path(), name)).collect())
    }

    /// What was written since the target was opened was locked when written.
    fn take_in_written(&self, span: LockSpan, ends: &mut Ends) {
        if self.target_options().lock != Some(span) {
            return;
        }
        let opened = self.courier().now().checked_sub(self.opened_for());
        let end = after(opened.unwrap_or(Timestamp::MIN), span.at_once()).as_second();
        for (kind, id, _) in &self.courier().delivery().written {
            ends.0.insert(Name::new(*kind, id).path(), end);
        }
    }

    /// A server may accept a lock request without knowing what it means, so the lock of one file of
    /// each kind is read back.
    fn look_again_at_locks(
        &self,
        needed: &BTreeMap<String, Name>,
        prolonged: &[Name],
        least: Timestamp,
    ) -> Result<(), Error> {
        let newest_of_kinds: BTreeMap<&str, &Name> =
            needed.values().map(|name| (name.kind.dirname(), name)).collect();
        for name in newest_of_kinds.into_values().chain(prolonged.first()) {
            let end = self.courier().lock_end(name)?;
            // To the second.
            if end.is_none_or(|end| end.as_second() < least.as_second()) {
                return Err(Error::Damaged(format!(
                    "{}: {} isn't locked, though the server said so",
                    self.target(),
                    name.path()
                )));
            }
        }
        Ok(())
    }
}

/// Files that aren't locked until `least` count as locked until `at_once`.
fn locked(
    span: LockSpan,
    needed: &BTreeMap<String, Name>,
    prolonged: &[Name],
    ends: &Ends,
    (least, at_once): (Timestamp, Timestamp),
) -> Locked {
    let first = needed.keys().map(|path| match ends.0.get(path) {
        Some(end) if *end >= least.as_second() => *end,
        _ => at_once.as_second(),
    });
    let ends_s = first.min().and_then(|end| u64::try_from(end).ok()).unwrap_or(0);
    Locked { days: span.days(), files: needed.len(), prolonged: prolonged.len(), ends_s }
}
