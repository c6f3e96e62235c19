use super::{Code, Finding, Severity, Ward};
use crate::layout::MdLayout;
use crate::observed::{MdMember, MdMemberState, ObservedMd, SyncAction};
use crate::planner::array_line;
use crate::step::quoted;
use crate::untrusted::Untrusted;

pub(super) fn examine(ward: &Ward<'_>, pool: &ObservedMd, findings: &mut Vec<Finding>) {
    findings.extend(degraded(ward, pool));
    members(ward, pool, findings);
    name(ward, pool, findings);
    findings.extend(upkeep(ward, pool));
}

/// The key of a member's counter.
pub(super) fn counter_name(pool: &ObservedMd, member: &MdMember) -> Option<String> {
    Some(format!("{}/{}", pool.uuid, member.disk.as_ref()?))
}

fn degraded(ward: &Ward<'_>, pool: &ObservedMd) -> Option<Finding> {
    if pool.degraded == 0 {
        return None;
    }
    let survives = pool.layout.map_or(0, |layout| layout.losses_survived(pool.wants_disks));
    if !pool.runs() {
        return Some(not_started(ward, pool, survives));
    }
    let filling = pool.sync.is_some_and(|sync| sync.action == SyncAction::Recover)
        || pool.members.iter().any(|member| member.state == MdMemberState::Recovering);
    if filling {
        let done = pool.sync.map_or(0.0, |sync| sync.done * 100.0);
        let what =
            format!("a member is being filled, {done:.0} % done; until then a copy is missing");
        let mend = format!("mdadm --wait {}", pool.path().unwrap_or_default());
        return Some(ward.finding(Code::Degraded, Severity::Attention, what, mend));
    }
    let left = survives.saturating_sub(pool.degraded);
    let mut what = format!(
        "{} of {} members are not there; {left} more may surely fail",
        pool.degraded, pool.wants_disks
    );
    if has_write_hole(pool) {
        what += "; until they are replaced a power cut may damage what lies beside what is being written";
    }
    let new = ward.new_disk(pool.member_bytes + (1 << 20));
    let mend = ward.braid("replace", &["missing", &new]);
    Some(ward.finding(Code::Degraded, Severity::Danger, what, mend))
}

/// md doesn't by itself start an array that lacks members, and a raid5 or raid6 that was being
/// written to when the power failed not even with `--run`. With force, it takes no member that
/// missed writes as long as there are enough others.
fn not_started(ward: &Ward<'_>, pool: &ObservedMd, survives: usize) -> Finding {
    let stop = match pool.path() {
        Some(path) => format!("mdadm --stop {} && ", quoted(&path)),
        None => String::new(),
    };
    let paths: Vec<String> =
        pool.members.iter().filter_map(|m| m.path.as_deref()).map(quoted).collect();
    let assemble =
        |how: &str| format!("{stop}mdadm --assemble {how} {} {}", node_of(pool), paths.join(" "));
    let lacks = format!("{} of {} members are not there", pool.degraded, pool.wants_disks);
    if pool.degraded > survives {
        let what =
            format!("the array doesn't run: {lacks}, which may be more than it can be without");
        return ward.finding(Code::TooManyLost, Severity::Lost, what, assemble("--run"));
    }
    let beside = if has_write_hole(pool) { " and what lies beside it" } else { "" };
    let what = format!(
        "the array was not started: {lacks}; if the power went while it was written to, what was just being \
         written{beside} may be damaged, so look at such files"
    );
    ward.finding(Code::Degraded, Severity::Danger, what, assemble("--force --run"))
}

/// A missing member's data is computed from the others and the parity, which a power cut may leave
/// inconsistent.
fn has_write_hole(pool: &ObservedMd) -> bool {
    matches!(pool.layout, Some(MdLayout::Raid5 | MdLayout::Raid6))
}

