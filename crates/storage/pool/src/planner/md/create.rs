use super::{filesystem, zero_superblock};
use crate::layout::{Layout, MdLayout};
use crate::observed::ObservedHost;
use crate::planner::member::{self, NewMember};
use crate::planner::{NewPool, Refused, encrypt, erase, host_files};
use crate::step::{Action, Argv, Condition, Plan, Step, Undo};

/// Array, filesystem, mdadm.conf, fstab, and only then the initramfs, which holds a copy of
/// mdadm.conf.
pub(super) fn plan(new: &NewPool, host: &ObservedHost) -> Result<Plan, Refused> {
    let Layout::Md(layout) = new.layout else {
        return Err(Refused::TooSmall { layout: new.layout });
    };
    if host.lacks_md {
        return Err(Refused::Impossible {
            what: format!("{} needs md, and this kernel has none", new.layout),
            instead: "install the kernel's modules (`modprobe md-mod` has to work), or take a btrfs layout".to_owned(),
        });
    }
    check_name_free(new, host)?;
    let members = member::stake(&new.disks, &new.erase)?;
    let device = format!("/dev/md/{}", new.name);
    let kind = new.filesystem.as_str();
    let mut steps = erase::prepared(&members);
    steps.push(make(new, layout, &device, &members));
    steps.push(filesystem::make(new, layout, &device));
    steps.push(host_files::mdadm_conf(host, new.name.as_str(), new.array));
    steps.push(host_files::fstab(
        new.filesystem_uuid,
        kind,
        &new.mount_at,
        &new.options,
        encrypt::at_boot(&members),
    ));
    steps.extend(host_files::initramfs(host));
    steps.push(host_files::mount_point(&new.mount_at));
    let (options, uuid) = (new.options.each(), new.filesystem_uuid);
    steps.push(host_files::mount_anew(&device, kind, options, uuid, &new.mount_at));
    let mut warnings = encrypt::warnings(&members);
    if layout.losses_survived(members.len()) == 0 {
        warnings.push(format!("{} survives the loss of no disk", new.layout));
    }
    if crate::growth::growth(new.layout) == crate::growth::Growth::Never {
        warnings.push(format!("{}: {}", new.layout, crate::growth::growth_says(new.layout)));
    }
    Ok(Plan {
        title: format!(
            "create pool {}: {} of {} {}disks with {kind}, at {}",
            new.name,
            new.layout,
            members.len(),
            encrypt::adjective(&members),
            new.mount_at
        ),
        pool: new.name.to_string(),
        claims: members.into_iter().map(|member| member.claim).collect(),
        warnings,
        steps,
        after: Vec::new(),
        dispensable: Vec::new(),
    })
}

/// With `--homehost=any` the array has its bare name on any host; with a host's name in it, another
/// host would call it `HOST:NAME`.
fn make(new: &NewPool, layout: MdLayout, device: &str, members: &[NewMember]) -> Step {
    let mut args: Vec<String> = Vec::new();
    let mut push = |word: &str| args.push(word.to_owned());
    push("--create");
    push(device);
    // Don't ask: the conditions before cover what it would ask about.
    push("--run");
    push("--metadata=1.2");
    push(&format!("--name={}", new.name));
    push("--homehost=any");
    push(&format!("--uuid={}", new.array.in_mdadm_form()));
    push(&format!("--level={}", layout.level()));
    if let Some(word) = layout.layout_word() {
        push(&format!("--layout={word}"));
    }
    if layout != MdLayout::Raid1 {
        push("--chunk=512K");
    }
    if layout != MdLayout::Raid0 {
        // After a crash only what the bitmap names is copied again.
        push("--bitmap=internal");
    }
    push(&format!("--raid-devices={}", members.len()));
    members.iter().for_each(|member| push(&member.device()));
    let mut undo = vec![Action::Run(Argv::new("mdadm", ["--stop", device]))];
    undo.extend(members.iter().map(|member| zero_superblock(&member.device())));
    Step {
        name: "array".to_owned(),
        says: format!("make the array {} of {} disks", new.name, members.len()),
        before: members.iter().map(NewMember::ready_anew).collect(),
        action: Action::Run(Argv::new("mdadm", args)),
        after: vec![Condition::ArrayIs { uuid: new.array, layout, disks: members.len() }],
        undo: Undo::By(undo),
    }
}

/// No other array goes by this name.
fn check_name_free(new: &NewPool, host: &ObservedHost) -> Result<(), Refused> {
    let device = format!("/dev/md/{}", new.name);
    let taken = host.mdadm_conf.as_ref().is_some_and(|(_, text)| {
        text.lines().any(|line| {
            let mut words = line.split_whitespace();
            words.next() == Some("ARRAY") && words.next() == Some(&device)
        })
    });
    if !taken {
        return Ok(());
    }
    Err(Refused::Impossible {
        what: format!("mdadm.conf already has an array {device}"),
        instead: "choose another name, or remove that line if the array is gone".to_owned(),
    })
}
