use super::{BackupTarget, Backups, Replication, Retention, Snapshots, When};
use crate::place::Place;
use crate::uuid::Uuid;

/// A unit's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    /// As in `systemctl start NAME`.
    pub name: String,
    /// The file's contents.
    pub text: String,
}

/// A pool with regular jobs.
#[derive(Clone, Copy, Debug)]
pub struct ScheduledPool<'a> {
    /// Its name, for people.
    pub name: &'a str,
    /// The UUID that names its units: nothing in it needs escaping.
    pub uuid: Uuid,
    /// Who set it up.
    pub by: MadeBy<'a>,
}

/// Who made a unit. No config removes what was made by hand. What another config made stays as long
/// as this one doesn't name the pool; a config that names it takes over all of its upkeep, so that
/// a moved file leaves no timers behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MadeBy<'a> {
    /// `braid pool scrub schedule`.
    Schedule,
    /// `braid pool apply`, of this config.
    Apply(&'a str),
}

const BY_SCHEDULE: &str = "# Made by `braid pool scrub schedule`.";
const BY_APPLY: &str = "# Made by `braid pool apply`, of ";
const OF_POOL: &str = " the pool ";
const BRAID: &str = "/usr/bin/braid pool";
/// Nobody waits for it.
const IDLE: &str = "Nice=19\nIOSchedulingClass=idle\n";

impl Unit {
    /// Whether it is a timer.
    pub fn is_timer(&self) -> bool {
        self.name.ends_with(".timer")
    }

    /// The config from which a file with this text was made, if it was.
    pub fn config_of(text: &str) -> Option<&str> {
        text.lines().next()?.strip_prefix(BY_APPLY)?.strip_suffix('.')
    }

    /// The UUID of the pool that the unit of this name serves, if it serves only one.
    pub fn pool_of(name: &str) -> Option<Uuid> {
        let (_, instance) = name.strip_prefix("braid-pool-")?.split_once('@')?;
        instance.strip_suffix(".timer").or(instance.strip_suffix(".service"))?.parse().ok()
    }

    /// The pool's name when a file with this text was made.
    pub fn pool_name_of(text: &str) -> Option<&str> {
        let description = text.lines().find_map(|line| line.strip_prefix("Description="))?;
        description.split_once(OF_POOL).map(|(_, name)| name)
    }
}

impl MadeBy<'_> {
    /// A file's first line.
    fn line(self) -> String {
        match self {
            MadeBy::Schedule => BY_SCHEDULE.to_owned(),
            MadeBy::Apply(config) => {
                format!("{BY_APPLY}{}.", config.replace(|c: char| c.is_control(), " "))
            }
        }
    }
}

/// Starts scrubs of the pool.
pub fn scrub_timer(pool: &ScheduledPool<'_>, when: &When) -> Unit {
    timer(pool, "scrub", "Scrub of", when)
}

/// One for all pools: the instance is the pool's UUID.
pub fn scrub_service() -> Unit {
    let text = format!(
        "{BY_SCHEDULE}\n\
         [Unit]\nDescription=Scrub of the pool %i\n\n\
         [Service]\nType=oneshot\nExecStart={BRAID} scrub start --wait %i\n\
         # Errors that were corrected are no failure of the service.\nSuccessExitStatus=10\n{IDLE}"
    );
    Unit { name: "braid-pool-scrub@.service".to_owned(), text }
}

pub(super) fn snapshot(pool: &ScheduledPool<'_>, wanted: &Snapshots, at: &str) -> [Unit; 2] {
    let place = |path: &str| inside(at, path);
    let mut words = vec!["snapshot".to_owned(), "--into".to_owned(), place(&wanted.into)];
    words.push("--".to_owned());
    words.extend(wanted.of.iter().map(|path| place(path)));
    [
        service(pool, "snapshot", "Snapshots of", &[at], &words, ""),
        timer(pool, "snapshot", "Snapshots of", &wanted.when),
    ]
}

pub(super) fn retain(pool: &ScheduledPool<'_>, wanted: &Retention, at: &str) -> [Unit; 2] {
    let (folder, policy) = (inside(at, &wanted.folder), wanted.policy.to_string());
    let words = ["retain", "--yes", "--policy", &policy, "--", &folder].map(str::to_owned);
    [
        service(pool, "retain", "Old snapshots of", &[at], &words, IDLE),
        timer(pool, "retain", "Old snapshots of", &wanted.when),
    ]
}

