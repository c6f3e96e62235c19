//! LUKS2 below members: what is done to a disk before a pool takes it, and after the pool has
//! released it.

use super::host_files::{self, AtBoot};
use super::member::{self, NewMember};
use super::{Change, Refused};
use crate::disk::{Disk, DiskId};
use crate::luks::{self, CRYPTTAB, Encryption, HEADER_BYTES, Header, LuksVolume, Unlock};
use crate::observed::{ObservedHost, ObservedPool};
use crate::step::{Action, Argv, Condition, Dispensable, Plan, Step, Undo, quoted};
use crate::uuid::Uuid;

/// Steps that encrypt the members to be encrypted, and open them.
pub(super) fn steps<'a>(members: impl IntoIterator<Item = &'a NewMember>) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for member in members {
        let Some(wish) = &member.encrypt else { continue };
        if wish.makes_key_file && !steps.iter().any(|step| step.name == KEY_FILE) {
            steps.push(make_key_file(wish));
        }
        steps.push(format(member, wish));
        steps.extend(enroll(member, wish));
        steps.push(back_up(member, wish));
        steps.push(crypttab(member, wish));
        steps.push(open(member, wish));
    }
    steps
}

/// What the user should know about encrypting these.
pub(super) fn warnings(members: &[NewMember]) -> Vec<String> {
    let mut warnings = Vec::new();
    let Some(wish) = members.iter().find_map(|member| member.encrypt.as_ref()) else {
        return warnings;
    };
    warnings.push(match &wish.unlock {
        Unlock::KeyFile => format!(
            "whoever has {} can read the pool, and without it, or a further key, nobody can: keep a \
             copy elsewhere (`braid pool key sheet {}` prints it)",
            wish.key_file, wish.pool
        ),
        Unlock::Passphrase => format!(
            "at boot the pool stays closed until `braid pool open {}`; without the passphrase, or a \
             further key, nobody can read it",
            wish.pool
        ),
        other => format!("{other} opens the pool; keep the passphrase for when the former is gone"),
    });
    for member in members.iter().filter(|member| member.encrypt.is_some() && member.claim.erases())
    {
        warnings.push(format!(
            "what {} held so far is not encrypted by this: it can be found on the disk until it is \
             overwritten",
            member.path
        ));
    }
    if wish.discards {
        warnings.push("with discards, the disks show which of their blocks are free".to_owned());
    }
    warnings
}

/// Keys can't be copied from disk to disk: all that can be checked is whether they are right.
fn fewer_keys(pool: &ObservedPool, change: &Change, host: &ObservedHost) -> Option<String> {
    let wish = new_disks(change).into_iter().find_map(|disk| disk.encrypt.as_ref())?;
    let most = volumes_of(pool, host).map(|volume| volume.slots.len()).max()?;
    // The key that it is made with, and the one provided by the TPM or a server.
    let given = match wish.unlock {
        Unlock::KeyFile | Unlock::Passphrase => 1,
        Unlock::Tpm2 | Unlock::Tang { .. } => 2,
    };
    (most > given).then(|| {
        format!(
            "further keys of the pool (a recovery key) do not open the new disk until they are \
             added again: `braid pool key add {}`",
            wish.pool
        )
    })
}

/// In a title, before "disks".
pub(super) fn adjective(members: &[NewMember]) -> &'static str {
    if members.iter().any(|member| member.encrypt.is_some()) { "encrypted " } else { "" }
}

/// When a pool of these members can be mounted.
pub(super) fn at_boot(members: &[NewMember]) -> AtBoot {
    mounted_when(members.iter().filter_map(|member| Some(member.encrypt.as_ref()?.unlock.clone())))
}

/// The same for an existing pool.
pub(super) fn opened_at_boot(pool: &ObservedPool, host: &ObservedHost) -> AtBoot {
    let volumes: Vec<Uuid> = volumes_of(pool, host).map(|volume| volume.uuid).collect();
    let lines = luks::crypttab(&host.crypttab);
    let lines = lines.filter(|line| line.volume.is_some_and(|uuid| volumes.contains(&uuid)));
    mounted_when(lines.map(|line| line.unlock()))
}

fn mounted_when(unlocks: impl Iterator<Item = Unlock>) -> AtBoot {
    unlocks.fold(AtBoot::Mounted, |when, unlock| match (when, unlock) {
        (AtBoot::Not, _) | (_, Unlock::Passphrase) => AtBoot::Not,
        (AtBoot::MountedByNetwork, _) | (_, Unlock::Tang { .. }) => AtBoot::MountedByNetwork,
        (AtBoot::Mounted, _) => AtBoot::Mounted,
    })
}

