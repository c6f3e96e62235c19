use super::{Code, Finding, Severity, Ward, describe_errors};
use crate::fstab;
use crate::layout::{Layout, Profile};
use crate::observed::{BtrfsMember, ExclusiveOperation, MemberFault, ObservedBtrfs, Purpose};
use crate::step::quoted;
use braid_units::ByteSize;

pub(super) fn examine(ward: &Ward<'_>, pool: &ObservedBtrfs, findings: &mut Vec<Finding>) {
    missing(ward, pool, findings);
    errors(ward, pool, findings);
    profiles(ward, pool, findings);
    findings.extend(unallocated(ward, pool));
    scrubs(ward, pool, findings);
    habits(ward, pool, findings);
    mounts(ward, pool, findings);
}

/// The key of a member's counters.
pub(super) fn counter_name(pool: &ObservedBtrfs, member: &BtrfsMember) -> String {
    format!("{}/{}", pool.uuid, member.devid)
}

fn at(pool: &ObservedBtrfs) -> Option<String> {
    pool.mounts.first().map(|mount| quoted(&mount.at))
}

fn missing(ward: &Ward<'_>, pool: &ObservedBtrfs, findings: &mut Vec<Finding>) {
    let gone: Vec<&BtrfsMember> = pool.missing().collect();
    if gone.is_empty() {
        return;
    }
    let survives = pool
        .intended_profiles()
        .map(|(data, metadata)| data.losses_survived().min(metadata.losses_survived()));
    if survives.is_some_and(|survives| gone.len() > survives)
        || pool.mounts.is_empty() && survives.is_none() && pool.members.len() == gone.len()
    {
        let what = format!(
            "{} members are missing and the layout survives {}",
            gone.len(),
            survives.unwrap_or(0)
        );
        let mend = match (at(pool), pool.present().find_map(|member| member.path.clone())) {
            (None, Some(path)) => {
                format!("mount -t btrfs -o ro,degraded,rescue=all {} /mnt", quoted(&path))
            }
            (Some(at), _) => format!("cp -a {at} ELSEWHERE"),
            (None, None) => "btrfs device scan".to_owned(),
        };
        findings.push(ward.finding(Code::TooManyLost, Severity::Lost, what, mend));
        return;
    }
    for member in gone {
        let (code, how) = match (member.fault, member.path.as_deref()) {
            (Some(MemberFault::NoSize), Some(path)) => {
                (Code::DeadMember, format!("is dead ({path} has a size of 0)"))
            }
            (Some(_), Some(path)) => {
                (Code::DeadMember, format!("is dead ({path} answers no read)"))
            }
            _ => (Code::MissingMember, "is missing".to_owned()),
        };
        let mut what = format!(
            "device {} of the filesystem {how}: what it held has a copy less",
            member.devid
        );
        let (devid, new) = (member.devid.to_string(), ward.new_disk(member.size_bytes));
        let mend = match crate::planner::to_be_lent(pool, member) {
            None => ward.braid("replace", &[&devid, &new]),
            Some(bytes) => {
                what.push_str(&format!(
                    "; the others are full, so besides the new disk another of at least {} has to be lent, or files deleted",
                    ByteSize::from_bytes(bytes)
                ));
                let lent = ward.new_disk_but(&new, bytes);
                ward.braid("replace", &[&devid, &new, "--lend", &lent])
            }
        };
        findings.push(ward.finding(code, Severity::Danger, what, mend));
    }
}

fn errors(ward: &Ward<'_>, pool: &ObservedBtrfs, findings: &mut Vec<Finding>) {
    for member in pool.members.iter().filter(|m| m.fault == Some(MemberFault::SuperblockUnreadable))
    {
        let what = format!(
            "the superblock of {} can't be read: the next mount will be without this member",
            name_of(member)
        );
        let mend = replace(ward, member);
        findings.push(ward.finding(Code::UnreadableSuperblock, Severity::Danger, what, mend));
    }
    // Dead members are reported already, and a scrub doesn't help them.
    let counts = |member: &&BtrfsMember| {
        member.errors.sum() > 0 && !member.fault.is_some_and(MemberFault::is_dead)
    };
    for member in pool.members.iter().filter(counts) {
        let name = name_of(member);
        let counters = describe_errors(member.errors);
        let finding = match ward.before.rise(&counter_name(pool, member), member.errors.sum()) {
            Some(0) | None => {
                let refused = member.errors.refused() > 0;
                let (severity, lacks) = match refused {
                    true => (Severity::Danger, "what it refused to write lacks there; "),
                    false => (Severity::Attention, ""),
                };
                let what = format!(
                    "{name} has had {counters}; {lacks}whether they are over shows a scrub"
                );
                let mut mend = ward.scrub();
                if let Some(at) = at(pool) {
                    // 10: errors were found, and all corrected.
                    mend.push_str(&format!(" || test $? = 10 && btrfs device stats --reset {at}"));
                }
                ward.finding(Code::Errors, severity, what, mend)
            }
            Some(rise) => {
                let what = format!("{name} has {rise} errors more than last time: {counters}");
                let mend = replace(ward, member);
                ward.finding(Code::RisingErrors, Severity::Danger, what, mend)
            }
        };
        findings.push(finding);
    }
    let behind = |member: &&BtrfsMember| {
        member.generation.is_some_and(|generation| generation < pool.generation)
    };
    // While mounted, the superblocks on disk lag by the running transaction.
    for member in pool.present().filter(behind).filter(|_| pool.mounts.is_empty()) {
        let what = format!(
            "device {} was away while the others were written to: what it missed is out of date until a scrub",
            member.devid
        );
        let mount = match (crate::planner::fstab_place(ward.host, pool.uuid), &member.path) {
            (Some(at), _) => format!("mount {}", quoted(&at)),
            (None, Some(path)) => format!("mount {} /mnt", quoted(path)),
            (None, None) => continue,
        };
        let mend = format!("{mount} && {}", ward.scrub());
        findings.push(ward.finding(Code::StaleMember, Severity::Danger, what, mend));
    }
}

