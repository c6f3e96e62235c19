//! Changes of a btrfs pool, carried out on loop devices.

mod ground;

use braid_loop_disks::in_private_mounts;
use braid_pool::disk::ErasePermission;
use braid_pool::layout::{Layout, Profile};
use braid_pool::observed::Purpose;
use braid_pool::planner::{Change, MemberName};
use ground::{Death, Ground, sh};

#[test]
fn every_layout_is_created_and_doing_it_again_changes_nothing() {
    in_private_mounts("every_layout_is_created_and_doing_it_again_changes_nothing", || {
        let layouts = [
            ("btrfs-single", Profile::Single, Profile::Raid1),
            ("btrfs-raid0", Profile::Raid0, Profile::Raid1),
            ("btrfs-raid1", Profile::Raid1, Profile::Raid1),
            ("btrfs-raid1c3", Profile::Raid1c3, Profile::Raid1c3),
            ("btrfs-raid1c4", Profile::Raid1c4, Profile::Raid1c4),
            ("btrfs-raid10", Profile::Raid10, Profile::Raid1),
        ];
        for (layout, data, metadata) in layouts {
            let ground = Ground::new(&[128; 4]);
            let plan = ground.create_plan(layout, &[0, 1, 2, 3]).unwrap();
            ground.run(plan.clone()).unwrap();
            let btrfs = ground.btrfs();
            assert_eq!(btrfs.members.len(), 4, "{layout}");
            assert_eq!(btrfs.profiles(Purpose::Data), [data], "{layout}");
            assert_eq!(btrfs.profiles(Purpose::Metadata), [metadata], "{layout}");
            assert_eq!(btrfs.label.as_deref(), Some("data"), "{layout}");
            let went = ground.run(plan).unwrap();
            assert!(went.iter().all(|step| step == "kept"), "{layout}: {went:?}");
        }
    });
}

#[test]
fn a_disk_is_added_and_used() {
    in_private_mounts("a_disk_is_added_and_used", || {
        let mut ground = Ground::new(&[512, 512]);
        ground.create("btrfs-raid1", &[0, 1]);
        let sums = write_files(&ground, 200);
        ground.plug_in_new(512);
        ground.change(&add(&ground, 2));
        let btrfs = ground.btrfs();
        let third = &btrfs.members[2];
        assert!(third.allocated_bytes > 64 << 20, "it holds {}", third.allocated_bytes);
        assert_eq!(btrfs.profiles(Purpose::Data), [Profile::Raid1]);
        assert_eq!(file_sums(&ground), sums);
    });
}

/// Its balance would end with ENOSPC before it has moved anything, were half empty chunks not
/// emptied first.
#[test]
fn a_pool_that_is_all_allocated_takes_a_disk_in() {
    in_private_mounts("a_pool_that_is_all_allocated_takes_a_disk_in", || {
        let mut ground = Ground::new(&[512, 512]);
        ground.create("btrfs-raid1", &[0, 1]);
        let at = ground.mount_point().display().to_string();
        sh(&format!(
            "i=0; while dd if=/dev/urandom of={at}/$i bs=1M count=10 status=none 2>&1; do i=$((i+1)); done; sync"
        ));
        ground.plug_in_new(512);
        let refused = ground.change_plan(&add(&ground, 2)).unwrap_err().to_string();
        assert!(refused.contains("too full") && refused.contains("delete"), "{refused}");
        // Of every chunk some.
        sh(&format!("cd {at}; for i in *; do test $((i % 4)) = 0 || rm $i; done; sync"));
        let sums = file_sums(&ground);
        ground.change(&add(&ground, 2));
        let btrfs = ground.btrfs();
        assert!(btrfs.members[2].allocated_bytes > 64 << 20, "{:?}", btrfs.members);
        assert_eq!(btrfs.profiles(Purpose::Data), [Profile::Raid1]);
        assert_eq!(file_sums(&ground), sums);
    });
}

