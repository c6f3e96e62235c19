//! Gives up a pool: nothing of it is left on the host or on its disks.

use super::{Refused, encrypt, erase, host_files, upkeep};
use crate::fstab;
use crate::observed::{MdMemberState, ObservedHost, ObservedMd, ObservedPool};
use crate::step::{Action, Argv, Condition, Dispensable, Plan, Step, Undo};
use crate::untrusted::Untrusted;
use crate::uuid::Uuid;

const FSTAB: &str = "/etc/fstab";

/// The steps after which the pool is gone. Until the first disk is erased everything can be undone.
pub(super) fn plan(pool: &ObservedPool, host: &ObservedHost) -> Result<Plan, Refused> {
    let name = pool.name();
    check(pool)?;
    let mut plan = Plan {
        title: format!("destroy pool {name} for good"),
        pool: super::journal_name(pool),
        claims: Vec::new(),
        warnings: Vec::new(),
        steps: Vec::new(),
        after: Vec::new(),
        dispensable: Vec::new(),
    };
    if let Some(there) = &host.systemd {
        plan.steps.extend(upkeep::ended(there, pool.uuid()));
    }
    // Nested mounts go first.
    let mut mounts: Vec<&str> = pool.mounts().iter().map(|mount| mount.at.as_str()).collect();
    mounts.sort_by_key(|at| std::cmp::Reverse(at.len()));
    mounts.dedup();
    plan.steps.extend(filesystem(pool).into_iter().flat_map(|uuid| without_lines(uuid, host)));
    plan.steps.extend(mounts.into_iter().map(|at| unmount(at, filesystem(pool))));
    if let ObservedPool::Md(md) = pool {
        plan.steps.extend(without_array(md, host));
    }
    let volumes: Vec<_> = encrypt::volumes_of(pool, host).cloned().collect();
    for member in members(pool) {
        match volumes.iter().find(|it| it.open.as_ref().is_some_and(|open| open.node == member)) {
            Some(volume) => {
                let steps = encrypt::let_go(volume, host, &mut plan);
                plan.steps.extend(steps);
            }
            None => {
                let step = erase_member(&member, pool.uuid());
                plan.dispensable.push(Dispensable {
                    step: step.name.clone(),
                    otherwise: format!(
                        "what {member} held can be read by whoever has the disk: destroy it"
                    ),
                });
                plan.steps.push(step);
            }
        }
    }
    plan.warnings.extend(lacking(pool));
    Ok(plan)
}

/// Checks that the system itself isn't on it, and that nothing is running on it.
fn check(pool: &ObservedPool) -> Result<(), Refused> {
    for mount in pool.mounts() {
        host_files::check_not_systems(&mount.at)?;
    }
    if let ObservedPool::Md(md) = pool
        && md.device.is_some()
        && md.carries.is_none()
    {
        return Err(Refused::Impossible {
            what: format!("what array {} carries is nothing that Braid knows", pool.name()),
            instead: "see what uses it (`lsblk`), and stop it by `mdadm --stop` if that is \
                      nothing"
                .to_owned(),
        });
    }
    Ok(())
}

fn filesystem(pool: &ObservedPool) -> Option<Uuid> {
    match pool {
        ObservedPool::Btrfs(btrfs) => Some(btrfs.uuid),
        ObservedPool::Md(md) => md.carries.as_ref().and_then(|on| on.uuid),
    }
}

/// Those whose disks are present and answer.
fn members(pool: &ObservedPool) -> Vec<String> {
    match pool {
        ObservedPool::Btrfs(btrfs) => {
            btrfs.present().filter_map(|member| member.path.clone()).collect()
        }
        ObservedPool::Md(md) => {
            let answers = |state| !matches!(state, MdMemberState::Missing);
            let there = md.members.iter().filter(|member| answers(member.state));
            there.filter_map(|member| member.path.clone()).collect()
        }
    }
}

/// What isn't erased since it isn't there.
fn lacking(pool: &ObservedPool) -> Option<String> {
    let all = match pool {
        ObservedPool::Btrfs(btrfs) => btrfs.members.len(),
        ObservedPool::Md(md) => md.wants_disks,
    };
    let there = members(pool).len();
    (there < all).then(|| {
        format!(
            "{} of its {all} disks are not here, and keep what is on them: whoever has them may \
             read it",
            all - there
        )
    })
}

