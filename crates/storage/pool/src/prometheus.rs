//! Pools as metrics, in the text format that node_exporter's textfile collector reads
//! (prometheus.io, "Exposition formats", version 0.0.4).

use crate::disk::{Disk, Health};
use crate::doctor::{Code, Finding};
use crate::observed::{MdMemberState, ObservedPool};
use crate::summary::{State, Summary};
use serde::Serialize;
use std::fmt::Write;

/// All metrics; `locked` are the encrypted pools that nobody has opened, `now_s` is the time of
/// observation, in seconds since 1970.
pub fn metrics(
    pools: &[ObservedPool],
    locked: &[Summary],
    disks: &[Disk],
    findings: &[Finding],
    now_s: u64,
) -> String {
    let mut text = Text::default();
    text.head(LOCKED, "gauge", "1 for an encrypted pool that nobody has opened, else 0");
    for pool in pools {
        text.sample(LOCKED, &labels(pool), 0.0);
    }
    for pool in locked {
        let labels = [("pool", pool.name.clone()), ("uuid", pool.uuid.to_string())];
        text.sample(LOCKED, &labels, 1.0);
    }
    text.head(MOUNTED, "gauge", "0 where fstab mounts the pool and it isn't mounted, else 1");
    for pool in pools {
        let is_it = |one: &Finding| one.pool.as_ref() == Some(&pool.name());
        let absent = findings.iter().any(|one| one.code == Code::NotMounted && is_it(one));
        text.sample(MOUNTED, &labels(pool), if absent { 0.0 } else { 1.0 });
    }
    for (name, help, of) in PER_POOL {
        text.head(name, "gauge", help);
        for pool in pools {
            if let Some(value) = of(pool) {
                text.sample(name, &labels(pool), value);
            }
        }
    }
    text.head(INFO, "gauge", "Always 1; the layout may change");
    for pool in pools {
        let mut labels = labels(pool);
        labels.push(("layout", Summary::of(pool).layout));
        text.sample(INFO, &labels, 1.0);
    }
    text.head(ERRORS, "counter", "Errors of a member since they were last reset");
    for pool in pools {
        for (member, kind, count) in errors(pool) {
            let mut labels = labels(pool);
            labels.extend([("member", member), ("kind", kind.to_owned())]);
            text.sample(ERRORS, &labels, count as f64);
        }
    }
    text.head(FINDINGS, "gauge", "Things that the doctor finds wrong");
    for (labels, count) in counted(findings) {
        text.sample(FINDINGS, &labels, count);
    }
    text.head(
        HEALTH,
        "gauge",
        "SMART's verdict: 0 good, 1 doubtful, 2 failing; absent when unknown",
    );
    for disk in disks.iter().filter(|disk| disk.partition.is_none()) {
        let value = match disk.health {
            Health::Good => 0.0,
            Health::Doubtful { .. } => 1.0,
            Health::Failing { .. } => 2.0,
            Health::Unknown => continue,
        };
        text.sample(HEALTH, &[("disk", disk.path.clone()), ("id", disk.id().to_string())], value);
    }
    text.head(LOOKED, "gauge", "When this was looked at, in seconds since 1970");
    text.sample(LOOKED, &[], now_s as f64);
    text.0
}

const LOCKED: &str = "braid_pool_locked";
const MOUNTED: &str = "braid_pool_mounted";
const INFO: &str = "braid_pool_info";
const ERRORS: &str = "braid_pool_member_errors_total";
const FINDINGS: &str = "braid_pool_findings";
const HEALTH: &str = "braid_disk_health";
const LOOKED: &str = "braid_pool_watch_timestamp_seconds";

type OfPool = fn(&ObservedPool) -> Option<f64>;

const PER_POOL: [(&str, &str, OfPool); 8] = [
    ("braid_pool_state", "0 whole, 1 stopped, 2 rebuilding, 3 degraded, 4 failed", |pool| {
        Some(match Summary::of(pool).state {
            State::Whole => 0.0,
            State::Stopped => 1.0,
            State::Rebuilding => 2.0,
            // Another metric says whether it is mounted, and nothing else is known about a locked
            // one.
            State::Unmounted | State::Locked => 0.0,
            State::Degraded => 3.0,
            State::Failed => 4.0,
        })
    }),
    ("braid_pool_members", "Members that the pool should have", |pool| {
        Some(Summary::of(pool).disks as f64)
    }),
    ("braid_pool_members_lacking", "Members that are not there or lack data", |pool| {
        Some(Summary::of(pool).lacking as f64)
    }),
    ("braid_pool_size_bytes", "Room for data", |pool| {
        Summary::of(pool).size_bytes.map(|bytes| bytes as f64)
    }),
    ("braid_pool_used_bytes", "What is stored", |pool| {
        Summary::of(pool).used_bytes.map(|bytes| bytes as f64)
    }),
    ("braid_pool_sync_ratio", "How much of a resync, rebuild, reshape or check is done", |pool| {
        Summary::of(pool).activity.and_then(|activity| activity.done)
    }),
    ("braid_pool_scrub_age_seconds", "Time since the last scrub that read everything", |pool| {
        scrub(pool).ended_ago.map(|ago| ago.as_secs_f64())
    }),
    (
        "braid_pool_scrub_uncorrectable",
        "Errors of the last scrub that no copy could correct",
        |pool| Some(scrub(pool).uncorrectable as f64),
    ),
];

