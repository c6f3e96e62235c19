use crate::layout::{Layout, Profile};
use crate::planner::member::{self, NewMember};
use crate::planner::{NewPool, Refused, encrypt, erase, host_files};
use crate::step::{Action, Argv, Condition, Plan, Step, Undo};

pub(super) fn plan(new: &NewPool) -> Result<Plan, Refused> {
    let Layout::Btrfs(data) = new.layout else {
        return Err(Refused::TooSmall { layout: new.layout });
    };
    let members = member::stake(&new.disks, &new.erase)?;
    let mut steps = erase::prepared(&members);
    steps.push(make(new, data, &members));
    steps.push(host_files::fstab(
        new.filesystem_uuid,
        "btrfs",
        &new.mount_at,
        &new.options,
        encrypt::at_boot(&members),
    ));
    steps.push(host_files::mount_point(&new.mount_at));
    steps.push(mount(new, &members));
    let metadata = data.metadata_beside(members.len());
    let mut warnings = encrypt::warnings(&members);
    if data.losses_survived() == 0 {
        warnings.push(format!("{} survives the loss of no disk", new.layout));
    }
    Ok(Plan {
        title: format!(
            "create pool {}: {} of {} {}disks, metadata {}, at {}",
            new.name,
            new.layout,
            members.len(),
            encrypt::adjective(&members),
            metadata.as_str(),
            new.mount_at
        ),
        pool: new.name.to_string(),
        dispensable: Vec::new(),
        after: vec![super::took_all(
            new.filesystem_uuid,
            &[],
            members.iter().map(|member| &member.claim),
        )],
        claims: members.into_iter().map(|member| member.claim).collect(),
        warnings,
        steps,
    })
}

fn make(new: &NewPool, data: Profile, members: &[NewMember]) -> Step {
    let uuid = new.filesystem_uuid;
    let metadata = data.metadata_beside(members.len());
    let mut args: Vec<String> =
        ["--quiet", "--label", new.name.as_str(), "--uuid"].map(str::to_owned).to_vec();
    args.push(uuid.to_string());
    args.extend(["--data", data.as_str(), "--metadata", metadata.as_str()].map(str::to_owned));
    args.extend(in_mkfs_order(members).into_iter().map(NewMember::device));
    Step {
        name: "mkfs".to_owned(),
        says: format!(
            "make a btrfs of {} disks, data {}, metadata {}",
            members.len(),
            data.as_str(),
            metadata.as_str()
        ),
        before: members.iter().map(NewMember::ready_anew).collect(),
        action: Action::Run(Argv::new("mkfs.btrfs", args)),
        after: members
            .iter()
            .map(|member| Condition::BtrfsMember { uuid, disk: member.claim.id().clone() })
            .collect(),
        undo: Undo::By(members.iter().map(|member| erase::wipe(&member.device())).collect()),
    }
}

/// Names every device, so that it works before udev or `btrfs device scan` tells the kernel about
/// them. mkfs takes its first chunks from the disks named last. On the larger ones they take no
/// room that other chunks could use; on the smallest of unequal disks they would cost up to three
/// chunks.
fn in_mkfs_order(members: &[NewMember]) -> Vec<&NewMember> {
    let mut order: Vec<&NewMember> = members.iter().collect();
    order.sort_by_key(|member| member.size_bytes());
    order
}

fn mount(new: &NewPool, members: &[NewMember]) -> Step {
    let paths: Vec<String> = members.iter().map(NewMember::device).collect();
    let (first, others) =
        paths.split_first().map_or(("", &[][..]), |(first, others)| (first.as_str(), others));
    let devices = others.iter().map(|path| format!("device={path}"));
    let options: Vec<String> = new.options.each().iter().cloned().chain(devices).collect();
    host_files::mount_anew(first, "btrfs", &options, new.filesystem_uuid, &new.mount_at)
}