#[test]
fn a_disk_is_removed_when_the_rest_has_room() {
    in_private_mounts("a_disk_is_removed_when_the_rest_has_room", || {
        let ground = Ground::new(&[512, 512, 512]);
        ground.create("btrfs-raid1", &[0, 1, 2]);
        let sums = write_files(&ground, 100);
        let remove = Change::Remove { member: MemberName(ground.disks[1].path().to_owned()) };
        ground.change(&remove);
        let left: Vec<u64> = ground.btrfs().members.iter().map(|member| member.devid).collect();
        assert_eq!(left, [1, 3]);
        assert_eq!(file_sums(&ground), sums);
        assert_eq!(ground.contents(1), [], "the disk is empty");
        let refused = ground.change_plan(&Change::Remove { member: MemberName("3".to_owned()) });
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("needs 2 disks"), "{refused}");
    });
}

#[test]
fn what_would_not_fit_is_refused_before() {
    in_private_mounts("what_would_not_fit_is_refused_before", || {
        let ground = Ground::new(&[512, 256, 256]);
        ground.create("btrfs-raid1", &[0, 1, 2]);
        sh(&format!("fallocate -l 300M {}/big", ground.mount_point().display()));
        let refused = ground.change_plan(&Change::Remove { member: MemberName("1".to_owned()) });
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("needs") && refused.contains("free"), "{refused}");
    });
}

#[test]
fn a_vanished_disk_is_replaced_and_nothing_stays_with_one_copy() {
    in_private_mounts("a_vanished_disk_is_replaced_and_nothing_stays_with_one_copy", || {
        let mut ground = Ground::new(&[512, 512]);
        ground.create("btrfs-raid1", &[0, 1]);
        let sums = write_files(&ground, 50);
        ground.unmount();
        let gone = ground.disks.pop().unwrap();
        sh(&format!("btrfs device scan --forget {}", gone.path()));
        drop(gone);
        let (survivor, at) = (ground.disks[0].path().to_owned(), ground.mount_point());
        sh(&format!("mount -o degraded {survivor} {}", at.display()));
        // What is written now is there once only.
        sh(&format!("dd if=/dev/urandom of={}/late bs=1M count=120 conv=fsync", at.display()));
        assert!(ground.btrfs().profiles(Purpose::Data).contains(&Profile::Single), "the trap");
        ground.plug_in_new(640);
        let by = Box::new(ground.disk(1));
        let member = MemberName("missing".to_owned());
        ground.change(&Change::Replace {
            member,
            by,
            lent: None,
            erase: ErasePermission::default(),
        });
        let btrfs = ground.btrfs();
        for purpose in [Purpose::Data, Purpose::Metadata, Purpose::System] {
            assert_eq!(btrfs.profiles(purpose), [Profile::Raid1], "{purpose:?}");
        }
        assert_eq!(btrfs.missing().count(), 0);
        let new = btrfs.members.iter().find(|m| m.path.as_deref() == Some(ground.disks[1].path()));
        assert!(new.unwrap().size_bytes > 630 << 20, "the larger disk is used whole");
        let mut all = file_sums(&ground);
        all.retain(|line| !line.ends_with("late"));
        assert_eq!(all, sums);
        assert!(sh(&format!("btrfs scrub start -B {}", at.display())).contains("no errors found"));
    });
}

#[test]
fn layouts_are_converted() {
    in_private_mounts("layouts_are_converted", || {
        let ground = Ground::new(&[8192; 3]);
        ground.create("btrfs-single", &[0, 1, 2]);
        let sums = write_files(&ground, 50);
        for (name, data) in [("btrfs-raid1", Profile::Raid1), ("btrfs-raid1c3", Profile::Raid1c3)] {
            let to: Layout = name.parse().unwrap();
            let convert = Change::Convert {
                to,
                accept_unstable: false,
                disks: Vec::new(),
                erase: ErasePermission::default(),
            };
            ground.change(&convert);
            assert_eq!(ground.btrfs().profiles(Purpose::Data), [data]);
            assert_eq!(file_sums(&ground), sums);
            assert!(ground.change_plan(&convert).unwrap().is_empty(), "done twice is done once");
        }
    });
}

