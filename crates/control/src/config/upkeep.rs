//! `scrub`, `snapshot`, `retain`, `replicate`, `backup` of a `[[pool]]`: its regular maintenance.

use super::section::Section;
use braid_pool::layout::Layout;
use braid_pool::place::Place;
use braid_pool::retention::Policy;
use braid_pool::upkeep::{
    BackupTarget, Backups, Calendar, LockSpan, Replication, Retention, SNAPSHOTS, Snapshots,
    Upkeep, When, rate_limit,
};
use std::path::{Component, Path};
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// Keys that only apply to btrfs.
const OF_BTRFS: [&str; 3] = ["snapshot", "retain", "replicate"];

pub(super) fn read(pool: &mut Section<'_, '_>, layout: Option<Layout>) -> Upkeep {
    let scrub = pool.table("scrub").map(|mut section| {
        let when = when(&mut section, "monthly", DAY);
        section.finish();
        when
    });
    let snapshot = pool.table("snapshot").and_then(read_snapshot);
    let into = snapshot.as_ref().map_or(SNAPSHOTS, |snapshot| &snapshot.into).to_owned();
    let retain = pool.table("retain").and_then(|section| read_retain(section, &into));
    let replicate = pool.table("replicate").and_then(|section| read_replicate(section, &into));
    let backup = pool.table("backup").and_then(read_backup);
    if let Some(layout @ Layout::Md(_)) = layout {
        for key in OF_BTRFS.into_iter().filter(|key| pool.has(key)) {
            let what = format!("pool.{key}: snapshots need btrfs, which {layout} is not");
            pool.wrong(key, what, "remove it, or use a btrfs layout");
        }
    }
    Upkeep { scrub: scrub.flatten(), snapshot, retain, replicate, backup }
}

fn read_snapshot(mut section: Section<'_, '_>) -> Option<Snapshots> {
    let when = when(&mut section, "hourly", MINUTE);
    let of: Vec<String> = section.list("of").unwrap_or_else(|| vec![".".to_owned()]);
    if of.is_empty() {
        section.wrong(
            "of",
            "pool.snapshot.of names nothing",
            "write of = [\"home\"]; \".\" is the pool itself",
        );
    }
    for path in of.iter().filter(|path| *path != ".") {
        check_inside(&section, "of", path);
    }
    let into = folder(&mut section, "into", SNAPSHOTS);
    section.finish();
    Some(Snapshots { when: when?, of, into: into? })
}

fn read_retain(mut section: Section<'_, '_>, snapshots: &str) -> Option<Retention> {
    let when = when(&mut section, "daily", HOUR);
    let policy: Option<Policy> = section.parsed("policy");
    if policy.is_none() {
        section.missing("policy", "write policy = \"24x1h | 14x1d\"");
    }
    let folder = folder(&mut section, "folder", snapshots);
    section.finish();
    Some(Retention { when: when?, policy: policy?, folder: folder? })
}

fn read_replicate(mut section: Section<'_, '_>, snapshots: &str) -> Option<Replication> {
    let when = when(&mut section, "daily", HOUR);
    let to: Option<Place> = section.parsed("to");
    if to.is_none() {
        section.missing("to", "write to = \"nas:/backup/data\"");
    }
    match &to {
        Some(Place::Local(path)) if !path.is_absolute() => {
            let what = format!(
                "pool.replicate.to: {to:?} is not an absolute path",
                to = path.display().to_string()
            );
            section.wrong("to", what, "start it with / or HOST:");
        }
        _ => {}
    }
    let limit = section.parsed_by("limit", rate_limit);
    let newest = section.boolean("newest").unwrap_or(false);
    let folder = folder(&mut section, "folder", snapshots);
    section.finish();
    Some(Replication { when: when?, folder: folder?, to: to?, limit, newest })
}

fn read_backup(mut section: Section<'_, '_>) -> Option<Backups> {
    let when = when(&mut section, "daily", HOUR);
    let of: Vec<String> = section.list("of").unwrap_or_else(|| vec![".".to_owned()]);
    if of.is_empty() {
        let what = "pool.backup.of names nothing";
        section.wrong("of", what, "write of = [\"home\"]; \".\" is the pool itself");
    }
    for path in of.iter().filter(|path| *path != ".") {
        check_inside(&section, "of", path);
    }
    let has_targets = section.has("to");
    let to: Vec<BackupTarget> = section.list("to").unwrap_or_default();
    if to.is_empty() && !has_targets {
        section.missing("to", "write to = [\"s3://HOST/BUCKET\"]");
    } else if to.is_empty() {
        section.wrong("to", "pool.backup.to names nothing", "write to = [\"s3://HOST/BUCKET\"]");
    }
    let limit = section.parsed_by("limit", rate_limit);
    let policy: Option<Policy> = section.parsed("policy");
    let given: Option<Calendar> = section.parsed("care");
    let care = match section.has("care") {
        true => given,
        false => "weekly".parse().ok(),
    };
    let care = care.map(|on| When { on, jitter: DAY });
    let read_percent = section.integer("read", 0..=100).unwrap_or(5);
    let lock: Option<LockSpan> = section.parsed("lock");
    if lock.is_some() && !to.iter().all(|to| to.as_str().starts_with("s3:")) {
        let what = "pool.backup.lock: only S3 servers support locks";
        let mend =
            "remove it; let other targets only append, or name them in a pool's own way by hand";
        section.wrong("lock", what, mend);
    }
    section.finish();
    Some(Backups { when: when?, of, to, limit, care: care?, read_percent, policy, lock })
}

/// `on` and `jitter`; `None` if one is invalid, which is reported.
fn when(section: &mut Section<'_, '_>, on: &str, jitter: Duration) -> Option<When> {
    let given: Option<Calendar> = section.parsed("on");
    let on = match section.has("on") {
        true => given,
        false => on.parse().ok(),
    };
    let given = section.duration("jitter");
    let jitter = match section.has("jitter") {
        true => given,
        false => Some(jitter),
    };
    Some(When { on: on?, jitter: jitter? })
}

/// A folder in the pool.
fn folder(section: &mut Section<'_, '_>, key: &'static str, usual: &str) -> Option<String> {
    let given: Option<String> = section.parsed(key);
    match (section.has(key), given) {
        (false, _) => Some(usual.to_owned()),
        (true, given) => given.filter(|path| check_inside(section, key, path)),
    }
}

/// Reports a path that may lead out of the pool.
fn check_inside(section: &Section<'_, '_>, key: &str, path: &str) -> bool {
    let plain = |part| matches!(part, Component::Normal(_));
    let fine = !path.is_empty()
        && Path::new(path).components().all(plain)
        && !path.chars().any(char::is_control);
    if !fine {
        let what = format!("{path:?} is not a path inside the pool");
        section.wrong(key, what, "write it relative to where the pool is mounted: \"home\"");
    }
    fine
}
