//! Backups that are too old, were never checked, or never read back.

use super::{Code, Finding, Severity};
use crate::step::quoted;
use crate::upkeep::LockSpan;
use braid_units::format_duration;
use std::time::Duration;

/// What is known here about a folder's backups at one target. Times are since the Unix epoch.
#[derive(Clone, Copy, Debug, Default)]
pub struct BackupState<'a> {
    /// The pool that the folder is on.
    pub pool: Option<&'a str>,
    /// The folder.
    pub path: &'a str,
    /// The target.
    pub target: &'a str,
    /// When the last successful one was begun.
    pub done: Option<Duration>,
    /// The time between that and the one before.
    pub gap: Option<Duration>,
    /// When one was begun that nobody is working on.
    pub cut_off: Option<Duration>,
    /// Why the last try failed.
    pub failed: Option<&'a str>,
    /// Files that could not be read.
    pub unreadable: usize,
}

/// What is known here about a target. Times are since the Unix epoch.
#[derive(Clone, Copy, Debug, Default)]
pub struct TargetState<'a> {
    /// Which.
    pub target: &'a str,
    /// Since when it has been used.
    pub since: Duration,
    /// When it was checked, and what was wrong then.
    pub checked: Option<CheckState>,
    /// When something was read back and compared, and what was wrong with that.
    pub restored: Option<(Duration, Option<&'a str>)>,
    /// How its contents are locked.
    pub lock: Option<LockState<'a>>,
    /// The key that opens it, if it isn't in its place any more.
    pub missing_key: Option<&'a str>,
}

/// The last check of a target.
#[derive(Clone, Copy, Debug)]
pub struct CheckState {
    /// When, since the Unix epoch.
    pub at: Duration,
    /// What was wrong.
    pub errors: usize,
    /// That has been repaired since.
    pub repaired: bool,
}

/// What is known here about a target's locks.
#[derive(Clone, Copy, Debug)]
pub struct LockState<'a> {
    /// For how long everything should be locked.
    pub span: LockSpan,
    /// When the first file that backups need becomes unlocked, since the Unix epoch.
    pub ends: Option<Duration>,
    /// Why the last attempt to extend them failed.
    pub failed: Option<&'a str>,
}

const DAY: Duration = Duration::from_secs(24 * 3600);
/// If nothing shows how often backups are made.
const USUALLY: Duration = Duration::from_secs(3 * 24 * 3600);
/// As scrubs, which do the same for disks.
const CHECK_WITHIN: Duration = Duration::from_secs(35 * 24 * 3600);
/// Once in a quarter.
const RESTORE_WITHIN: Duration = Duration::from_secs(100 * 24 * 3600);

impl BackupState<'_> {
    /// What is wrong with them.
    pub fn findings(&self, now: Duration) -> Vec<Finding> {
        let (path, target) = (self.path, self.target);
        let again = format!("braid pool backup {} {}", quoted(path), quoted(target));
        let mut found = vec![];
        let mut add = |code, severity, what: String| {
            found.push(Finding {
                code,
                severity,
                pool: self.pool.map(str::to_owned),
                what,
                mend: again.clone(),
            });
        };
        let why = self.failed.map_or(String::new(), |why| format!("; the last try: {why}"));
        // One missed backup is no problem yet.
        let within = self.gap.map_or(USUALLY, |gap| (gap * 2).max(DAY) + DAY);
        match self.done {
            Some(done) if now.saturating_sub(done) > within => {
                let age = format_duration(rounded(now.saturating_sub(done)));
                let what = format!("the newest backup of {path} at {target} is {age} old{why}");
                add(Code::BackupOverdue, Severity::Danger, what);
            }
            None => {
                let what = format!("{path} has no backup at {target} yet{why}");
                add(Code::BackupOverdue, Severity::Danger, what);
            }
            Some(_) if self.cut_off.is_some() => {
                let what = format!("a backup of {path} to {target} was cut off{why}");
                add(Code::UnfinishedBackup, Severity::Attention, what);
            }
            Some(_) => {}
        }
        if self.unreadable > 0 {
            let what = format!(
                "the newest backup of {path} at {target} lacks {} files that could not be read",
                self.unreadable
            );
            add(Code::IncompleteBackup, Severity::Danger, what);
        }
        found
    }
}

