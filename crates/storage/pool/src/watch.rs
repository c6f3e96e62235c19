//! Watching pools: what is new since the last check, so that only changes are reported.

use crate::doctor::{Baseline, Code, Finding, Severity};
use crate::observed::ObservedPool;
use crate::uuid::Uuid;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What was known at the last check; kept in a file between checks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// Problems that were reported.
    #[serde(default)]
    told: Vec<Finding>,
    /// Error counters, to see which of them rise.
    #[serde(default)]
    pub errors: Baseline,
    /// When the last scrub of each pool, by UUID, had ended, Unix seconds.
    #[serde(default)]
    scrubs: BTreeMap<Uuid, u64>,
}

/// A scrub that has ended since the last check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ScrubEnded {
    /// The pool's name.
    pub pool: String,
    /// Errors that no copy could correct.
    pub uncorrectable: u64,
}

/// A scrub's end is known only by how long ago it was, so it shifts a little from check to check.
const SAME_SCRUB_S: u64 = 60;

/// Something that changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// How.
    pub event: Event,
    /// What is wrong, or was.
    pub finding: Finding,
}

/// How something changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Event {
    /// It wasn't wrong before.
    New,
    /// It got worse.
    Worse,
    /// It got better, but is still wrong.
    Better,
    /// It isn't wrong any more.
    Gone,
}

impl Event {
    /// As `--json` and hooks have it.
    pub fn as_str(self) -> &'static str {
        match self {
            Event::New => "new",
            Event::Worse => "worse",
            Event::Better => "better",
            Event::Gone => "gone",
        }
    }
}

impl Memory {
    /// Scrubs that have ended since the last check, at `now` in Unix seconds. For a pool seen for
    /// the first time none is new.
    pub fn scrubs_ended(&mut self, pools: &[ObservedPool], now: u64) -> Vec<ScrubEnded> {
        let mut ended = Vec::new();
        for pool in pools {
            let scrub = match pool {
                ObservedPool::Btrfs(btrfs) => btrfs.scrub,
                ObservedPool::Md(md) => md.scrub,
            };
            let at = scrub.ended_ago.map_or(0, |ago| now.saturating_sub(ago.as_secs()));
            match self.scrubs.insert(pool.uuid(), at) {
                Some(before) if at > before + SAME_SCRUB_S => {
                    ended.push(ScrubEnded { pool: pool.name(), uncorrectable: scrub.uncorrectable })
                }
                // The clock was set, or it isn't mounted now.
                Some(before) if at < before => {
                    self.scrubs.insert(pool.uuid(), before.min(now));
                }
                _ => {}
            }
        }
        ended
    }

    /// What changed, given the current findings: in the order given, then those that are gone.
    /// Notes don't count as changes. Problems of a pool that can't be examined now, because it
    /// isn't mounted or isn't there, aren't gone: `is_seen` says which pools can be.
    pub fn changes(&self, now: &[Finding], is_seen: impl Fn(&str) -> bool) -> Vec<Change> {
        let now: Vec<&Finding> =
            now.iter().filter(|finding| finding.severity > Severity::Note).collect();
        let told: Vec<&Finding> = self.told.iter().collect();
        let mut changes = Vec::new();
        for (key, finding) in keyed(&now) {
            let before = keyed(&told).find(|(old, _)| *old == key).map(|(_, finding)| finding);
            let event = match before {
                None => Event::New,
                Some(before) if finding.severity > before.severity => Event::Worse,
                Some(before) if finding.severity < before.severity => Event::Better,
                // The wording may have changed: a number, an age.
                Some(_) => continue,
            };
            changes.push(Change { event, finding: finding.clone() });
        }
        for (key, finding) in keyed(&told) {
            let is_seen = finding.pool.as_deref().is_none_or(&is_seen);
            if is_seen && !keyed(&now).any(|(new, _)| new == key) {
                changes.push(Change { event: Event::Gone, finding: finding.clone() });
            }
        }
        changes
    }

    /// The change was reported, and won't be again. One that couldn't be reported is reported after
    /// the next check.
    pub fn told(&mut self, change: &Change) {
        let finding = &change.finding;
        let is_it = |old: &Finding| kind(old) == kind(finding);
        match (change.event, self.told.iter().rposition(is_it)) {
            (Event::New, _) => self.told.push(finding.clone()),
            (Event::Gone, Some(at)) => drop(self.told.remove(at)),
            (Event::Gone, None) => {}
            (Event::Worse | Event::Better, Some(at)) => self.told[at] = finding.clone(),
            (Event::Worse | Event::Better, None) => self.told.push(finding.clone()),
        }
    }
}

