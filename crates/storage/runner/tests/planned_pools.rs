//! The planner's plans for every layout and change, carried out on a simulated host: they reach
//! what was wished, also when the runner is killed at any moment; abandoned, they leave what was
//! before.

mod simulated_pools;

use braid_pool::disk::{Content, Disk, ErasePermission};
use braid_pool::layout::{Layout, MdFilesystem, MdLayout, Profile};
use braid_pool::mount_options::MountOptions;
use braid_pool::observed::{ObservedPool, Purpose};
use braid_pool::planner::{self, Change, MemberName, NewPool};
use braid_pool::step::{Plan, Undo};
use braid_pool::uuid::Uuid;
use braid_runner::journal::Log;
use braid_runner::simulated::{Fate, SimulatedLog};
use braid_runner::{abandon, run};
use simulated_pools::World;

const LETTERS: &str = "bcdefg";

/// Runs the plan whole, then killed at every third moment and resumed, or abandoned. Gives the
/// world after it.
fn carry_out(before: &World, plan: &Plan) -> World {
    let fate = Fate::default();
    let mut whole = before.with_fate(&fate);
    let mut log = SimulatedLog::begin(plan.clone(), &fate);
    run(&mut log, &mut whole, &mut |_| {})
        .unwrap_or_else(|error| panic!("{}: {error}", plan.title));
    let moments = fate.passed();
    // Which third differs from plan to plan; those of the same kind have the same moments.
    for moment in (plan.to_string().len() as u32 % 3..moments).step_by(3) {
        let fate = Fate::dies_after(moment);
        let mut world = before.with_fate(&fate);
        let mut log = SimulatedLog::begin(plan.clone(), &fate);
        assert!(run(&mut log, &mut world, &mut |_| {}).is_err(), "{} at {moment}", plan.title);
        let about = |error: &dyn std::fmt::Display| format!("{} at {moment}: {error}", plan.title);

        let again = Fate::default();
        let mut resumed = world.with_fate(&again);
        let mut its_log = log.reopen().unwrap().with_fate(&again);
        if its_log.record().ended {
            assert_eq!(resumed.state(), whole.state(), "{} at {moment}", plan.title);
            continue;
        }
        run(&mut its_log, &mut resumed, &mut |_| {}).unwrap_or_else(|e| panic!("{}", about(&e)));
        assert_eq!(resumed.state(), whole.state(), "{} resumed at {moment}", plan.title);

        let again = Fate::default();
        let mut undone = world.with_fate(&again);
        let mut its_log = log.reopen().unwrap().with_fate(&again);
        let remains = abandon(&mut its_log, &mut undone, &mut |_| {});
        let remains = remains.unwrap_or_else(|e| panic!("{}", about(&e)));
        if remains.is_empty() {
            assert_eq!(undone.state(), before.state(), "{} abandoned at {moment}", plan.title);
        } else {
            let lasting = plan.steps.iter().any(|step| matches!(step.undo, Undo::Never(_)));
            assert!(lasting, "{} at {moment} leaves {}", plan.title, remains.len());
        }
    }
    whole
}

fn convert(to: Layout, disks: &[Disk]) -> Change {
    let erase = ErasePermission::default();
    Change::Convert { to, accept_unstable: false, disks: disks.to_vec(), erase }
}

fn world() -> World {
    World::with_disks(LETTERS, 500_000_000_000)
}

fn new(layout: Layout, filesystem: MdFilesystem, disks: Vec<Disk>) -> NewPool {
    NewPool {
        name: "data".parse().unwrap(),
        layout,
        filesystem,
        erase: ErasePermission::for_disks(disks.iter().map(Disk::id)),
        disks,
        mount_at: "/srv/data".to_owned(),
        options: MountOptions::default(),
        array: Uuid::from_bytes([1; 16]),
        filesystem_uuid: Uuid::from_bytes([2; 16]),
        accept_unstable: false,
    }
}

