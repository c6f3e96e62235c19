use crate::disk::Claim;
use crate::layout::{Layout, Profile};
use crate::planner::{NewPool, Refused, erase, host_files};
use crate::step::{Action, Argv, Condition, Plan, Step, Undo};

pub(super) fn plan(new: &NewPool) -> Result<Plan, Refused> {
    let Layout::Btrfs(data) = new.layout else {
        return Err(Refused::TooSmall { layout: new.layout });
    };
    let members = erase::stake(&new.disks, &new.erase)?;
    let claims: Vec<Claim> = members.into_iter().map(|member| member.claim).collect();
    let mut steps = erase::steps(&claims);
    steps.push(make(new, data, &claims));
    steps.push(host_files::fstab(new.filesystem_uuid, "btrfs", &new.mount_at));
    steps.push(host_files::mount_point(&new.mount_at));
    steps.push(mount(new, &claims));
    let metadata = data.metadata_beside(claims.len());
    let mut warnings = Vec::new();
    if data.losses_survived() == 0 {
        warnings.push(format!("{} survives the loss of no disk", new.layout));
    }
    Ok(Plan {
        title: format!(
            "create pool {}: {} of {} disks, metadata {}, at {}",
            new.name,
            new.layout,
            claims.len(),
            metadata.as_str(),
            new.mount_at
        ),
        pool: new.name.to_string(),
        after: vec![super::took_all(new.filesystem_uuid, &[], &claims)],
        claims,
        warnings,
        steps,
    })
}

fn make(new: &NewPool, data: Profile, claims: &[Claim]) -> Step {
    let uuid = new.filesystem_uuid;
    let metadata = data.metadata_beside(claims.len());
    let mut args: Vec<String> =
        ["--quiet", "--label", new.name.as_str(), "--uuid"].map(str::to_owned).to_vec();
    args.push(uuid.to_string());
    args.extend(["--data", data.as_str(), "--metadata", metadata.as_str()].map(str::to_owned));
    args.extend(in_mkfs_order(claims).into_iter().map(|claim| claim.path().to_owned()));
    Step {
        name: "mkfs".to_owned(),
        says: format!(
            "make a btrfs of {} disks, data {}, metadata {}",
            claims.len(),
            data.as_str(),
            metadata.as_str()
        ),
        before: claims.iter().map(erase::ready).collect(),
        action: Action::Run(Argv::new("mkfs.btrfs", args)),
        after: claims
            .iter()
            .map(|claim| Condition::BtrfsMember { uuid, disk: claim.id().clone() })
            .collect(),
        undo: Undo::By(claims.iter().map(|claim| erase::wipe(claim.path())).collect()),
    }
}

/// Names every device, so that it works before udev or `btrfs device scan` told the kernel of them.
/// mkfs takes its first chunks from the disks named last. On the larger ones they cost no room that
/// another layout of chunks could use; on the smallest of unequal disks they would cost up to three
/// chunks.
fn in_mkfs_order(claims: &[Claim]) -> Vec<&Claim> {
    let mut order: Vec<&Claim> = claims.iter().collect();
    order.sort_by_key(|claim| claim.size_bytes());
    order
}

fn mount(new: &NewPool, claims: &[Claim]) -> Step {
    let paths: Vec<&str> = claims.iter().map(Claim::path).collect();
    let (first, others) =
        paths.split_first().map_or(("", &[][..]), |(first, others)| (*first, others));
    let options: Vec<String> = others.iter().map(|path| format!("device={path}")).collect();
    host_files::mount_anew(first, "btrfs", &options, new.filesystem_uuid, &new.mount_at)
}
