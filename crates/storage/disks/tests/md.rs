//! md arrays as recorded from a kernel (Linux 6.1, mdadm 4.2): trees of sysfs in
//! `fixtures/md/NAME.tree`, members' superblocks beside them.

mod recorded;

use braid_disks::{HostRoot, Inventory, md, superblock};
use braid_pool::disk::{Content, Family};
use braid_pool::layout::MdLayout;
use braid_pool::observed::{MdMemberState, ObservedMd, SyncAction};
use recorded::Recorded;
use std::time::Duration;

/// The uuid in mdadm's form of the array that the `raid1-…` trees show.
const MIRROR: &str = "0c350921:57149c19:8016e965:9a6a160a";

fn observe(tree: &str) -> ObservedMd {
    let recorded = Recorded::md(tree);
    one(md::observe(&recorded.host, &Inventory::default()))
}

fn one(mut arrays: Vec<ObservedMd>) -> ObservedMd {
    assert_eq!(arrays.len(), 1, "{arrays:#?}");
    arrays.remove(0)
}

fn states(array: &ObservedMd) -> Vec<MdMemberState> {
    array.members.iter().map(|member| member.state).collect()
}

#[test]
fn a_healthy_mirror() {
    let array = observe("raid1-clean");
    assert_eq!(array.uuid.in_mdadm_form(), MIRROR);
    assert_eq!(array.device.as_deref(), Some("md127"));
    assert_eq!(array.layout, Some(MdLayout::Raid1));
    assert_eq!((array.wants_disks, array.degraded), (2, 0));
    assert_eq!(array.metadata, "1.2");
    assert_eq!(states(&array), [MdMemberState::InSync; 2]);
    assert_eq!(array.members[0].path.as_deref(), Some("/dev/ubda"));
    assert_eq!(array.member_bytes, 64_512 << 10);
    assert_eq!(array.sync, None);
    assert!(!array.bitmap);
}

#[test]
fn the_name_comes_from_a_members_superblock() {
    let recorded = Recorded::md("raid1-clean");
    recorded.device("ubda", 64 << 20, &[(4096, "sb12-a.bin")]);
    let array = one(md::observe(&recorded.host, &Inventory::default()));
    assert_eq!((array.name.as_str(), array.short_name()), ("alpha:mirror", "mirror"));
    assert!(array.members[0].events.is_some());
}

#[test]
fn a_faulty_member_counts_once_though_it_has_lost_its_place() {
    let array = observe("raid1-faulty");
    assert_eq!(array.degraded, 1);
    assert_eq!(states(&array), [MdMemberState::InSync, MdMemberState::Faulty]);
}

#[test]
fn a_removed_member_leaves_its_place_empty() {
    let array = observe("raid1-removed");
    assert_eq!(states(&array), [MdMemberState::InSync, MdMemberState::Missing]);
    assert_eq!((array.members[1].slot, array.members[1].path.clone()), (Some(1), None));
}

#[test]
fn a_member_that_is_filled_is_no_spare() {
    let array = observe("raid1-rebuilding");
    assert_eq!(states(&array), [MdMemberState::InSync, MdMemberState::Recovering]);
    let sync = array.sync.unwrap();
    assert_eq!((sync.action, sync.done), (SyncAction::Recover, 0.0));
    assert_eq!(sync.bytes_per_sec, Some(186 * 1024));
}

#[test]
fn a_check_is_a_scrub_that_runs() {
    let array = observe("raid1-check");
    assert_eq!(array.sync.unwrap().action, SyncAction::Check);
    assert!(array.scrub.running);
    assert_eq!(array.scrub.ended_ago, None);
}

#[test]
fn a_spare_and_a_bitmap_are_seen() {
    let array = observe("raid1-spare-bitmap");
    assert!(array.bitmap);
    assert_eq!(
        states(&array),
        [MdMemberState::InSync, MdMemberState::InSync, MdMemberState::Spare]
    );
}

#[test]
fn levels_and_layouts() {
    for (tree, layout, disks, degraded) in [
        ("raid10-n2", MdLayout::NEAR2, 4, 0),
        ("raid10-f2", MdLayout::FAR2, 4, 0),
        ("raid10-o2", MdLayout::OFFSET2, 4, 0),
        ("raid5-degraded", MdLayout::Raid5, 3, 1),
        ("raid0", MdLayout::Raid0, 2, 0),
    ] {
        let array = observe(tree);
        assert_eq!(array.layout, Some(layout), "{tree}");
        assert_eq!((array.wants_disks, array.degraded), (disks, degraded), "{tree}");
        assert_eq!(array.members.len(), disks, "{tree}");
    }
}

