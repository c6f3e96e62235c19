use super::*;
use crate::disk::{Content, Health, Partition};
use crate::fixture::{GB, btrfs, disk, md};
use crate::layout::{MdLayout, Profile};
use crate::observed::{
    BtrfsErrors, DriveTimeout, ExclusiveOperation, MdMemberState, MemberFault, ObservedBtrfs,
    ObservedMd, Purpose, SpaceUse, Sync, SyncAction,
};

const DAY: Duration = Duration::from_secs(24 * 3600);

/// A host, its disks and one pool of each engine, with nothing to find.
struct Case {
    btrfs: ObservedBtrfs,
    md: ObservedMd,
    disks: Vec<Disk>,
    host: ObservedHost,
    before: Baseline,
}

fn well() -> Case {
    let mut btrfs = btrfs(Profile::Raid1, Profile::Raid1, "bc", 500 * GB, 100 * GB);
    let mut md = md(MdLayout::NEAR2, "de", 500 * GB);
    btrfs.scrub.ended_ago = Some(DAY);
    md.scrub.ended_ago = Some(DAY);
    md.name = "any:fast".into();
    let host = ObservedHost {
        hostname: "alpha.example".into(),
        mdadm_conf: Some(("/etc/mdadm/mdadm.conf".into(), array_line_of(&md))),
        initramfs_stale: Some(false),
        initramfs_command: Some(vec!["update-initramfs".into(), "-u".into()]),
        btrfs_progs: Some((6, 2)),
        send_stream_version: Some(2),
        timeouts: "bcde".chars().map(|letter| drive(letter, Some(7), 30)).collect(),
        ..ObservedHost::default()
    };
    let in_use = |letter| Disk {
        contents: vec![Content::Mounted { at: "/srv/data".into() }],
        ..disk(letter, 500 * GB)
    };
    let disks = "bcde".chars().map(in_use).collect();
    Case { btrfs, md, disks, host, before: Baseline::default() }
}

fn array_line_of(md: &ObservedMd) -> String {
    crate::planner::array_line("fast", md.uuid)
}

fn drive(letter: char, recovery: Option<u64>, driver: u64) -> DriveTimeout {
    DriveTimeout {
        disk: format!("/dev/sd{letter}"),
        error_recovery: recovery.map(Duration::from_secs),
        can_limit: true,
        driver_timeout: Duration::from_secs(driver),
    }
}

fn findings(case: &Case) -> Vec<Finding> {
    let pools = [ObservedPool::Btrfs(case.btrfs.clone()), ObservedPool::Md(case.md.clone())];
    examine(&pools, &case.disks, &case.host, &case.before, Limits::default())
}

/// The one finding after this change; its command.
fn only(code: Code, severity: Severity, change: impl FnOnce(&mut Case)) -> String {
    let mut case = well();
    change(&mut case);
    let found = findings(&case);
    let [finding] = found.as_slice() else { panic!("{code:?}: {found:#?}") };
    assert_eq!((finding.code, finding.severity), (code, severity), "{finding:?}");
    assert!(!finding.what.is_empty());
    finding.mend.clone()
}

#[test]
fn what_is_well_has_no_findings() {
    assert_eq!(findings(&well()), []);
}

#[test]
fn a_missing_btrfs_member_is_replaced_by_number_with_a_free_disk_if_there_is_one() {
    let lose = |case: &mut Case| {
        case.btrfs.members[1].missing = true;
        case.btrfs.members[1].path = None;
    };
    let mend = only(Code::MissingMember, Severity::Danger, lose);
    assert_eq!(mend, "braid pool replace data 2 NEW");
    let mend = only(Code::MissingMember, Severity::Danger, |case| {
        lose(case);
        case.disks.extend([disk('y', 100 * GB), disk('z', 600 * GB)]);
    });
    assert_eq!(mend, "braid pool replace data 2 /dev/disk/by-id/ata-Sz");
    let mend = only(Code::TooManyLost, Severity::Lost, |case| {
        case.btrfs.members.iter_mut().for_each(|member| member.missing = true);
        case.btrfs.mounts.clear();
    });
    assert!(!mend.is_empty());
}