/// A world with a pool of this layout on so many of its disks.
fn with_pool(layout: &str, disks: usize) -> World {
    let world = world();
    let disks = world.disks[..disks].to_vec();
    let plan =
        planner::create(&new(layout.parse().unwrap(), MdFilesystem::Ext4, disks), &world.host());
    let fate = Fate::default();
    let mut made = world.with_fate(&fate);
    run(&mut SimulatedLog::begin(plan.unwrap(), &fate), &mut made, &mut |_| {}).unwrap();
    made
}

fn change(world: &World, change: &Change) -> World {
    let plan = planner::change(world.pool(), change, None, &world.host()).unwrap();
    carry_out(world, &plan)
}

fn add(disks: &[Disk]) -> Change {
    Change::Add { disks: disks.to_vec(), erase: ErasePermission::default() }
}

fn replace(member: &str, by: &Disk) -> Change {
    Change::Replace {
        member: MemberName(member.to_owned()),
        by: Box::new(by.clone()),
        lent: None,
        erase: ErasePermission::default(),
    }
}

/// Its data's layout, how many members it has, and whether all are well.
fn shape(world: &World) -> (String, usize, bool) {
    match world.pool() {
        ObservedPool::Btrfs(pool) => {
            let words: Vec<&str> =
                pool.profiles(Purpose::Data).into_iter().map(Profile::as_str).collect();
            let whole = pool.missing().next().is_none();
            (format!("btrfs-{}", words.join("+")), pool.members.len(), whole)
        }
        ObservedPool::Md(pool) => {
            let name = format!("md-{}", pool.layout.unwrap());
            (name, pool.in_sync().count(), pool.degraded == 0 && pool.sync.is_none())
        }
    }
}

#[test]
fn every_layout_is_created_and_mounted() {
    for layout in Layout::ALL {
        for filesystem in [MdFilesystem::Ext4, MdFilesystem::Xfs] {
            let world = world();
            let wanted = new(layout, filesystem, world.disks[..4].to_vec());
            let after = carry_out(&world, &planner::create(&wanted, &world.host()).unwrap());
            assert_eq!(shape(&after), (layout.to_string(), 4, true));
            assert_eq!(after.pool().mounts()[0].at, "/srv/data");
            assert!(after.files["/etc/fstab"].contains("/srv/data"));
            if matches!(layout, Layout::Btrfs(_)) {
                break;
            }
            assert!(after.files["/etc/mdadm/mdadm.conf"].contains("ARRAY /dev/md/data"));
            assert!(after.initramfs_fresh, "{layout}");
        }
    }
}

#[test]
fn what_may_be_erased_is_erased_and_nothing_else() {
    for layout in ["btrfs-raid1", "md-raid1"] {
        let mut world = world();
        let ext4 = Content::Filesystem { kind: "ext4".into(), label: None, uuid: None };
        world.disks[1].contents.push(ext4.clone());
        world.disks[2].contents.push(ext4.clone());
        let wanted = new(layout.parse().unwrap(), MdFilesystem::Ext4, world.disks[..2].to_vec());
        let after = carry_out(&world, &planner::create(&wanted, &world.host()).unwrap());
        assert!(!after.disks[1].contents.contains(&ext4));
        assert_eq!(after.disks[2].contents, [ext4]);
    }
}

#[test]
fn a_disk_that_changed_since_the_plan_was_made_is_not_touched() {
    for layout in ["btrfs-raid1", "md-raid1"] {
        let world = world();
        let wanted = new(layout.parse().unwrap(), MdFilesystem::Ext4, world.disks[..2].to_vec());
        let plan = planner::create(&wanted, &world.host()).unwrap();
        let fate = Fate::default();
        let mut changed = world.with_fate(&fate);
        let photos = Content::Filesystem { kind: "ext4".into(), label: None, uuid: None };
        changed.disks[1].contents.push(photos);
        let before = changed.state();
        let result = run(&mut SimulatedLog::begin(plan, &fate), &mut changed, &mut |_| {});
        assert!(result.unwrap_err().to_string().contains("ext4"));
        assert_eq!(changed.state(), before);
    }
}