#[test]
fn rebalancing_gives_back_what_deleted_files_held() {
    in_private_mounts("rebalancing_gives_back_what_deleted_files_held", || {
        let ground = Ground::new(&[768; 2]);
        ground.create("btrfs-raid1", &[0, 1]);
        write_files(&ground, 400);
        let at = ground.mount_point().display().to_string();
        // Of each chunk a little stays.
        sh(&format!("cd {at} && ls | awk 'NR % 10' | xargs rm && sync -f ."));
        let before = ground.btrfs().members[0].allocated_bytes;
        let sums = file_sums(&ground);
        ground.change(&Change::Rebalance);
        let after = ground.btrfs().members[0].allocated_bytes;
        assert!(after < before, "{after} of {before} bytes are still allocated");
        assert_eq!(file_sums(&ground), sums);
    });
}

#[test]
fn a_balance_outlives_its_killed_parent_and_is_followed() {
    in_private_mounts("a_balance_outlives_its_killed_parent_and_is_followed", || {
        let (ground, sums) = killed_in_a_long_operation(|ground| add(ground, 2));
        ground.resume().unwrap();
        let btrfs = ground.btrfs();
        assert!(btrfs.members[2].allocated_bytes > 64 << 20);
        assert_eq!(btrfs.exclusive_operation, braid_pool::observed::ExclusiveOperation::None);
        assert_eq!(file_sums(&ground), sums);
    });
}

#[test]
fn adding_is_abandoned_in_the_middle_of_its_balance() {
    in_private_mounts("adding_is_abandoned_in_the_middle_of_its_balance", || {
        let (ground, sums) = killed_in_a_long_operation(|ground| add(ground, 2));
        assert_eq!(ground.abandon().unwrap(), []);
        assert_eq!(ground.btrfs().members.len(), 2);
        assert_eq!(ground.contents(2), []);
        assert_eq!(file_sums(&ground), sums);
    });
}

#[test]
fn a_replace_is_followed_after_its_parent_was_killed() {
    in_private_mounts("a_replace_is_followed_after_its_parent_was_killed", || {
        let (ground, sums) = killed_in_a_long_operation(|ground| Change::Replace {
            member: MemberName(ground.disks[0].path().to_owned()),
            by: Box::new(ground.disk(2)),
            lent: None,
            erase: ErasePermission::default(),
        });
        ground.resume().unwrap();
        let paths: Vec<_> = ground.btrfs().members.into_iter().map(|m| m.path.unwrap()).collect();
        let wanted: Vec<_> =
            [2, 1].map(|index: usize| ground.disks[index].path().to_owned()).into();
        assert_eq!(paths, wanted);
        assert_eq!(file_sums(&ground), sums);
    });
}

/// A raid1 with files and a further disk, on which a change was killed as soon as it took long.
fn killed_in_a_long_operation(change: impl FnOnce(&Ground) -> Change) -> (Ground, Vec<String>) {
    let mut ground = Ground::new(&[1024, 1024]);
    ground.create("btrfs-raid1", &[0, 1]);
    let sums = write_files(&ground, 500);
    ground.plug_in_new(1024);
    let plan = ground.change_plan(&change(&ground)).unwrap();
    assert!(ground.run_killed(&plan, Death::WhenUnderWay), "nothing took long");
    (ground, sums)
}

fn add(ground: &Ground, index: usize) -> Change {
    Change::Add { disks: vec![ground.disk(index)], erase: ErasePermission::default() }
}

/// Writes so many files of a MiB and says what is in them.
fn write_files(ground: &Ground, count: u32) -> Vec<String> {
    let at = ground.mount_point().display().to_string();
    sh(&format!(
        "cd {at} && dd if=/dev/urandom bs=1M count={count} status=none | split -b 1M -a 4 - file && sync -f ."
    ));
    file_sums(ground)
}

fn file_sums(ground: &Ground) -> Vec<String> {
    sh(&format!("cd {} && sha256sum *", ground.mount_point().display()))
        .lines()
        .map(str::to_owned)
        .collect()
}