pub(super) fn replicate(pool: &ScheduledPool<'_>, wanted: &Replication, at: &str) -> [Unit; 2] {
    let mut words = vec!["replicate".to_owned()];
    if wanted.newest {
        words.push("--newest".to_owned());
    }
    if let Some(limit) = wanted.limit {
        words.extend(["--limit".to_owned(), format!("{}bit", limit.bytes_per_sec() * 8)]);
    }
    words.push("--".to_owned());
    words.extend([inside(at, &wanted.folder), wanted.to.to_string()]);
    let mut on = vec![at];
    if let Place::Local(to) = &wanted.to {
        on.extend(to.to_str());
    }
    [
        service(pool, "replicate", "Replication of", &on, &words, IDLE),
        timer(pool, "replicate", "Replication of", &wanted.when),
    ]
}

/// A service and a timer for each folder and target, so that a failure doesn't prevent other
/// backups; and for each target those that take care of it.
pub(super) fn backup(pool: &ScheduledPool<'_>, wanted: &Backups, at: &str) -> Vec<Unit> {
    let limit: Vec<String> = wanted
        .limit
        .iter()
        .flat_map(|limit| ["--limit".to_owned(), format!("{}bit", limit.bytes_per_sec() * 8)])
        .collect();
    let lock = wanted.lock.map(|span| span.to_string());
    // Others may be working on the same target.
    let words = |verb: Option<&str>, more: &[&str], last: &[&str]| -> Vec<String> {
        let mut words = vec!["backup".to_owned()];
        words.extend(verb.map(str::to_owned));
        words.push("--wait".to_owned());
        words.extend(limit.iter().cloned());
        words.extend(more.iter().map(|word| (*word).to_owned()));
        words.push("--".to_owned());
        words.extend(last.iter().map(|word| (*word).to_owned()));
        words
    };
    let mut units = vec![];
    let pairs = wanted.to.iter().flat_map(|to| wanted.of.iter().map(move |of| (of, to)));
    for (number, (of, to)) in pairs.enumerate() {
        let kind = format!("backup-{}", number + 1);
        let lock: Vec<&str> = lock.iter().flat_map(|span| ["--lock", span]).collect();
        let command = words(None, &lock, &[&inside(at, of), to.as_str()]);
        let on = mounted(at, to);
        units.push(service_of(pool, &kind, "Backups of", &on, &[command], IDLE));
        units.push(timer(pool, &kind, "Backups of", &wanted.when));
    }
    let (read, policy) = (wanted.read_percent.to_string(), wanted.policy.as_ref());
    for (number, to) in wanted.to.iter().enumerate() {
        let kind = format!("backup-care-{}", number + 1);
        // First of all, even if no backup has succeeded for long, so that no lock expires.
        let prolong =
            lock.iter().map(|span| words(Some("lock"), &["--for", span, "--yes"], &[to.as_str()]));
        let mut commands: Vec<Vec<String>> = prolong.collect();
        commands.extend([
            words(Some("check"), &["--read", &read], &[to.as_str()]),
            words(Some("drill"), &[], &[to.as_str()]),
        ]);
        // Old backups go only if the newer ones are known to be intact.
        commands.extend(policy.map(|policy| {
            let policy = policy.to_string();
            words(Some("forget"), &["--yes", "--policy", &policy], &[to.as_str()])
        }));
        let on = mounted(at, to);
        units.push(service_of(pool, &kind, "Care of the backups of", &on, &commands, IDLE));
        units.push(timer(pool, &kind, "Care of the backups of", &wanted.care));
    }
    units
}

fn mounted<'a>(at: &'a str, to: &'a BackupTarget) -> Vec<&'a str> {
    std::iter::once(at).chain(to.folder()).collect()
}

fn timer(pool: &ScheduledPool<'_>, kind: &str, what: &str, when: &When) -> Unit {
    let (name, on, jitter) = (one_line(pool.name), when.on.as_str(), when.jitter.as_secs());
    let by = pool.by.line();
    Unit {
        name: format!("braid-pool-{kind}@{}.timer", pool.uuid),
        text: format!(
            "{by}\n\
             [Unit]\nDescription={what}{OF_POOL}{name}\n\n\
             [Timer]\nOnCalendar={on}\nRandomizedDelaySec={jitter}\n\
             # A computer that was off makes up for it.\nPersistent=true\n\n\
             [Install]\nWantedBy=timers.target\n"
        ),
    }
}