impl TargetState<'_> {
    /// What is wrong with it.
    pub fn findings(&self, now: Duration) -> Vec<Finding> {
        let each = [self.of_key(), self.of_checks(now), self.of_restores(now), self.of_lock(now)];
        each.into_iter().flatten().collect()
    }

    fn of_key(&self) -> Option<Finding> {
        let (key, target) = (self.missing_key?, self.target);
        let what = format!(
            "the key of the backups at {target} is gone: without it nobody can read them or make \
             new ones"
        );
        let mend = format!(
            "type the line of the recovery sheet, then Ctrl-D: install -m 600 /dev/stdin {}",
            quoted(key)
        );
        Some(finding(Code::MissingBackupKey, Severity::Danger, what, mend))
    }

    fn of_checks(&self, now: Duration) -> Option<Finding> {
        let target = self.target;
        let word = quoted(target);
        let check = format!("braid pool backup check --read 5 {word}");
        match self.checked {
            Some(CheckState { errors, repaired, .. }) if errors > 0 => {
                let what = format!(
                    "the last check of the backups at {target} found {errors} errors{}",
                    if repaired { "; they were repaired since" } else { "" }
                );
                let mend = match repaired {
                    true => format!("braid pool backup check --read 100 {word}"),
                    false => format!("braid pool backup repair {word}"),
                };
                Some(finding(Code::DamagedBackup, Severity::Danger, what, mend))
            }
            Some(CheckState { at, .. }) if is_old(at, CHECK_WITHIN, now) => {
                let age = format_duration(rounded(now.saturating_sub(at)));
                let what = format!("the last check of the backups at {target} was {age} ago");
                Some(finding(Code::UncheckedBackup, Severity::Attention, what, check))
            }
            None if is_old(self.since, CHECK_WITHIN, now) => {
                let what = format!("the backups at {target} were never checked");
                Some(finding(Code::UncheckedBackup, Severity::Attention, what, check))
            }
            _ => None,
        }
    }

    fn of_restores(&self, now: Duration) -> Option<Finding> {
        let target = self.target;
        let drill = format!("braid pool backup drill {}", quoted(target));
        match self.restored {
            Some((_, Some(why))) => {
                let what = format!("the last restore from {target} went wrong: {why}");
                Some(finding(Code::DamagedBackup, Severity::Danger, what, drill))
            }
            Some((at, None)) if is_old(at, RESTORE_WITHIN, now) => {
                let age = format_duration(rounded(now.saturating_sub(at)));
                let what = format!("nothing was restored from {target} for {age}");
                Some(finding(Code::UntriedBackup, Severity::Attention, what, drill))
            }
            None if is_old(self.since, RESTORE_WITHIN, now) => {
                let what = format!("nothing was ever restored from {target}");
                Some(finding(Code::UntriedBackup, Severity::Attention, what, drill))
            }
            _ => None,
        }
    }

    fn of_lock(&self, now: Duration) -> Option<Finding> {
        let (lock, target) = (self.lock?, self.target);
        let left = lock.ends.map(|ends| ends.saturating_sub(now));
        // Each backup, and the weekly care, renews the whole span: being down to half means a long
        // silence.
        let (severity, what) = match (left, lock.failed) {
            (_, Some(why)) => (
                Severity::Danger,
                format!("the lock of the backups at {target} was not prolonged: {why}"),
            ),
            (None, None) => {
                (Severity::Attention, format!("the backups at {target} were never locked"))
            }
            (Some(left), None) if left.is_zero() => {
                (Severity::Danger, format!("backups at {target} aren't locked any more"))
            }
            (Some(left), None) if left < lock.span.least() / 2 => {
                let days = left.as_secs() / DAY.as_secs();
                let what = format!(
                    "the first of the backups' data at {target} is locked for {days} more days, \
                     of {} that all is to be",
                    lock.span.days()
                );
                (Severity::Attention, what)
            }
            _ => return None,
        };
        let mend = format!("braid pool backup lock {}", quoted(target));
        Some(finding(Code::BackupLock, severity, what, mend))
    }
}

fn finding(code: Code, severity: Severity, what: String, mend: String) -> Finding {
    Finding { code, severity, pool: None, what, mend }
}

fn is_old(at: Duration, within: Duration, now: Duration) -> bool {
    now.saturating_sub(at) > within
}

