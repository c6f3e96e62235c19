//! Events of pools, for the recipients in the config's `[[alert]]`s.

use crate::cli::Global;
use crate::cli::failure::tell;
use crate::daemon::told::{PoolAlerts, alerts_of, by_this_program, host_name};
use braid_history::{Event, EventKind, Severity};
use braid_pool::doctor::{Code, Finding, Severity as Badness};
use braid_pool::watch::{Change, Event as How, ScrubEnded};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Sends them, if possible; returns whether undelivered ones are kept for later.
pub fn tell_events(global: &Global, folder: &Path, events: &[Event]) -> bool {
    let alerts = match alerts_of(&global.config_file()) {
        Ok(alerts) => alerts,
        Err(errors) => {
            tell(&format!("braid: nobody is notified, as the config has errors: {errors}"));
            return true;
        }
    };
    let told = PoolAlerts::in_folder(folder, alerts);
    match told.tell(events, &host_name(), &by_this_program()) {
        Ok(()) => true,
        Err(error) => {
            tell(&format!("braid: can't store pending notifications: {error}"));
            false
        }
    }
}

/// The event for a change of findings.
pub fn of_change(change: &Change) -> Event {
    let finding = &change.finding;
    let kind = match (change.event, finding.code) {
        (How::Gone, _) => EventKind::PoolMended,
        (_, Code::Full) => EventKind::PoolFull,
        _ => EventKind::PoolFinding,
    };
    let text = match change.event {
        How::Gone => format!("no more: {}", what(finding)),
        How::New => format!("{}; mend: {}", what(finding), finding.mend),
        How::Worse => format!("worse: {}; mend: {}", what(finding), finding.mend),
        How::Better => format!("better, not well: {}; mend: {}", what(finding), finding.mend),
    };
    let severity = match (change.event, finding.severity) {
        (How::Gone, _) | (_, Badness::Note) => Severity::Note,
        (_, Badness::Attention) => Severity::Warning,
        (_, Badness::Danger | Badness::Lost) => Severity::Critical,
    };
    event(kind, severity, finding.pool.clone().unwrap_or_default(), text)
}

/// The event for a finished scrub.
pub fn of_scrub(scrub: &ScrubEnded) -> Event {
    let pool = &scrub.pool;
    let (severity, text) = match scrub.uncorrectable {
        0 => (Severity::Note, format!("{pool}: the scrub is done, all data can be read")),
        count => {
            let text = format!("{pool}: the scrub found {count} errors that no copy could correct");
            (Severity::Critical, text)
        }
    };
    event(EventKind::ScrubDone, severity, pool.clone(), text)
}

/// The event for a replication.
pub fn of_replication(from: &str, to: &str, failure: Option<&str>) -> Event {
    let kinds = (EventKind::ReplicationDone, EventKind::ReplicationFailed);
    of_copy("replicating", format!("{from} to {to}"), kinds, failure)
}

/// The event for a backup.
#[cfg(feature = "backup")]
pub fn of_backup(path: &str, target: &str, failure: Option<&str>) -> Event {
    let kinds = (EventKind::BackupDone, EventKind::BackupFailed);
    of_copy("backing up", format!("{path} to {target}"), kinds, failure)
}

fn of_copy(
    doing: &str,
    subject: String,
    (done, failed): (EventKind, EventKind),
    failure: Option<&str>,
) -> Event {
    match failure {
        None => {
            let text = format!("{doing} {subject} works again");
            event(done, Severity::Note, subject, text)
        }
        Some(why) => {
            let text = format!("{doing} {subject} failed: {why}");
            event(failed, Severity::Warning, subject, text)
        }
    }
}

fn what(finding: &Finding) -> String {
    match &finding.pool {
        Some(pool) => format!("{pool}: {}", finding.what),
        None => finding.what.clone(),
    }
}

fn event(kind: EventKind, severity: Severity, subject: String, text: String) -> Event {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let unix = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    Event { unix, kind, severity, subject, text }
}