/// The opened volumes below a pool.
pub(super) fn volumes_of<'a>(
    pool: &ObservedPool,
    host: &'a ObservedHost,
) -> impl Iterator<Item = &'a LuksVolume> {
    let paths: Vec<String> = pool.member_paths().map(str::to_owned).collect();
    host.luks.iter().filter(move |volume| {
        let open = volume.open.as_ref();
        open.is_some_and(|open| paths.iter().any(|path| path == &open.node))
    })
}

fn new_disks(change: &Change) -> Vec<&Disk> {
    match change {
        Change::Add { disks, .. } | Change::Convert { disks, .. } => disks.iter().collect(),
        Change::Replace { by, lent, .. } => {
            std::iter::once(by).chain(lent).map(AsRef::as_ref).collect()
        }
        Change::Remove { .. } | Change::Rebalance => Vec::new(),
    }
}

/// An encrypted pool accepts no unencrypted disk: data would be readable there.
pub(super) fn check_as_the_others(
    pool: &ObservedPool,
    change: &Change,
    host: &ObservedHost,
) -> Result<(), Refused> {
    let plain =
        new_disks(change).into_iter().find(|disk| disk.encrypt.is_none() && disk.mapping.is_none());
    match plain {
        Some(disk) if volumes_of(pool, host).next().is_some() => Err(Refused::Impossible {
            what: format!(
                "pool {} is encrypted, and {} would be taken as it is",
                pool.name(),
                disk.path
            ),
            instead: "let Braid encrypt it, or open a LUKS volume on it yourself and name that"
                .to_owned(),
        }),
        _ => Ok(()),
    }
}

/// Once the pool has released a member, its mapping is closed and its keys are erased, so that
/// nobody can read what it held.
pub(super) fn release(pool: &ObservedPool, change: &Change, host: &ObservedHost, plan: &mut Plan) {
    plan.warnings.extend(fewer_keys(pool, change, host));
    let leaving = match change {
        Change::Remove { member } | Change::Replace { member, .. } => member,
        _ => return,
    };
    let found = pool.member_path(&leaving.0);
    let volume = host.luks.iter().find(|volume| match &volume.open {
        Some(open) => Some(open.node.as_str()) == found,
        None => false,
    });
    let mut steps = match volume {
        Some(volume) => let_go(volume, host, plan),
        // A disk that was pulled out leaves its mapping behind.
        None if found.is_none() || pool.has_lost(&leaving.0) => {
            forget(&pool.name(), found.is_some(), host, plan)
        }
        None => Vec::new(),
    };
    // What the others lack may be only on this disk.
    if let Some(first) = steps.first_mut() {
        first.before.extend(plan.after.iter().cloned());
    }
    plan.steps.extend(steps);
}

/// Its mapping is closed, and what could open it again is removed.
pub(super) fn let_go(volume: &LuksVolume, host: &ObservedHost, plan: &mut Plan) -> Vec<Step> {
    let (name, uuid) = (volume.mapping_name(), volume.uuid);
    // The line first: otherwise a boot in between would open it again.
    let mut steps: Vec<Step> = without_line(uuid, host).into_iter().collect();
    steps.push(Step {
        name: format!("close {name}"),
        says: format!("close {name}, which the pool doesn't use any more"),
        before: vec![],
        action: close_action(&name),
        after: vec![Condition::Open { name: name.clone(), uuid }.negated()],
        undo: Undo::Nothing,
    });
    // A volume not made by Braid keeps its keys.
    let Some(pool) = volume.pool.as_deref() else { return steps };
    steps.extend(without_backup(pool, uuid, host));
    let stay = keys_stay(pool, volume);
    if volume.header == Header::Gone {
        plan.warnings.push(format!("its LUKS header can't be read, so nothing is erased: {stay}"));
        return steps;
    }
    let erase = erase_keys(volume);
    // A disk that leaves because it is failing may accept no writes any more.
    plan.dispensable.push(Dispensable { step: erase.name.clone(), otherwise: stay });
    steps.push(erase);
    steps
}

fn erase_keys(volume: &LuksVolume) -> Step {
    let (device, uuid) = (volume.path.clone(), volume.uuid);
    Step {
        name: format!("erase the keys of {}", volume.disk),
        says: format!("erase the keys on disk {}: nobody can read what it held", volume.disk),
        before: vec![Condition::Luks { device: device.clone(), uuid }],
        action: erase_header(&device),
        after: vec![Condition::Luks { device, uuid }.negated()],
        undo: Undo::Never("without its keys nobody can read what the disk held".to_owned()),
    }
}