fn without_lines(uuid: Uuid, host: &ObservedHost) -> Vec<Step> {
    let is_its = |entry: &fstab::Entry| host_files::is_uuid(&entry.what, uuid);
    let lines: Vec<&str> = host.fstab.lines().collect();
    let own = fstab::entries(&host.fstab).filter(is_its);
    own.filter_map(|entry| {
        let line = (*lines.get(entry.line.checked_sub(1)?)?).to_owned();
        let file = FSTAB.to_owned();
        Some(Step {
            name: format!("fstab without line {}", entry.line),
            says: format!("it isn't mounted at {} any more at boot", Untrusted(&entry.at)),
            before: vec![],
            action: Action::RemoveLine { file: file.clone(), line: line.clone() },
            after: vec![
                Condition::FileHasLine { file: file.clone(), line: line.clone() }.negated(),
            ],
            undo: Undo::By(vec![Action::EnsureLine { file, line, instead_of: None }]),
        })
    })
    .collect()
}

fn unmount(at: &str, uuid: Option<Uuid>) -> Step {
    let again = uuid.map(|uuid| {
        let what = format!("UUID={uuid}");
        Action::Run(Argv::new("mount", ["-o", "noatime", &what, at]))
    });
    Step {
        name: format!("unmount {at}"),
        says: format!("unmount it from {at}"),
        before: vec![],
        action: Action::Run(Argv::new("umount", [at])),
        after: vec![Condition::NotMounted { at: at.to_owned() }],
        undo: Undo::By(again.into_iter().collect()),
    }
}

/// An array's contents begin after its disks' superblocks: they are erased while the array exists.
fn without_array(md: &ObservedMd, host: &ObservedHost) -> Vec<Step> {
    let mut steps = Vec::new();
    if let Some((file, _)) = &host.mdadm_conf
        && let Some(line) = host.array_line(md.uuid)
    {
        let (file, line) = (file.clone(), line.to_owned());
        steps.push(Step {
            name: "mdadm.conf".to_owned(),
            says: "the array isn't looked for any more at boot".to_owned(),
            before: vec![],
            action: Action::RemoveLine { file: file.clone(), line: line.clone() },
            after: vec![
                Condition::FileHasLine { file: file.clone(), line: line.clone() }.negated(),
            ],
            undo: Undo::By(vec![Action::EnsureLine { file, line, instead_of: None }]),
        });
        steps.extend(host_files::initramfs(host));
    }
    let Some(device) = md.path() else { return steps };
    let name = Untrusted(md.short_name()).to_string();
    if md.carries.is_some() {
        steps.push(Step {
            name: "erase the filesystem".to_owned(),
            says: format!("erase the filesystem on array {name} for good"),
            before: vec![],
            action: erase::wipe(&device),
            after: vec![],
            undo: Undo::Never(format!("the filesystem of array {name} is erased")),
        });
    }
    steps.push(Step {
        name: "stop".to_owned(),
        says: format!("stop array {name}"),
        before: vec![],
        action: Action::Run(Argv::new("mdadm", ["--stop", &device])),
        after: vec![Condition::ArrayGone { uuid: md.uuid }],
        undo: Undo::By(vec![Action::Run(Argv::new(
            "mdadm",
            ["--assemble", &device, &format!("--uuid={}", md.uuid.in_mdadm_form())],
        ))]),
    });
    steps
}

/// A disk that no longer belongs to the pool when its turn comes is left alone.
fn erase_member(path: &str, uuid: Uuid) -> Step {
    let own = Condition::Tagged {
        device: path.to_owned(),
        tag: "UUID".to_owned(),
        value: uuid.to_string(),
    };
    Step {
        name: format!("erase {path}"),
        says: format!("erase what makes {path} a member, for good"),
        before: vec![own.clone()],
        action: erase::wipe(path),
        after: vec![own.negated()],
        undo: Undo::Never(format!("{path} is a member of no pool any more")),
    }
}