/// What the timer of the same name starts. The paths it works `on` are mounted first: the pool, and
/// the place for replicas if it is on this computer. If the pool isn't mounted it fails, rather
/// than work on the filesystem below.
fn service(
    pool: &ScheduledPool<'_>,
    kind: &str,
    what: &str,
    on: &[&str],
    words: &[String],
    how: &str,
) -> Unit {
    service_of(pool, kind, what, on, &[words.to_vec()], how)
}

/// As [`service`], for several commands: each starts when the previous one has succeeded.
fn service_of(
    pool: &ScheduledPool<'_>,
    kind: &str,
    what: &str,
    on: &[&str],
    commands: &[Vec<String>],
    how: &str,
) -> Unit {
    let (name, by) = (one_line(pool.name), pool.by.line());
    let line = |words: &Vec<String>| {
        let words: Vec<String> = words.iter().map(|each| word(each)).collect();
        format!("ExecStart={BRAID} {}\n", words.join(" "))
    };
    let lines: String = commands.iter().map(line).collect();
    // Existing snapshots are sent and judged after due ones have been taken.
    let order = match kind {
        "snapshot" => String::new(),
        _ => format!("After=braid-pool-snapshot@{}.service\n", pool.uuid),
    };
    let online = match kind {
        kind if kind == "replicate" || kind.starts_with("backup") => {
            "Wants=network-online.target\nAfter=network-online.target\n"
        }
        _ => "",
    };
    Unit {
        name: format!("braid-pool-{kind}@{}.service", pool.uuid),
        text: format!(
            "{by}\n\
             [Unit]\nDescription={what}{OF_POOL}{name}\nRequiresMountsFor={}\n\
             AssertPathIsMountPoint={}\n{order}{online}\n\
             [Service]\nType=oneshot\n{lines}{how}",
            on.iter().map(|path| word(path)).collect::<Vec<_>>().join(" "),
            one_line(on.first().copied().unwrap_or_default()),
        ),
    }
}

/// A label may have a newline in it, a unit's line may not; `%` begins a specifier.
fn one_line(text: &str) -> String {
    text.replace(|c: char| c.is_control(), " ").replace('%', "%%")
}