/// The consequence if a leaving disk's keys couldn't be erased.
fn keys_stay(pool: &str, volume: &LuksVolume) -> String {
    let disk = &volume.disk;
    format!(
        "the keys on disk {disk} may still be there, and with a key of the pool, what it held can be \
         read: destroy the disk, or, should it take writes again, `braid pool key erase {pool} {}`",
        quoted(disk.as_str())
    )
}

/// The crypttab line whose volume is on no disk, if there is only one: that of the lost member. Its
/// mapping may still be there.
fn forget(pool: &str, is_mapped: bool, host: &ObservedHost, plan: &mut Plan) -> Vec<Step> {
    let is_there = |uuid: Uuid| host.luks.iter().any(|volume| volume.uuid == uuid);
    let mut gone = luks::crypttab(&host.crypttab).filter_map(|line| {
        let uuid = line.volume.filter(|uuid| !is_there(*uuid))?;
        (line.name == luks::mapping_name(pool, uuid)).then_some(uuid)
    });
    let (Some(uuid), None) = (gone.next(), gone.next()) else { return Vec::new() };
    let mut steps: Vec<Step> = without_line(uuid, host).into_iter().collect();
    if is_mapped {
        let close = Step {
            name: format!("close {}", luks::mapping_name(pool, uuid)),
            says: format!("close {}, whose disk is gone", luks::mapping_name(pool, uuid)),
            before: vec![],
            action: close_action(&luks::mapping_name(pool, uuid)),
            after: vec![],
            undo: Undo::Nothing,
        };
        let otherwise = "it is gone with the next boot".to_owned();
        plan.dispensable.push(Dispensable { step: close.name.clone(), otherwise });
        steps.push(close);
    }
    steps.extend(without_backup(pool, uuid, host));
    steps
}

/// A backup of the header has the keys, too.
fn without_backup(pool: &str, uuid: Uuid, host: &ObservedHost) -> Option<Step> {
    let folder = host.header_backups.as_ref()?;
    let path = luks::header_backup(&format!("{folder}/{pool}"), uuid);
    Some(Step {
        name: format!("forget the header {uuid}"),
        says: "remove the backup of its LUKS header, which has its keys".to_owned(),
        before: vec![],
        action: Action::RemoveKeys { path },
        after: vec![],
        undo: Undo::Never("what it was of is out of the pool".to_owned()),
    })
}

fn without_line(uuid: Uuid, host: &ObservedHost) -> Option<Step> {
    let found = luks::crypttab(&host.crypttab).find(|line| line.volume == Some(uuid))?;
    let (file, line) = (CRYPTTAB.to_owned(), found.text.to_owned());
    Some(Step {
        name: format!("crypttab without {}", found.name),
        says: format!("{} isn't opened at boot any more", found.name),
        before: vec![],
        action: Action::RemoveLine { file: file.clone(), line: line.clone() },
        after: vec![Condition::FileHasLine { file: file.clone(), line: line.clone() }.negated()],
        undo: Undo::By(vec![Action::EnsureLine { file, line, instead_of: None }]),
    })
}

const KEY_FILE: &str = "key file";

fn make_key_file(wish: &Encryption) -> Step {
    let path = wish.key_file.clone();
    Step {
        name: KEY_FILE.to_owned(),
        says: format!("make the key file {path}"),
        before: vec![],
        action: Action::MakeKeyFile { path: path.clone() },
        after: vec![Condition::KeyFile { path: path.clone() }],
        undo: Undo::By(vec![Action::RemoveKeys { path }]),
    }
}

fn format(member: &NewMember, wish: &Encryption) -> Step {
    let id = member.claim.id();
    let device = member.claim.path();
    let mut args: Vec<String> =
        ["luksFormat", "--type", "luks2", "--batch-mode", "--uuid"].map(str::to_owned).to_vec();
    args.push(wish.uuid.to_string());
    args.extend(["--label".to_owned(), luks::label(&wish.pool)]);
    args.extend(["--subsystem".to_owned(), luks::subsystem(wish.pool_uuid)]);
    args.extend(["--cipher", "aes-xts-plain64", "--key-size", "512"].map(str::to_owned));
    args.extend(["--sector-size".to_owned(), wish.sector_bytes.to_string()]);
    args.extend(["--offset".to_owned(), (HEADER_BYTES / 512).to_string()]);
    args.extend(stretching(&wish.unlock).map(str::to_owned));
    args.extend(["--key-file".to_owned(), wish.key_file.clone(), device.to_owned()]);
    let key = Condition::LuksKey {
        device: device.to_owned(),
        uuid: wish.uuid,
        key_file: wish.key_file.clone(),
    };
    Step {
        name: format!("encrypt {id}"),
        says: format!("encrypt disk {id}"),
        before: vec![
            member::ready(&member.claim),
            Condition::KeyFile { path: wish.key_file.clone() },
        ],
        action: Action::Run(Argv::new("cryptsetup", args)),
        after: vec![key],
        undo: Undo::By(vec![erase_header(device)]),
    }
}