#[test]
fn a_degraded_array_and_its_members() {
    let mend = only(Code::Degraded, Severity::Danger, |case| {
        case.md.degraded = 1;
        case.md.members.truncate(1);
    });
    assert_eq!(mend, "braid pool replace fast missing NEW");
    let mend = only(Code::Degraded, Severity::Attention, |case| {
        case.md.degraded = 1;
        case.md.members[1].state = MdMemberState::Recovering;
        case.md.sync = Some(Sync { action: SyncAction::Recover, done: 0.4, bytes_per_sec: None });
    });
    assert_eq!(mend, "mdadm --wait /dev/md127");
    let mend = only(Code::FaultyMember, Severity::Danger, |case| {
        case.md.members[1].state = MdMemberState::Faulty;
    });
    assert_eq!(mend, "braid pool replace fast /dev/sde NEW");
    let mend = only(Code::StaleMember, Severity::Danger, |case| {
        case.md.members[1].state = MdMemberState::Missing;
        case.md.members[1].events = Some(1);
    });
    assert!(mend.starts_with("mdadm /dev/md127 --re-add /dev/sde"), "{mend}");
}

#[test]
fn counters_that_rise_are_worse_than_those_that_stand() {
    let err = |case: &mut Case| {
        case.btrfs.members[0].errors = BtrfsErrors { corruption: 3, ..Default::default() };
        case.md.members[0].errors = 0;
    };
    let mend = only(Code::Errors, Severity::Attention, err);
    assert_eq!(
        mend,
        "braid pool scrub start --wait data || test $? = 10 && btrfs device stats --reset /srv/data"
    );
    let standing = |before: u64| {
        move |case: &mut Case| {
            let mut old = case.btrfs.clone();
            old.members[0].errors.corruption = before;
            case.before = Baseline::of(&[ObservedPool::Btrfs(old)]);
            case.btrfs.members[0].errors.corruption = 3;
        }
    };
    only(Code::Errors, Severity::Attention, standing(3));
    let mend = only(Code::RisingErrors, Severity::Danger, standing(1));
    assert_eq!(mend, "braid pool replace data 1 NEW");
    only(Code::RisingErrors, Severity::Danger, |case| {
        case.before = Baseline::of(&[ObservedPool::Md(case.md.clone())]);
        case.md.members[0].errors = 2;
    });
}

#[test]
fn a_dead_member_is_replaced_and_its_errors_are_nobodys_lost_files() {
    let die = |fault| {
        move |case: &mut Case| {
            let dead = &mut case.btrfs.members[1];
            (dead.missing, dead.fault) = (true, Some(fault));
            dead.errors = BtrfsErrors { write: 346_334, ..Default::default() };
            // What a scrub then says.
            dead.uncorrectable = 247;
            case.btrfs.scrub.uncorrectable = 247;
        }
    };
    for fault in [MemberFault::NoSize, MemberFault::NoAnswer] {
        let mend = only(Code::DeadMember, Severity::Danger, die(fault));
        assert_eq!(mend, "braid pool replace data 2 NEW");
    }
    let mend = only(Code::UnreadableSuperblock, Severity::Danger, |case| {
        case.btrfs.members[1].fault = Some(MemberFault::SuperblockUnreadable);
    });
    assert_eq!(mend, "braid pool replace data 2 NEW");
}

#[test]
fn what_a_member_refused_to_write_is_a_danger_and_a_scrub_that_can_not_mend_it_leads_on() {
    let refuse = |case: &mut Case| {
        case.btrfs.members[0].errors = BtrfsErrors { flush: 1, ..Default::default() };
    };
    let mend = only(Code::Errors, Severity::Danger, refuse);
    assert!(mend.starts_with("braid pool scrub start"), "{mend}");
    let mut case = well();
    refuse(&mut case);
    case.btrfs.members[0].uncorrectable = 3;
    case.btrfs.scrub.uncorrectable = 3;
    let found = findings(&case);
    let led = found.iter().find(|finding| finding.code == Code::Uncorrectable).unwrap();
    assert_eq!(led.mend, "braid pool replace data 1 NEW", "{found:?}");
    assert!(!led.what.contains("restore"), "{}", led.what);
    // A new disk has its number, and no counts.
    let mend = only(Code::Uncorrectable, Severity::Attention, |case| {
        case.btrfs.members[0].uncorrectable = 3;
        case.btrfs.scrub.uncorrectable = 3;
    });
    assert_eq!(mend, "braid pool scrub start --wait data");
    // On both sides of a mirror: that is lost.
    let mend = only(Code::Uncorrectable, Severity::Danger, |case| {
        case.btrfs.members.iter_mut().for_each(|member| member.uncorrectable = 3);
        case.btrfs.scrub.uncorrectable = 6;
    });
    assert!(mend.starts_with("journalctl"), "{mend}");
}