fn members(ward: &Ward<'_>, pool: &ObservedMd, findings: &mut Vec<Finding>) {
    let newest = pool.members.iter().filter_map(|member| member.events).max();
    for member in &pool.members {
        let Some(path) = member.path.as_deref() else { continue };
        if member.state == MdMemberState::Faulty {
            let what = format!("{path} was kicked out of the array after an error");
            let new = ward.new_disk(pool.member_bytes + (1 << 20));
            let mend = ward.braid("replace", &[path, &new]);
            findings.push(ward.finding(Code::FaultyMember, Severity::Danger, what, mend));
            continue;
        }
        // A crash between two superblock writes leaves a difference of one event.
        let behind = newest.zip(member.events).is_some_and(|(newest, own)| own + 1 < newest);
        if behind && member.state == MdMemberState::Missing {
            let what = format!("{path} missed writes and was not taken back");
            let device = pool.path().unwrap_or_default();
            let mend = format!(
                "mdadm {device} --re-add {p} || mdadm {device} --add {p}",
                p = quoted(path)
            );
            findings.push(ward.finding(Code::StaleMember, Severity::Danger, what, mend));
        }
        if member.errors == 0 {
            continue;
        }
        let rise =
            counter_name(pool, member).and_then(|name| ward.before.rise(&name, member.errors));
        findings.push(match rise {
            Some(0) | None => {
                let what = format!(
                    "{path} has had {} read errors, all mended from the others",
                    member.errors
                );
                ward.finding(Code::Errors, Severity::Attention, what, ward.scrub())
            }
            Some(rise) => {
                let what = format!("{path} has {rise} read errors more than last time");
                let new = ward.new_disk(pool.member_bytes + (1 << 20));
                ward.finding(
                    Code::RisingErrors,
                    Severity::Danger,
                    what,
                    ward.braid("replace", &[path, &new]),
                )
            }
        });
    }
}

/// The array's node, as a word of a command.
fn node_of(pool: &ObservedMd) -> String {
    quoted(&format!("/dev/md/{}", pool.short_name()))
}

/// Whether it will have this name after the next boot.
fn name(ward: &Ward<'_>, pool: &ObservedMd, findings: &mut Vec<Finding>) {
    let short = pool.short_name();
    let node = node_of(pool);
    let device = pool.path().map_or_else(|| node.clone(), |path| quoted(&path));
    let paths: Vec<String> =
        pool.members.iter().filter_map(|m| m.path.as_deref()).map(quoted).collect();
    let paths = paths.join(" ");
    let unmount: String = pool
        .carries
        .iter()
        .flat_map(|on| &on.mounts)
        .map(|mount| format!("umount {} && ", quoted(&mount.at)))
        .collect();
    let again = |update: &str| {
        format!("{unmount}mdadm --stop {device} && mdadm --assemble {node} {update} {paths}")
    };
    if pool.metadata.starts_with("0.") {
        let what = "metadata 0.90 has no name: on another host, or without its line in mdadm.conf, it comes up as md127";
        findings.push(ward.finding(
            Code::OldMetadata,
            Severity::Attention,
            what,
            again("--update=metadata"),
        ));
    } else if let Some(host) = pool.homehost().filter(|host| !is_ours(host, &ward.host.hostname)) {
        let what = format!(
            "it belongs to host {host:?}, so here it comes up as /dev/md/{}, not /dev/md/{}",
            Untrusted(pool.name.as_str()),
            Untrusted(short)
        );
        findings.push(ward.finding(
            Code::ForeignHomehost,
            Severity::Attention,
            what,
            again("--update=homehost --homehost=any"),
        ));
    }
    let conf = ward.host.mdadm_conf.as_ref();
    let file = conf.map_or("/etc/mdadm/mdadm.conf", |(file, _)| file.as_str());
    if ward.host.array_line(pool.uuid).is_none() {
        let what =
            format!("{file} doesn't name it by its UUID, so at boot it may come up as md127");
        let mut mend =
            format!("echo {} >> {}", quoted(&array_line(short, pool.uuid)), quoted(file));
        if let Some(command) = &ward.host.initramfs_command {
            mend.push_str(&format!(" && {}", command.join(" ")));
        }
        findings.push(ward.finding(Code::NotInMdadmConf, Severity::Attention, what, mend));
    }
}

/// md takes an array as local when its homehost is the host's name or `any`.
fn is_ours(homehost: &str, hostname: &str) -> bool {
    homehost == "any" || homehost == hostname || hostname.split('.').next() == Some(homehost)
}

fn upkeep(ward: &Ward<'_>, pool: &ObservedMd) -> Vec<Finding> {
    let mut findings = Vec::new();
    let redundant = pool.layout.is_some_and(|layout| layout.losses_survived(pool.wants_disks) > 0);
    if !redundant || pool.device.is_none() {
        return findings;
    }
    if pool.scrub.corrected > 0 && pool.sync.is_none() {
        let what = format!(
            "the last check found {} sectors where the copies differ, and nobody knows which is right",
            pool.scrub.corrected
        );
        let device = pool.device.as_deref().unwrap_or_default();
        let mend = format!("echo repair > /sys/block/{device}/md/sync_action");
        findings.push(ward.finding(Code::Uncorrectable, Severity::Attention, what, mend));
    }
    findings.extend(super::disk::overdue(ward, &pool.scrub));
    if !pool.bitmap {
        let what = "there is no write-intent bitmap: after a crash everything is compared again";
        let mend = format!("mdadm --grow {} --bitmap=internal", pool.path().unwrap_or_default());
        findings.push(ward.finding(Code::NoBitmap, Severity::Note, what, mend));
    }
    findings
}