/// One word of a unit's command, escaped for the quotes, specifiers and variables of
/// systemd.service(5).
fn word(text: &str) -> String {
    let escaped = one_line(text).replace('\\', r"\\").replace('"', r#"\""#).replace('$', "$$");
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@%=,+".contains(c);
    if !escaped.is_empty() && escaped.chars().all(plain) {
        return escaped;
    }
    format!("\"{escaped}\"")
}

/// A path in the pool; `.` is the pool itself.
fn inside(at: &str, path: &str) -> String {
    match path {
        "." => at.to_owned(),
        path => format!("{}/{path}", at.trim_end_matches('/')),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const POOL: ScheduledPool<'_> = ScheduledPool {
        name: "data",
        uuid: Uuid::from_bytes([2; 16]),
        by: MadeBy::Apply("/etc/braid/my pools.toml"),
    };

    fn when(on: &str) -> When {
        When { on: on.parse().unwrap(), jitter: Duration::from_secs(60) }
    }

    #[test]
    fn a_label_can_not_write_lines_of_its_own_into_a_unit() {
        assert_eq!(
            one_line("a\n[Service]\nExecStart=/bin/sh 100%"),
            "a [Service] ExecStart=/bin/sh 100%%"
        );
    }

    #[test]
    fn words_mean_themselves() {
        for (text, written) in [
            ("/srv/data/.snapshots", "/srv/data/.snapshots"),
            ("my photos", r#""my photos""#),
            ("100% $HOME", r#""100%% $$HOME""#),
            (r#"a"b\"#, r#""a\"b\\""#),
            (";", r#"";""#),
            ("", r#""""#),
        ] {
            assert_eq!(word(text), written, "{text}");
        }
    }

    #[test]
    fn each_folder_and_target_is_backed_up_by_itself_and_each_target_is_looked_after() {
        let backups = Backups {
            when: when("daily"),
            of: vec![".".into(), "my photos".into()],
            to: vec!["s3://host/bucket".parse().unwrap(), "/mnt/usb disk".parse().unwrap()],
            limit: Some("2Mbit".parse().unwrap()),
            care: when("weekly"),
            read_percent: 5,
            policy: Some("30x1d".parse().unwrap()),
            lock: None,
        };
        let units = backup(&POOL, &backups, "/srv/data");
        assert_eq!(units.iter().filter(|unit| unit.is_timer()).count(), 6);
        let names: std::collections::BTreeSet<&str> =
            units.iter().map(|unit| unit.name.as_str()).collect();
        assert_eq!(names.len(), 12);
        let line = "ExecStart=/usr/bin/braid pool backup --wait --limit 2000000bit -- \"/srv/data/my photos\" \"/mnt/usb disk\"\n";
        assert!(units[6].text.contains(line), "{}", units[6].text);
        assert!(units[6].text.contains("RequiresMountsFor=/srv/data \"/mnt/usb disk\"\n"));
        let care = &units[8].text;
        for line in [
            "backup check --wait --limit 2000000bit --read 5 -- s3://host/bucket\n",
            "backup drill --wait --limit 2000000bit -- s3://host/bucket\n",
            "backup forget --wait --limit 2000000bit --yes --policy 30x1d -- s3://host/bucket\n",
            "After=network-online.target\n",
        ] {
            assert!(care.contains(line), "{line} in {care}");
        }
        assert!(units.iter().all(|unit| Unit::pool_of(&unit.name) == Some(POOL.uuid)));
        assert!(units.iter().all(|unit| !unit.text.contains("lock")));

        let to = vec!["s3://host/bucket".parse().unwrap()];
        let units =
            backup(&POOL, &Backups { lock: "90d".parse().ok(), to, ..backups }, "/srv/data");
        let line =
            "pool backup --wait --limit 2000000bit --lock 90d -- /srv/data s3://host/bucket\n";
        assert!(units[0].text.contains(line), "{}", units[0].text);
        let care = &units[4].text;
        let line = "backup lock --wait --limit 2000000bit --for 90d --yes -- s3://host/bucket\n";
        assert!(care.find(line) < care.find("backup check"), "{care}");
        assert!(care.contains(line), "{care}");
    }

    #[test]
    fn each_service_works_on_its_pool_and_only_while_it_is_mounted() {
        let snapshots = Snapshots {
            when: when("hourly"),
            of: vec![".".into(), "my photos".into()],
            into: ".snapshots".into(),
        };
        let [service, timer] = snapshot(&POOL, &snapshots, "/srv/data");
        let line = "ExecStart=/usr/bin/braid pool snapshot --into /srv/data/.snapshots -- /srv/data \"/srv/data/my photos\"\n";
        assert!(service.text.contains(line), "{}", service.text);
        assert!(service.text.contains("AssertPathIsMountPoint=/srv/data\n"));
        assert!(timer.text.contains("OnCalendar=hourly\nRandomizedDelaySec=60\n"));
        assert_eq!(timer.name.strip_suffix(".timer"), service.name.strip_suffix(".service"));
        let replication = Replication {
            when: when("daily"),
            folder: ".snapshots".into(),
            to: "nas:/backup".parse().unwrap(),
            limit: Some("2.5Mbit".parse().unwrap()),
            newest: true,
        };
        let [service, _] = replicate(&POOL, &replication, "/srv/data");
        let line = "replicate --newest --limit 2500000bit -- /srv/data/.snapshots nas:/backup\n";
        assert!(service.text.contains(line), "{}", service.text);
        assert!(service.text.contains("RequiresMountsFor=/srv/data\n"), "{}", service.text);
        let beside = Replication { to: Place::Local("/mnt/usb disk/x".into()), ..replication };
        let [to_disk, _] = replicate(&POOL, &beside, "/srv/data");
        let line =
            "RequiresMountsFor=/srv/data \"/mnt/usb disk/x\"\nAssertPathIsMountPoint=/srv/data\n";
        assert!(to_disk.text.contains(line), "{}", to_disk.text);
        assert_eq!(Unit::pool_of(&service.name), Some(POOL.uuid));
        assert_eq!(Unit::config_of(&service.text), Some("/etc/braid/my pools.toml"));
        assert_eq!(Unit::pool_name_of(&service.text), Some("data"));
        assert_eq!(Unit::pool_of("braid-pool-watch.timer"), None);
        assert_eq!(Unit::pool_of(&scrub_service().name), None);
        assert_eq!(Unit::config_of(&scrub_service().text), None);
    }
}