#[test]
fn chunks_of_other_profiles() {
    let extra = |profile| {
        move |case: &mut Case| {
            let (total_bytes, used_bytes) = (1 << 30, 5);
            case.btrfs.space.push(SpaceUse {
                purpose: Purpose::Data,
                profile,
                total_bytes,
                used_bytes,
            });
        }
    };
    let mend = only(Code::LeftoverSingle, Severity::Danger, extra(Profile::Single));
    assert_eq!(mend, "braid pool convert data --layout btrfs-raid1");
    only(Code::MixedProfiles, Severity::Attention, extra(Profile::Raid10));
    only(Code::WeakMetadata, Severity::Danger, |case| case.btrfs.space[1].profile = Profile::Dup);
}

#[test]
fn little_unallocated_is_mended_by_a_rebalance_or_by_a_disk() {
    let full = |slack: u64| {
        move |case: &mut Case| {
            for member in &mut case.btrfs.members {
                member.allocated_bytes = member.size_bytes;
            }
            case.btrfs.space[0].total_bytes = case.btrfs.space[0].used_bytes + slack;
        }
    };
    let mend = only(Code::LowUnallocated, Severity::Attention, full(100 * GB));
    assert_eq!(mend, "braid pool rebalance data");
    let mend = only(Code::LowUnallocated, Severity::Attention, full(GB));
    // One disk alone would have no room beside it for a second copy.
    assert_eq!(mend, "braid pool add data NEW NEW");
    // What is too small for a chunk is no help.
    let beside_a_small_one = |case: &mut Case| {
        full(GB)(case);
        case.disks.push(Disk { size_bytes: 1 << 20, ..disk('f', GB) });
    };
    let mend = only(Code::LowUnallocated, Severity::Attention, beside_a_small_one);
    assert_eq!(mend, "braid pool add data NEW NEW");
    let with_one = |case: &mut Case| {
        full(GB)(case);
        case.btrfs.members[0].allocated_bytes = 0;
    };
    let mend = only(Code::LowUnallocated, Severity::Attention, with_one);
    assert_eq!(mend, "braid pool add data NEW");
}

#[test]
fn scrubs_and_what_they_found() {
    let mend = only(Code::ScrubOverdue, Severity::Attention, |c| c.btrfs.scrub.ended_ago = None);
    assert_eq!(mend, "braid pool scrub start --wait data");
    let aged = |days: u32| {
        move |case: &mut Case| {
            (case.btrfs.scrub.ended_ago, case.btrfs.scrub.pool_age) = (None, Some(DAY * days));
        }
    };
    only(Code::ScrubOverdue, Severity::Note, aged(1));
    only(Code::ScrubOverdue, Severity::Attention, aged(60));
    only(Code::ScrubOverdue, Severity::Attention, |c| c.md.scrub.ended_ago = Some(DAY * 60));
    only(Code::Uncorrectable, Severity::Danger, |c| c.btrfs.scrub.uncorrectable = 1);
    only(Code::Uncorrectable, Severity::Attention, |c| c.md.scrub.corrected = 8);
}

#[test]
fn a_pool_that_fstab_mounts_and_nobody_has_mounted_is_a_danger() {
    let unmount = |case: &mut Case| {
        case.host.fstab = format!("UUID={} /srv/data btrfs noatime 0 0\n", case.btrfs.uuid);
        case.btrfs.mounts.clear();
        case.btrfs.space.clear();
        // The array's filesystem has the same UUID here.
        case.md.carries = None;
    };
    let mend = only(Code::NotMounted, Severity::Danger, unmount);
    assert_eq!(mend, "mount /srv/data");
}