/// Seconds don't matter here.
fn rounded(age: Duration) -> Duration {
    let hours = age.as_secs() / 3600;
    match hours {
        0..48 => Duration::from_secs(hours * 3600),
        _ => Duration::from_secs(hours / 24 * 24 * 3600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(1_700_000_000);

    fn ago(days: u64) -> Duration {
        NOW - DAY * u32::try_from(days).unwrap()
    }

    fn codes(found: &[Finding]) -> Vec<Code> {
        found.iter().map(|finding| finding.code).collect()
    }

    #[test]
    fn a_key_that_is_gone_is_told() {
        let state = TargetState {
            target: "/mnt/x",
            since: NOW,
            missing_key: Some("/etc/my keys/k"),
            ..TargetState::default()
        };
        let found = state.findings(NOW);
        assert_eq!(codes(&found), [Code::MissingBackupKey]);
        assert!(found[0].mend.ends_with("install -m 600 /dev/stdin '/etc/my keys/k'"));
        assert_eq!(TargetState { missing_key: None, ..state }.findings(NOW), []);
    }

    #[test]
    fn a_backup_is_too_old_by_how_often_it_is_made() {
        let state = BackupState { path: "/srv/a b", target: "/mnt/x", ..BackupState::default() };
        let of = |done, gap| codes(&BackupState { done, gap, ..state }.findings(NOW));
        assert_eq!(of(None, None), [Code::BackupOverdue]);
        assert_eq!(of(Some(ago(2)), None), []);
        assert_eq!(of(Some(ago(4)), None), [Code::BackupOverdue]);
        assert_eq!(of(Some(ago(10)), Some(DAY * 7)), []);
        assert_eq!(of(Some(ago(16)), Some(DAY * 7)), [Code::BackupOverdue]);
        assert_eq!(of(Some(ago(1)), Some(DAY / 24)), []);
        let found = state.findings(NOW);
        assert_eq!(found[0].mend, "braid pool backup '/srv/a b' /mnt/x");
    }

    #[test]
    fn what_was_cut_off_or_lacks_files_is_told() {
        let state = BackupState {
            path: "/srv",
            target: "/mnt/x",
            done: Some(ago(0)),
            cut_off: Some(ago(0)),
            unreadable: 3,
            failed: Some("no route"),
            ..BackupState::default()
        };
        let found = state.findings(NOW);
        assert_eq!(codes(&found), [Code::UnfinishedBackup, Code::IncompleteBackup]);
        assert!(found[0].what.contains("no route"), "{found:?}");
    }

    #[test]
    fn targets_are_to_be_checked_and_read_back() {
        let new = TargetState { target: "/mnt/x", since: ago(1), ..TargetState::default() };
        assert_eq!(new.findings(NOW), []);
        let old = TargetState { since: ago(200), ..new };
        assert_eq!(codes(&old.findings(NOW)), [Code::UncheckedBackup, Code::UntriedBackup]);
        let checked = |errors, repaired| Some(CheckState { at: ago(3), errors, repaired });
        let fresh =
            TargetState { checked: checked(0, false), restored: Some((ago(3), None)), ..old };
        assert_eq!(fresh.findings(NOW), []);
        let bad = TargetState {
            checked: checked(2, false),
            restored: Some((ago(3), Some("x isn't as its original"))),
            ..old
        };
        assert_eq!(codes(&bad.findings(NOW)), [Code::DamagedBackup, Code::DamagedBackup]);
        assert_eq!(bad.findings(NOW)[0].mend, "braid pool backup repair /mnt/x");
        let repaired = TargetState { checked: checked(2, true), ..fresh }.findings(NOW);
        assert_eq!(codes(&repaired), [Code::DamagedBackup]);
        assert_eq!(repaired[0].mend, "braid pool backup check --read 100 /mnt/x");
    }

    #[test]
    fn a_lock_that_ends_or_was_not_prolonged_is_told() {
        let span = LockSpan::of_days(90).unwrap();
        let found = |ends: Option<Duration>, failed| {
            let lock = Some(LockState { span, ends, failed });
            let state =
                TargetState { since: ago(1), target: "s3://h/b", lock, ..TargetState::default() };
            state.findings(NOW)
        };
        assert_eq!(found(Some(NOW + DAY * 90), None), []);
        assert_eq!(found(Some(NOW + DAY * 46), None), []);
        let short = found(Some(NOW + DAY * 44), None);
        assert!(codes(&short) == [Code::BackupLock] && short[0].what.contains("44 more days"));
        assert_eq!(short[0].mend, "braid pool backup lock s3://h/b");
        assert_eq!(found(Some(ago(1)), None)[0].severity, Severity::Danger);
        assert_eq!(found(None, None)[0].severity, Severity::Attention);
        let failed = found(Some(NOW + DAY * 90), Some("forbidden"));
        assert!(failed[0].severity == Severity::Danger && failed[0].what.contains("forbidden"));
    }
}