/// A key of 160 random bits can't be guessed, so stretching it only takes time and memory at boot:
/// NIST SP 800-132 asks for 1000 iterations at least. A passphrase gets cryptsetup's default,
/// argon2id.
fn stretching(unlock: &Unlock) -> impl Iterator<Item = &'static str> {
    let words: &[&str] = match unlock {
        Unlock::KeyFile => &["--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000"],
        _ => &[],
    };
    words.iter().copied()
}

/// An additional key, provided by the TPM or a server.
fn enroll(member: &NewMember, wish: &Encryption) -> Option<Step> {
    let device = member.claim.path().to_owned();
    let (argv, kind) = match &wish.unlock {
        Unlock::KeyFile | Unlock::Passphrase => return None,
        // PCR 7: whether Secure Boot lets this system start, and by whose keys.
        Unlock::Tpm2 => {
            let key = format!("--unlock-key-file={}", wish.key_file);
            let args = [key.as_str(), "--tpm2-device=auto", "--tpm2-pcrs=7", &device];
            (Argv::new("systemd-cryptenroll", args), "systemd-tpm2")
        }
        Unlock::Tang { url, thumbprint } => {
            let pin = luks::tang_pin(url, thumbprint);
            let key = wish.key_file.as_str();
            let args = ["luks", "bind", "-y", "-k", key, "-d", &device, "tang", &pin];
            (Argv::new("clevis", args), "clevis")
        }
    };
    let token = Condition::LuksToken { device, kind: kind.to_owned() };
    let id = member.claim.id();
    Some(Step {
        name: format!("enroll {id}"),
        says: format!("disk {id} is opened by {}", wish.unlock),
        before: vec![],
        action: Action::Run(argv),
        after: vec![token],
        undo: Undo::Nothing,
    })
}

fn back_up(member: &NewMember, wish: &Encryption) -> Step {
    let (device, file) = (member.claim.path().to_owned(), wish.header_backup());
    let id = member.claim.id();
    Step {
        name: format!("header of {id}"),
        says: format!("back up the LUKS header of disk {id}: without it nothing can be read"),
        before: vec![],
        action: Action::BackUpHeader { device: device.clone(), file: file.clone() },
        after: vec![Condition::HeaderBackedUp { device, file: file.clone() }],
        undo: Undo::By(vec![Action::RemoveKeys { path: file }]),
    }
}

fn crypttab(member: &NewMember, wish: &Encryption) -> Step {
    let id: &DiskId = member.claim.id();
    let says = match wish.unlock {
        Unlock::Passphrase => format!("disk {id} has its name in {CRYPTTAB}"),
        _ => format!("open disk {id} at every boot"),
    };
    let instead_of = Some(wish.uuid.to_string());
    let (name, line) = (format!("crypttab {id}"), wish.crypttab_line());
    host_files::ensured(&name, says, CRYPTTAB, line, instead_of, Vec::new())
}

fn open(member: &NewMember, wish: &Encryption) -> Step {
    let (name, uuid) = (wish.mapping(), wish.uuid);
    let id = member.claim.id();
    Step {
        name: format!("open {id}"),
        says: format!("open disk {id} as {name}"),
        before: vec![],
        action: Action::Run(open_argv(member.claim.path(), &name, &wish.key_file, wish.discards)),
        after: vec![Condition::Open { name: name.clone(), uuid }],
        undo: Undo::By(vec![close_action(&name)]),
    }
}

/// Whether discards pass is stored in the header, so that it is the same whoever opens it.
fn open_argv(device: &str, name: &str, key_file: &str, discards: bool) -> Argv {
    let mut args = vec!["open", "--type", "luks2", "--key-file", key_file];
    if discards {
        args.extend(["--allow-discards", "--persistent"]);
    }
    args.extend([device, name]);
    Argv::new("cryptsetup", args)
}

fn close_action(name: &str) -> Action {
    Action::Run(Argv::new("cryptsetup", ["close", name]))
}

/// Both headers and all key slots.
fn erase_header(device: &str) -> Action {
    let length = HEADER_BYTES.to_string();
    Action::Run(Argv::new("blkdiscard", ["--zeroout", "--length", &length, device]))
}