#[test]
fn a_name_that_would_be_an_option_or_means_several_is_a_uuid_in_commands() {
    let uuid = well().btrfs.uuid;
    let mend = only(Code::ScrubOverdue, Severity::Attention, |case| {
        case.btrfs.label = Some("--help".into());
        case.btrfs.scrub.ended_ago = None;
    });
    assert_eq!(mend, format!("braid pool scrub start --wait {uuid}"));
    let mend = only(Code::ScrubOverdue, Severity::Attention, |case| {
        case.btrfs.label = Some("fast".into());
        case.btrfs.scrub.ended_ago = None;
    });
    assert_eq!(mend, format!("braid pool scrub start --wait {uuid}"));
}

#[test]
fn habits_that_hurt() {
    let mend = only(Code::Quotas, Severity::Attention, |case| case.btrfs.quotas = true);
    assert_eq!(mend, "btrfs quota disable /srv/data");
    let mend = only(Code::Nodatacow, Severity::Danger, |case| {
        case.btrfs.nodatacow = vec!["/srv/data/my db".into()];
    });
    assert!(mend.contains("mv '/srv/data/my db' '/srv/data/my db.nocow'"), "{mend}");
    let mend = only(Code::Nodatacow, Severity::Danger, |case| {
        case.btrfs.nodatacow = vec!["/srv/data".into()];
        case.btrfs.mounts[0].options.push("nodatacow".into());
    });
    assert_eq!(mend, "mount -o remount,datacow /srv/data");
    only(Code::DegradedOption, Severity::Attention, |case| {
        case.btrfs.mounts[0].options.push("degraded".into());
    });
    only(Code::DegradedOption, Severity::Danger, |case| {
        case.host.fstab = "UUID=x /srv/data btrfs noatime,degraded 0 0".into();
    });
    let mend = only(Code::DegradedOption, Severity::Danger, |case| {
        case.host.fstab = r"UUID=x /srv/my\040data.1 btrfs noatime,degraded 0 0".into();
        case.btrfs.mounts[0].at = "/srv/my data.1".into();
    });
    assert_eq!(
        mend,
        r"sed -i '\|[[:space:]]/srv/my\\040data\.1[[:space:]]|s/,degraded\|degraded,//' /etc/fstab"
    );
    only(Code::ReadOnly, Severity::Danger, |case| {
        case.host.fstab = "UUID=x /srv/data btrfs noatime 0 0".into();
        case.btrfs.mounts[0].options = vec!["ro".into()];
    });
    only(Code::ReadOnly, Severity::Danger, |case| {
        case.host.fstab = r"UUID=x /srv/my\040data btrfs noatime 0 0".into();
        case.btrfs.mounts[0].at = "/srv/my data".into();
        case.btrfs.mounts[0].options = vec!["ro".into()];
    });
    only(Code::Paused, Severity::Attention, |case| {
        case.btrfs.exclusive_operation = ExclusiveOperation::BalancePaused;
    });
    only(Code::NoBitmap, Severity::Note, |case| case.md.bitmap = false);
}

#[test]
fn arrays_that_will_be_renamed() {
    let mend = only(Code::NotInMdadmConf, Severity::Attention, |case| {
        case.host.mdadm_conf = Some(("/etc/mdadm/mdadm.conf".into(), "# ARRAY\n".into()));
    });
    let line = array_line_of(&well().md);
    assert_eq!(mend, format!("echo '{line}' >> /etc/mdadm/mdadm.conf && update-initramfs -u"));
    let mend = only(Code::ForeignHomehost, Severity::Attention, |c| c.md.name = "beta:fast".into());
    assert_eq!(
        mend,
        "umount /srv/data && mdadm --stop /dev/md127 && mdadm --assemble /dev/md/fast --update=homehost \
         --homehost=any /dev/sdd /dev/sde"
    );
    for own in ["alpha:fast", "any:fast"] {
        let mut case = well();
        case.md.name = own.into();
        assert_eq!(findings(&case), [], "{own}");
    }
    only(Code::OldMetadata, Severity::Attention, |c| c.md.metadata = "0.90".into());
    let mend = only(Code::StaleInitramfs, Severity::Attention, |c| {
        c.host.initramfs_stale = Some(true);
    });
    assert_eq!(mend, "update-initramfs -u");
}