type Kind<'a> = (Code, Option<&'a str>);

fn kind(finding: &Finding) -> Kind<'_> {
    (finding.code, finding.pool.as_deref())
}

/// Each with the key that identifies it: among several of the same kind in one pool, such as two
/// missing members, by its position.
fn keyed<'a>(
    findings: &'a [&'a Finding],
) -> impl Iterator<Item = ((Kind<'a>, usize), &'a Finding)> {
    findings.iter().enumerate().map(|(at, finding)| {
        let before = findings.iter().take(at);
        let earlier = before.filter(|other| kind(other) == kind(finding)).count();
        ((kind(finding), earlier), *finding)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::slice::from_ref;

    fn finding(code: Code, severity: Severity) -> Finding {
        let (pool, what) = (Some("photos".to_owned()), "wrong".to_owned());
        Finding { code, severity, pool, what, mend: String::new() }
    }

    fn look(memory: &mut Memory, now: &[Finding]) -> Vec<Event> {
        let changes = memory.changes(now, |_| true);
        changes.iter().for_each(|change| memory.told(change));
        changes.iter().map(|change| change.event).collect()
    }

    #[test]
    fn only_changes_are_told() {
        let mut memory = Memory::default();
        let scrub = finding(Code::ScrubOverdue, Severity::Attention);
        let missing = finding(Code::MissingMember, Severity::Danger);
        assert_eq!(look(&mut memory, from_ref(&scrub)), [Event::New]);
        assert_eq!(look(&mut memory, from_ref(&scrub)), []);
        let older = Finding { what: "3 days more".to_owned(), ..scrub.clone() };
        assert_eq!(look(&mut memory, &[older]), []);
        assert_eq!(look(&mut memory, &[missing.clone(), scrub.clone()]), [Event::New]);
        let lost = finding(Code::MissingMember, Severity::Lost);
        assert_eq!(look(&mut memory, &[lost, scrub.clone()]), [Event::Worse]);
        assert_eq!(look(&mut memory, &[missing, scrub.clone()]), [Event::Better]);
        assert_eq!(look(&mut memory, &[scrub]), [Event::Gone]);
        assert_eq!(look(&mut memory, &[]), [Event::Gone]);
        assert_eq!(memory, Memory::default());
    }

    #[test]
    fn the_second_of_a_kind_is_new_and_one_of_two_can_go() {
        let mut memory = Memory::default();
        let missing = || finding(Code::MissingMember, Severity::Danger);
        assert_eq!(look(&mut memory, &[missing()]), [Event::New]);
        assert_eq!(look(&mut memory, &[missing(), missing()]), [Event::New]);
        assert_eq!(look(&mut memory, &[missing()]), [Event::Gone]);
        assert_eq!(look(&mut memory, &[missing()]), []);
    }

    #[test]
    fn what_could_not_be_told_is_told_again_and_notes_never() {
        let memory = Memory::default();
        let now =
            [finding(Code::Degraded, Severity::Danger), finding(Code::NoBitmap, Severity::Note)];
        let changes = || memory.changes(&now, |_| true);
        assert_eq!(changes().len(), 1);
        assert_eq!(changes(), changes());
    }

    #[test]
    fn what_can_not_be_looked_at_is_not_gone() {
        let mut memory = Memory::default();
        look(&mut memory, &[finding(Code::Uncorrectable, Severity::Danger)]);
        let unmounted = [finding(Code::NotMounted, Severity::Danger)];
        let changes = memory.changes(&unmounted, |_| false);
        let events: Vec<Event> = changes.iter().map(|change| change.event).collect();
        assert_eq!(events, [Event::New]);
        assert_eq!(memory.changes(&[], |_| true).len(), 1);
    }

    #[test]
    fn memory_is_kept_as_text() {
        let mut memory = Memory::default();
        look(&mut memory, &[finding(Code::Degraded, Severity::Danger)]);
        let text = serde_json::to_string(&memory).unwrap();
        assert_eq!(serde_json::from_str::<Memory>(&text).unwrap(), memory);
        assert_eq!(serde_json::from_str::<Memory>("{}").unwrap(), Memory::default());
    }
}
