//! The encrypted disks of a pool, open or not, and their key.

use super::carry_out::StateFolders;
use super::encrypt::line_of;
use super::secret::{self, Lent, Secret};
use super::seen::Seen;
use crate::cli::failure::{Failure, FailureKind, tell};
use braid_disks::superblock::luks;
use braid_disks::tool;
use braid_pool::doctor::HeaderBackup;
use braid_pool::luks::{CrypttabLine, LuksVolume, header_backup};
use braid_pool::membership::{self, Membership, Standing};
use braid_pool::observed::ObservedHost;
use braid_pool::step::Condition;
use braid_pool::uuid::Uuid;
use braid_runner::host::back_up_header;
use std::collections::BTreeSet;
use std::fs;
use std::io::IsTerminal;
use std::path::Path;

/// How often a passphrase is asked for.
const TRIES: usize = 3;

/// The disks that have the label of this pool, given its name or UUID.
pub fn with_label(seen: &Seen, pool: &str) -> Result<Vec<LuksVolume>, Failure> {
    let uuid: Option<Uuid> = pool.parse().ok();
    let is_its = |volume: &&LuksVolume| {
        volume.pool.as_deref() == Some(pool) || uuid.is_some() && volume.pool_uuid == uuid
    };
    let found: Vec<LuksVolume> = seen.host.luks.iter().filter(is_its).cloned().collect();
    if !found.is_empty() {
        return Ok(found);
    }
    let mut names: Vec<&str> =
        seen.host.luks.iter().filter_map(|volume| volume.pool.as_deref()).collect();
    names.sort_unstable();
    names.dedup();
    let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    Err(Failure::failed(format!(
        "there is no encrypted disk of a pool {pool}; encrypted pools here: {names}"
    )))
}

/// The pool's encrypted disks: those with its label that are its members.
pub fn of_pool(seen: &Seen, pool: &str, place: &StateFolders) -> Result<Vec<LuksVolume>, Failure> {
    Ok(sorted(seen, pool, place)?.members)
}

/// The disks with a pool's label.
pub struct Sorted {
    /// Its members.
    pub members: Vec<LuksVolume>,
    /// Those for which this isn't known.
    pub unknown: Vec<LuksVolume>,
}

/// Separates a pool's members from disks that have left it, or belong to another pool of that name.
pub fn sorted(seen: &Seen, pool: &str, place: &StateFolders) -> Result<Sorted, Failure> {
    let all = with_label(seen, pool)?;
    // A UUID identifies the pool; of two pools with one name, the one that this computer remembers
    // is meant.
    let is_by_uuid = all.iter().all(|volume| volume.pool.as_deref() != Some(pool));
    let recorded = recorded(&seen.host, place)?;
    let name = all.iter().find_map(|volume| volume.pool.clone()).unwrap_or_default();
    let membership = Membership::new(&name, &seen.pools, &seen.host, &recorded);
    let mut sorted = Sorted { members: Vec::new(), unknown: Vec::new() };
    for volume in all {
        match membership.of(&volume) {
            Standing::Member => sorted.members.push(volume),
            Standing::OfAnother if is_by_uuid => sorted.members.push(volume),
            Standing::Unknown => sorted.unknown.push(volume),
            Standing::Former | Standing::OfAnother => {}
        }
    }
    let mut uuids: Vec<String> =
        sorted.members.iter().filter_map(|volume| Some(volume.pool_uuid?.to_string())).collect();
    uuids.sort_unstable();
    uuids.dedup();
    match uuids.len() {
        0 | 1 => Ok(sorted),
        _ => {
            let uuids = uuids.join(", ");
            Err(usage(format!("several encrypted pools are called {name}; use a UUID: {uuids}")))
        }
    }
}

/// The name of the pool that these belong to; the user may have given its UUID.
pub fn name_of<'a>(volumes: &'a [LuksVolume], word: &'a str) -> &'a str {
    volumes.iter().find_map(|volume| volume.pool.as_deref()).unwrap_or(word)
}

/// The volumes that this computer remembers as members of pools: crypttab opens them, their headers
/// were saved, or an interrupted plan creates them.
pub fn recorded(host: &ObservedHost, place: &StateFolders) -> Result<BTreeSet<Uuid>, Failure> {
    let mut found = membership::in_crypttab(host);
    for folder in fs::read_dir(place.state().headers()).into_iter().flatten().flatten() {
        for file in fs::read_dir(folder.path()).into_iter().flatten().flatten() {
            let name = file.file_name();
            let name = name.to_str().and_then(|name| name.strip_suffix(".luks"));
            found.extend(name.and_then(|name| name.parse::<Uuid>().ok()));
        }
    }
    for (_, record) in place.state().unfinished()? {
        let made = record.plan.steps.iter().flat_map(|step| &step.after);
        found.extend(made.filter_map(|condition| match condition {
            Condition::LuksKey { uuid, .. } => Some(*uuid),
            _ => None,
        }));
    }
    Ok(found)
}

/// The key for a pool's disks: a file, or what the user typed.
pub enum Opener {
    /// The key file.
    KeyFile(String),
    /// A passphrase.
    Passphrase(Lent),
}