#[test]
fn disks_below() {
    let part = |case: &mut Case, index: usize, letter: char, start_bytes: u64| {
        let number = index as u32 + 1;
        case.disks[index].partition =
            Some(Partition { disk: format!("/dev/sd{letter}"), number, start_bytes });
        case.btrfs.members[index].disk = Some(case.disks[index].id());
    };
    let mend = only(Code::SamePhysicalDisk, Severity::Danger, |case| {
        part(case, 0, 'b', 1 << 20);
        part(case, 1, 'b', 250 << 30);
    });
    assert_eq!(mend, "braid pool replace data /dev/sdc NEW");
    only(Code::Misaligned, Severity::Attention, |case| part(case, 0, 'b', 63 * 512));
    only(Code::FailingDisk, Severity::Danger, |case| {
        case.disks[0].health = Health::Failing { why: "SMART failed".into() };
    });
    let mend =
        only(Code::Timeout, Severity::Attention, |c| c.host.timeouts[0] = drive('b', None, 30));
    assert_eq!(mend, "smartctl -l scterc,70,70 /dev/sdb");
    let mend = only(Code::Timeout, Severity::Attention, |case| {
        case.host.timeouts[0] = DriveTimeout { can_limit: false, ..drive('b', None, 30) };
    });
    assert_eq!(mend, "echo 181 > /sys/block/sdb/device/timeout");
}

#[test]
fn old_tools() {
    only(Code::OldBtrfsProgs, Severity::Note, |case| case.host.btrfs_progs = Some((5, 16)));
}

#[test]
fn the_worst_comes_first() {
    let mut case = well();
    case.btrfs.quotas = true;
    case.host.btrfs_progs = Some((5, 16));
    case.md.members[1].state = MdMemberState::Faulty;
    let found = findings(&case);
    let severities: Vec<Severity> = found.iter().map(|finding| finding.severity).collect();
    assert_eq!(severities, [Severity::Danger, Severity::Attention, Severity::Note]);
}

#[test]
fn an_array_with_parity_that_lacks_a_member_has_a_write_hole() {
    let told = |layout| {
        let mut case = well();
        (case.md.layout, case.md.degraded) = (Some(layout), 1);
        let ward = Ward {
            word: "any".into(),
            pool: "fast".into(),
            disks: &case.disks,
            host: &case.host,
            before: &case.before,
            limits: Limits::default(),
        };
        let mut findings = Vec::new();
        md::examine(&ward, &case.md, &mut findings);
        findings.iter().any(|finding| finding.what.contains("beside what is being written"))
    };
    assert!(told(MdLayout::Raid5) && told(MdLayout::Raid6) && !told(MdLayout::Raid1));
}

#[test]
fn an_interrupted_replication_is_told_at_either_end() {
    let words = ["--newest", "/data/my snapshots", "nas:/backup"].map(str::to_owned);
    let mut replication = UnfinishedReplication {
        pool: Some("data"),
        from: "/data/my snapshots",
        to: "nas:/backup",
        words: &words,
        ordered_on: None,
        here: "/data/my snapshots",
        half: None,
    };
    let finding = replication.finding();
    assert_eq!(finding.mend, "braid pool replicate --newest '/data/my snapshots' nas:/backup");
    assert!(finding.what.ends_with("every replica that has its name is complete"));
    assert!(
        finding.what.contains("braid pool replicate --forget nas:/backup)"),
        "{}",
        finding.what
    );

    replication.ordered_on = Some("alpha; rm\nx");
    replication.half = Some(HalfReceived { name: "data.1", folder: "/backup", bytes: 12_000_000 });
    let finding = replication.finding();
    assert!(finding.mend.ends_with(" nas:/backup  # on alpharmx"), "{}", finding.mend);
    assert!(finding.what.contains("--forget '/data/my snapshots')"), "{}", finding.what);
    assert!(finding.what.ends_with("of data.1 12MB are in /backup, and it goes on from there"));
}