fn profiles(ward: &Ward<'_>, pool: &ObservedBtrfs, findings: &mut Vec<Finding>) {
    let Some((data, metadata)) = pool.meant_profiles() else { return };
    let mend = ward.braid("convert", &["--layout", &Layout::Btrfs(data).to_string()]);
    for purpose in [Purpose::Data, Purpose::Metadata, Purpose::System] {
        let found = pool.profiles(purpose);
        if found.len() < 2 {
            continue;
        }
        let meant = if purpose == Purpose::Data { data } else { metadata };
        let words: Vec<&str> = found.iter().map(|profile| profile.as_str()).collect();
        let single = found.iter().any(|profile| matches!(profile, Profile::Single | Profile::Dup));
        let purpose = format!("{purpose:?}").to_lowercase();
        let finding = if single && meant.losses_survived() > 0 {
            let what = format!(
                "{purpose} is {}: some was written with one copy only, while a member was away; what that member missed is out of date",
                words.join(" and ")
            );
            ward.finding(Code::LeftoverSingle, Severity::Danger, what, mend.clone())
        } else {
            let what =
                format!("{purpose} is {}: a conversion was not completed", words.join(" and "));
            ward.finding(Code::MixedProfiles, Severity::Attention, what, mend.clone())
        };
        findings.push(finding);
    }
    if pool.members.len() > 1 && metadata.losses_survived() < data.losses_survived().max(1) {
        let what = format!(
            "metadata is {} beside {} data: a lost disk takes the whole filesystem",
            metadata.as_str(),
            data.as_str()
        );
        findings.push(ward.finding(Code::WeakMetadata, Severity::Danger, what, mend));
    }
}

/// Too little to allocate a chunk of each kind where needed: then writes fail with "no space"
/// although `df` shows some.
fn unallocated(ward: &Ward<'_>, pool: &ObservedBtrfs) -> Option<Finding> {
    let (data, metadata) = pool.meant_profiles()?;
    let sizes: u64 = pool.present().map(|member| member.size_bytes).sum();
    let chunk = (sizes / 10).min(1 << 30);
    // There only a new disk in the missing one's place helps, as that finding says.
    if pool.missing().next().is_some() {
        return None;
    }
    let needs = data.min_disks().max(metadata.min_disks());
    let with_room = pool.present().filter(|member| member.unallocated_bytes() >= chunk).count();
    if with_room >= needs {
        return None;
    }
    let (total, used) = pool.space_of(Purpose::Data);
    let slack = total.saturating_sub(used);
    let unallocated: u64 = pool.present().map(BtrfsMember::unallocated_bytes).sum();
    let what = format!(
        "only {} are unallocated, on too few disks for a new chunk, and data chunks have {} free",
        braid_units::ByteSize::from_bytes(unallocated),
        braid_units::ByteSize::from_bytes(slack)
    );
    let mend = if slack >= 2 * chunk {
        ward.braid("rebalance", &[])
    } else {
        // With fewer, the balance that spreads data over the new ones couldn't start.
        let disks = ward.new_disks(needs - with_room, 2 * chunk);
        ward.braid("add", &disks.iter().map(String::as_str).collect::<Vec<_>>())
    };
    Some(ward.finding(Code::LowUnallocated, Severity::Attention, what, mend))
}

fn name_of(member: &BtrfsMember) -> String {
    member.path.clone().unwrap_or_else(|| format!("devid {}", member.devid))
}

fn replace(ward: &Ward<'_>, member: &BtrfsMember) -> String {
    let new = ward.new_disk(member.size_bytes);
    ward.braid("replace", &[&member.devid.to_string(), &new])
}