fn scrub(pool: &ObservedPool) -> crate::observed::Scrub {
    match pool {
        ObservedPool::Btrfs(btrfs) => btrfs.scrub,
        ObservedPool::Md(md) => md.scrub,
    }
}

fn counted(findings: &[Finding]) -> Vec<(Vec<(&'static str, String)>, f64)> {
    let mut counted: Vec<(Vec<(&'static str, String)>, f64)> = Vec::new();
    for finding in findings {
        let labels = vec![
            ("pool", finding.pool.clone().unwrap_or_default()),
            ("severity", word(&finding.severity)),
            ("code", word(&finding.code)),
        ];
        match counted.iter_mut().find(|(known, _)| *known == labels) {
            Some((_, count)) => *count += 1.0,
            None => counted.push((labels, 1.0)),
        }
    }
    counted
}

/// Its name as `--json` has it.
fn word(of: &impl Serialize) -> String {
    match serde_json::to_value(of) {
        Ok(serde_json::Value::String(word)) => word,
        _ => String::new(),
    }
}

/// Member, kind of error, count.
fn errors(pool: &ObservedPool) -> Vec<(String, &'static str, u64)> {
    match pool {
        ObservedPool::Btrfs(btrfs) => btrfs
            .members
            .iter()
            .flat_map(|member| {
                let errors = member.errors;
                [
                    ("write", errors.write),
                    ("read", errors.read),
                    ("flush", errors.flush),
                    ("corruption", errors.corruption),
                    ("generation", errors.generation),
                ]
                .map(|(kind, count)| (format!("devid {}", member.devid), kind, count))
            })
            .collect(),
        ObservedPool::Md(md) => md
            .members
            .iter()
            .filter(|member| member.state != MdMemberState::Missing)
            .filter_map(|member| Some((member.path.clone()?, "read", member.errors)))
            .collect(),
    }
}

fn labels(pool: &ObservedPool) -> Vec<(&'static str, String)> {
    vec![("pool", pool.name()), ("uuid", pool.uuid().to_string())]
}

#[derive(Default)]
struct Text(String);

impl Text {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a string can't fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, String)], value: f64) {
        let labels: Vec<String> =
            labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escape(value))).collect();
        let braces =
            if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let _ = writeln!(self.0, "{name}{braces} {value}");
    }
}

/// A label's value as it stands between quotes.
pub fn escape(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::{Code, Severity};

    #[test]
    fn findings_of_a_kind_are_counted() {
        let finding = Finding {
            code: Code::MissingMember,
            severity: Severity::Danger,
            pool: Some("photos".into()),
            what: "x".into(),
            mend: String::new(),
        };
        let text = metrics(&[], &[], &[], &[finding.clone(), finding], 1_700_000_000);
        let labels = "pool=\"photos\",severity=\"danger\",code=\"missing-member\"";
        assert!(text.contains(&format!("braid_pool_findings{{{labels}}} 2\n")), "{text}");
        assert!(text.contains("braid_pool_watch_timestamp_seconds 1700000000\n"), "{text}");
    }

    #[test]
    fn a_locked_pool_is_told_beside_those_that_are_open() {
        let open = crate::fixture::btrfs(
            crate::layout::Profile::Raid1,
            crate::layout::Profile::Raid1,
            "bc",
            crate::fixture::GB,
            0,
        );
        let locked = [Summary::locked("safe", &[])];
        let text = metrics(&[ObservedPool::Btrfs(open)], &locked, &[], &[], 0);
        let of = |name: &str| {
            let start = format!("braid_pool_locked{{pool=\"{name}\"");
            let line = text.lines().find(|line| line.starts_with(&start)).unwrap_or_default();
            line.rsplit(' ').next().unwrap_or_default().to_owned()
        };
        assert_eq!((of("data").as_str(), of("safe").as_str()), ("0", "1"), "{text}");
    }

    #[test]
    fn labels_can_hold_anything() {
        let mut text = Text::default();
        text.sample("m", &[("pool", "a\"b\\c\nd".to_owned())], 0.5);
        assert_eq!(text.0, "m{pool=\"a\\\"b\\\\c\\nd\"} 0.5\n");
    }
}