/// sysfs shows 59f6e23a-c264-…, the same bytes otherwise ordered.
#[test]
fn the_uuid_of_metadata_0_90_is_mdadms_with_and_without_a_superblock() {
    let recorded = Recorded::md("raid1-090");
    let expected = "3ae2f659:163f64c2:1b3376be:99c3df95";
    let without = one(md::observe(&recorded.host, &Inventory::default()));
    assert_eq!(without.uuid.in_mdadm_form(), expected);
    recorded.device("ubda", 64 << 20, &[((64 << 20) - (64 << 10), "sb090.bin")]);
    let with = one(md::observe(&recorded.host, &Inventory::default()));
    assert_eq!(with.uuid.in_mdadm_form(), expected);
    assert_eq!((with.metadata.as_str(), with.name.as_str()), ("0.90", ""));
    // Only this host calls it something.
    let device = with.device.unwrap();
    let names = recorded.host.path("dev/md");
    std::fs::create_dir_all(&names).unwrap();
    for name in ["0_0", "md127", "old"] {
        std::os::unix::fs::symlink(format!("../{device}"), names.join(name)).unwrap();
    }
    let named = one(md::observe(&recorded.host, &Inventory::default()));
    assert_eq!(named.short_name(), "old");
}

#[test]
fn every_version_of_the_superblock_is_found_where_it_lies() {
    const SIZE: u64 = 64 << 20;
    for (file, at, version, name) in [
        ("sb12-raid10f2.bin", 4096, "1.2", "alpha:tenf2"),
        ("sb11.bin", 0, "1.1", "alpha:v1.1"),
        ("sb10.bin", SIZE - 8192, "1.0", "alpha:v1.0"),
        ("sb090.bin", SIZE - (64 << 10), "0.90", ""),
    ] {
        let recorded = Recorded::empty();
        let path = recorded.device("ubda", SIZE, &[(at, file)]);
        let found = superblock::md::read(&path, SIZE).unwrap().unwrap();
        assert_eq!((found.version, found.name.as_str()), (version, name));
        assert_eq!(found.role, superblock::md::Role::Active(0), "{file}");
        // The same bytes elsewhere are no superblock of this device.
        let moved = recorded.device("moved", SIZE + (1 << 20), &[(at + 4096, file)]);
        assert_eq!(superblock::md::read(&moved, SIZE + (1 << 20)).unwrap(), None, "{file}");
    }
}

#[test]
fn an_array_that_could_not_start_is_told_by_its_superblocks() {
    let recorded = Recorded::md("raid1-inactive");
    recorded.device("ubda", 64 << 20, &[(4096, "sb12-a.bin")]);
    let inventory = Inventory::take(&recorded.host, braid_disks::AskSmart::No);
    let disk = inventory.by_path("/dev/ubda").unwrap();
    let is_member = |content: &Content| {
        matches!(content, Content::Member { family: Family::Md, name: Some(name), .. }
            if name == "alpha:mirror")
    };
    assert!(disk.contents.iter().any(is_member), "{:?}", disk.contents);
    assert!(disk.contents.contains(&Content::Holder { device: "md125".to_owned() }));
    let array = one(md::observe(&recorded.host, &inventory));
    assert_eq!(array.uuid.in_mdadm_form(), MIRROR);
    assert_eq!((array.wants_disks, array.degraded), (2, 1));
    assert_eq!((array.device.as_deref(), array.size_bytes), (Some("md125"), 0));
    assert_eq!(states(&array), [MdMemberState::InSync, MdMemberState::Missing]);
}

#[test]
fn when_an_array_was_checked_is_remembered() {
    let recorded = Recorded::md("raid1-clean");
    let array = observe("raid1-clean");
    let mut log = braid_disks::scrub_log::ScrubLog::read(&recorded.host, array.uuid);
    assert_eq!(log.ended_ago(), None);
    log.start();
    log.end();
    log.write(&recorded.host, array.uuid).unwrap();
    let again = one(md::observe(&recorded.host, &Inventory::default()));
    assert!(again.scrub.ended_ago.unwrap() < Duration::from_secs(60));
}

#[test]
fn nothing_of_md_is_nothing() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(md::observe(&HostRoot::at(dir.path()), &Inventory::default()), []);
}