impl Opener {
    /// Uses the key file that the user or crypttab names, otherwise a passphrase. It opens at least
    /// one of the disks.
    pub fn find(
        seen: &Seen,
        pool: &str,
        volumes: &[LuksVolume],
        key_file: Option<&Path>,
        passphrase_file: Option<&Path>,
    ) -> Result<Opener, Failure> {
        let told = key_file.map(|file| file.display().to_string());
        if passphrase_file.is_none() {
            let lines = volumes.iter().filter_map(|volume| line_of(volume, &seen.host));
            let of_crypttab = || lines.filter_map(|line: CrypttabLine<'_>| line.key_file).next();
            let file = told.clone().or_else(|| of_crypttab().map(str::to_owned));
            // If the key file is gone, the user may still have a passphrase.
            if let Some(file) = file.filter(|file| told.is_some() || Path::new(file).exists()) {
                let opener = Opener::KeyFile(file);
                match opener.check(volumes) {
                    Ok(()) => return Ok(opener),
                    // The file in crypttab may be outdated.
                    Err(wrong) if told.is_none() => tell(&wrong.to_string()),
                    Err(wrong) => {
                        let secret = Secret::given(key_file, "");
                        let meant = secret.and_then(|it| Opener::meant(&it, pool, volumes));
                        return meant.ok().flatten().ok_or(wrong);
                    }
                }
            }
        }
        let is_asked = passphrase_file.is_none() && std::io::stdin().is_terminal();
        let mut left = if is_asked { TRIES } else { 1 };
        loop {
            left -= 1;
            let question = format!("Passphrase of pool {pool}: ");
            let secret = Secret::given(passphrase_file, &question)?;
            let opener = Opener::Passphrase(secret.lend(pool)?);
            let Err(wrong) = opener.check(volumes) else { return Ok(opener) };
            // Only one secret is lent at a time.
            drop(opener);
            if let Some(opener) = Opener::meant(&secret, pool, volumes)? {
                return Ok(opener);
            }
            match left > 0 {
                true => tell(&wrong.to_string()),
                false => return Err(wrong),
            }
        }
    }

    /// The intended recovery key, if it opens one of the disks.
    fn meant(
        secret: &Secret,
        pool: &str,
        volumes: &[LuksVolume],
    ) -> Result<Option<Opener>, Failure> {
        let Some(meant) = secret.meant() else { return Ok(None) };
        let opener = Opener::Passphrase(meant.lend(pool)?);
        Ok(opener.check(volumes).is_ok().then_some(opener))
    }

    fn check(&self, volumes: &[LuksVolume]) -> Result<(), Failure> {
        for volume in volumes {
            if secret::opens(&self.file(), &volume.path)? {
                return Ok(());
            }
        }
        Err(Failure::failed(format!("{} opens none of the pool's disks", self.called())))
    }

    /// The file that cryptsetup reads it from.
    pub fn file(&self) -> String {
        match self {
            Opener::KeyFile(file) => file.clone(),
            Opener::Passphrase(lent) => lent.text(),
        }
    }

    /// Its name in messages.
    pub fn called(&self) -> &str {
        match self {
            Opener::KeyFile(file) => file,
            Opener::Passphrase(_) => "this passphrase",
        }
    }
}

/// Runs cryptsetup or another program that changes a disk; its output is the error.
pub fn run(program: &str, arguments: &[&str]) -> Result<(), Failure> {
    let answer = tool::ask(program, arguments, secret::STRETCH_LIMIT)
        .map_err(|error| Failure::failed(secret::missing(&error)))?;
    if answer.status == Some(0) {
        return Ok(());
    }
    let said = answer.err.trim();
    Err(Failure::failed(format!("`{program} {}` failed: {said}", arguments.join(" "))))
}

/// Saves the headers of these disks as they are now.
pub fn back_up_headers(folder: &str, volumes: &[LuksVolume]) -> Result<Vec<String>, Failure> {
    let mut files = Vec::new();
    for volume in volumes {
        let file = header_backup(folder, volume.uuid);
        // Only save valid headers.
        if luks::read(Path::new(&volume.path)).ok().flatten().is_none() {
            return Err(Failure::failed(format!(
                "{} has no LUKS header to back up: `braid pool header restore` puts one back",
                volume.path
            )));
        }
        back_up_header(Path::new(&volume.path), Path::new(&file))
            .map_err(|error| Failure::io(&format!("saving a LUKS header to {file}"), &error))?;
        files.push(file);
    }
    Ok(files)
}

/// The state of a volume's header backup.
pub fn backup_state(folder: &str, volume: &LuksVolume) -> HeaderBackup {
    let read = |path: &str| luks::read(Path::new(path)).ok().flatten();
    let kept = read(&header_backup(folder, volume.uuid));
    match (kept, read(&volume.path)) {
        (None, _) => HeaderBackup::Missing,
        (Some(kept), Some(now)) if kept.fingerprint != now.fingerprint => HeaderBackup::Outdated,
        _ => HeaderBackup::Current,
    }
}

/// The error that something required wasn't given.
pub fn usage(why: impl Into<String>) -> Failure {
    Failure::new(FailureKind::Usage, why)
}