fn scrubs(ward: &Ward<'_>, pool: &ObservedBtrfs, findings: &mut Vec<Finding>) {
    if pool.mounts.is_empty() {
        return;
    }
    let hurt: Vec<&BtrfsMember> = pool.members.iter().filter(|m| m.uncorrectable > 0).collect();
    let survives = pool.losses_survived().unwrap_or(0);
    if hurt.is_empty() || hurt.len() > survives {
        findings.extend(scrub(ward, pool));
        return;
    }
    // With so few nothing is lost: an error without any good copy is counted on each member that
    // has a copy.
    let alive = |member: &&BtrfsMember| !member.fault.is_some_and(MemberFault::is_dead);
    for member in hurt.into_iter().filter(alive) {
        let (name, count) = (name_of(member), member.uncorrectable);
        let finding = if member.errors.sum() > 0 {
            let what = format!(
                "the last scrub found {count} errors on {name} that it could not mend there; other members have the same data right"
            );
            ward.finding(Code::Uncorrectable, Severity::Danger, what, replace(ward, member))
        } else {
            let what = format!(
                "the last scrub found {count} errors on {name} that it could not mend there, and no new ones were counted since: whether they are over shows another"
            );
            ward.finding(Code::Uncorrectable, Severity::Attention, what, ward.scrub())
        };
        findings.push(finding);
    }
    findings.extend(super::disk::overdue(ward, &pool.scrub));
}

fn scrub(ward: &Ward<'_>, pool: &ObservedBtrfs) -> Option<Finding> {
    if pool.scrub.uncorrectable > 0 {
        let what = format!(
            "the last scrub found {} errors that no copy could mend: restore these files",
            pool.scrub.uncorrectable
        );
        let mend = "journalctl -k --grep 'unable to fixup|checksum error at'".to_owned();
        return Some(ward.finding(Code::Uncorrectable, Severity::Danger, what, mend));
    }
    super::disk::overdue(ward, &pool.scrub)
}

fn habits(ward: &Ward<'_>, pool: &ObservedBtrfs, findings: &mut Vec<Finding>) {
    if let (true, Some(at)) = (pool.quotas, at(pool)) {
        let what =
            "quota groups are on: with many snapshots, deleting and balancing take very long";
        findings.push(ward.finding(
            Code::Quotas,
            Severity::Attention,
            what,
            format!("btrfs quota disable {at}"),
        ));
    }
    let redundant = pool.meant_profiles().is_some_and(|(data, _)| data.losses_survived() > 0);
    if !redundant {
        return;
    }
    for path in &pool.nodatacow {
        let what = format!(
            "{path} is nodatacow on redundant btrfs: a member that missed writes gives stale data there, silently, even after a scrub"
        );
        let is_mount = pool.mounts.iter().any(|mount| mount.at == *path && mount.has("nodatacow"));
        let mend = if is_mount {
            format!("mount -o remount,datacow {}", quoted(path))
        } else {
            let (path, old) = (quoted(path), quoted(&format!("{path}.nocow")));
            format!("mv {path} {old} && cp -a --reflink=never {old} {path} && rm -r {old}")
        };
        findings.push(ward.finding(Code::Nodatacow, Severity::Danger, what, mend));
    }
}

fn mounts(ward: &Ward<'_>, pool: &ObservedBtrfs, findings: &mut Vec<Finding>) {
    let complete = pool.missing().next().is_none();
    if let (ExclusiveOperation::BalancePaused, Some(at)) = (&pool.exclusive_operation, at(pool)) {
        let what = "a balance is paused, and keeps add, remove and replace out";
        findings.push(ward.finding(
            Code::Paused,
            Severity::Attention,
            what,
            format!("btrfs balance resume {at}"),
        ));
    }
    for mount in &pool.mounts {
        let at = quoted(&mount.at);
        if mount.has("degraded") && complete {
            let what = format!(
                "{} is mounted with degraded: with a disk gone it would silently write one copy",
                mount.at
            );
            let mend = format!("umount {at} && mount {at}");
            findings.push(ward.finding(Code::DegradedOption, Severity::Attention, what, mend));
        }
        let meant = fstab::entries(&ward.host.fstab).find(|entry| entry.at == mount.at);
        let Some(meant) = meant else { continue };
        if mount.has("ro") && !meant.has("ro") {
            let what = format!(
                "{} is read-only though fstab says otherwise: btrfs stopped at an error",
                mount.at
            );
            findings.push(ward.finding(
                Code::ReadOnly,
                Severity::Danger,
                what,
                "journalctl -k --grep BTRFS",
            ));
        }
        if meant.has("degraded") {
            let what = "fstab mounts it with degraded always: a disk that comes late at boot then misses writes";
            let script = format!(
                r"\|[[:space:]]{}[[:space:]]|s/,degraded\|degraded,//",
                as_sed_pattern(meant.at_as_written)
            );
            let mend = format!("sed -i {} /etc/fstab", quoted(&script));
            findings.push(ward.finding(Code::DegradedOption, Severity::Danger, what, mend));
        }
    }
}

/// Matches exactly this text in a basic regular expression delimited by `|`.
fn as_sed_pattern(text: &str) -> String {
    let is_special = |c: char| r"\.*[]^$|".contains(c);
    text.chars().flat_map(|c| is_special(c).then_some('\\').into_iter().chain([c])).collect()
}