#[test]
fn disks_are_added_to_every_layout_that_can_grow() {
    for layout in Layout::ALL {
        let world = with_pool(&layout.to_string(), 4);
        let wanted = add(&world.disks[4..6]);
        if layout == Layout::Md(MdLayout::FAR2) {
            assert!(planner::change(world.pool(), &wanted, None, &world.host()).is_err());
            continue;
        }
        assert_eq!(shape(&change(&world, &wanted)), (layout.to_string(), 6, true));
    }
    let two = change(&with_pool("btrfs-single", 1), &add(&world().disks[1..2]));
    let ObservedPool::Btrfs(pool) = two.pool() else { panic!("btrfs") };
    assert_eq!(pool.meant_profiles(), Some((Profile::Single, Profile::Raid1)));
}

#[test]
fn living_and_dead_members_are_replaced_wherever_a_copy_is_left() {
    for layout in Layout::ALL {
        let world = with_pool(&layout.to_string(), 4);
        let new = world.disks[4].clone();
        let living = replace(world.disks[1].id().as_str(), &new);
        if layout == Layout::Md(MdLayout::Raid0) {
            assert!(planner::change(world.pool(), &living, None, &world.host()).is_err());
            continue;
        }
        let after = change(&world, &living);
        assert_eq!(shape(&after), (layout.to_string(), 4, true));
        assert!(after.disks[4].contents.iter().any(Content::is_in_use), "{layout}");
        if braid_pool::survival::survival(layout, 4).data == 0 {
            continue;
        }
        let mut degraded = world.clone();
        degraded.kill_disk(1);
        let after = change(&degraded, &replace("missing", &new));
        assert_eq!(shape(&after), (layout.to_string(), 4, true));
    }
}

#[test]
fn members_leave_where_the_rest_is_enough() {
    for (layout, left) in
        [("btrfs-raid1", 3), ("btrfs-single", 3), ("btrfs-raid10", 3), ("md-raid1", 3)]
    {
        let world = with_pool(layout, 4);
        let member = MemberName(world.disks[1].id().to_string());
        let after = change(&world, &Change::Remove { member });
        assert_eq!(shape(&after), (layout.to_owned(), left, true));
    }
}

#[test]
fn every_btrfs_layout_becomes_every_other_and_back() {
    let all: Vec<Layout> =
        Layout::ALL.into_iter().filter(|layout| matches!(layout, Layout::Btrfs(_))).collect();
    for from in &all {
        let world = with_pool(&from.to_string(), 4);
        for to in &all {
            let wanted = convert(*to, &[]);
            assert_eq!(shape(&change(&world, &wanted)), (to.to_string(), 4, true), "{from}");
        }
    }
    let raid5 = "md-raid5".parse().unwrap();
    let wanted = convert(raid5, &[]);
    let after = change(&with_pool("md-raid1", 2), &wanted);
    assert_eq!(shape(&after), ("md-raid5".to_owned(), 2, true));
    for (from, members, to, more) in [
        ("md-raid1", 2, "md-raid5", 1),
        ("md-raid5", 3, "md-raid6", 1),
        ("md-raid0", 2, "md-raid10-n2", 2),
        ("btrfs-raid1", 2, "btrfs-raid1c3", 1),
    ] {
        let world = with_pool(from, members);
        let disks = &world.disks[members..members + more];
        let after = change(&world, &convert(to.parse().unwrap(), disks));
        assert_eq!(shape(&after), (to.to_owned(), members + more, true));
    }
}

#[test]
fn a_rebalance_leaves_the_pool_as_it_is() {
    let world = with_pool("btrfs-raid1", 3);
    assert_eq!(change(&world, &Change::Rebalance).state(), world.state());
}
