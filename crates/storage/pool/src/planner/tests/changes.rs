use super::*;

fn add(disks: Vec<Disk>) -> Change {
    Change::Add { disks, erase: ErasePermission::default() }
}

fn replace(member: &str, by: Disk) -> Change {
    Change::Replace {
        member: MemberName(member.into()),
        by: Box::new(by),
        lent: None,
        erase: ErasePermission::default(),
    }
}

fn convert(to: &str, disks: Vec<Disk>) -> Change {
    let (to, erase) = (to.parse().unwrap(), ErasePermission::default());
    Change::Convert { to, accept_unstable: false, disks, erase }
}

fn plan(pool: &ObservedPool, wanted: &Change) -> Result<Plan, String> {
    change(pool, wanted, None, &host()).map_err(|refused| refused.to_string())
}

fn on_btrfs(pool: ObservedBtrfs, wanted: &Change) -> Result<Plan, String> {
    plan(&ObservedPool::Btrfs(pool), wanted)
}

fn on_md(pool: ObservedMd, wanted: &Change) -> Result<Plan, String> {
    plan(&ObservedPool::Md(pool), wanted)
}

#[test]
fn adding_to_btrfs_is_device_add_and_the_balance_it_needs() {
    let raid1 = btrfs(Profile::Raid1, Profile::Raid1, "bc", 500 * GB, 100 * GB);
    let done = commands(&on_btrfs(raid1, &add(vec![disk('d', 500 * GB)])).unwrap());
    assert_eq!(
        done,
        ["btrfs device add /dev/disk/by-id/ata-Sd /srv/data", "btrfs balance start -d /srv/data",]
    );
    // One disk becomes two: its doubled metadata goes apart; single data needs no balance.
    let single = btrfs(Profile::Single, Profile::Dup, "b", 500 * GB, 100 * GB);
    let done = commands(&on_btrfs(single, &add(vec![disk('c', 500 * GB)])).unwrap());
    assert_eq!(done[1], "btrfs balance start -dconvert=single,soft -mconvert=raid1,soft /srv/data");
    assert_eq!(done.len(), 2);
    // Striped chunks are written anew over all disks, those that are already are left.
    let raid10 = btrfs(Profile::Raid10, Profile::Raid1, "bcde", 500 * GB, 100 * GB);
    let two = vec![disk('f', 500 * GB), disk('g', 500 * GB)];
    let done = commands(&on_btrfs(raid10, &add(two)).unwrap());
    assert_eq!(done[2], "btrfs balance start -dstripes=1..5 /srv/data");
}

#[test]
fn a_balance_that_could_not_even_begin_is_refused_before() {
    let mut full = btrfs(Profile::Raid1, Profile::Raid1, "bc", 500 * GB, 400 * GB);
    full.members.iter_mut().for_each(|member| member.allocated_bytes = member.size_bytes);
    let refused = on_btrfs(full.clone(), &add(vec![disk('d', 500 * GB)])).unwrap_err();
    assert!(refused.contains("unallocated on 2 disks; delete 1.07GB"), "{refused}");
    assert!(refused.contains("or add 2 disks of at least 2.15GB at a time"), "{refused}");
    let two = commands(
        &on_btrfs(full.clone(), &add(vec![disk('d', 500 * GB), disk('e', 500 * GB)])).unwrap(),
    );
    assert!(two[0].contains("device add") && two.len() == 3, "{two:?}");
    // What half empty chunks hold is enough to begin with.
    full.space[0].total_bytes += 1 << 30;
    let compacted = commands(&on_btrfs(full, &add(vec![disk('d', 500 * GB)])).unwrap());
    assert_eq!(compacted[0], "btrfs balance start -dusage=0 /srv/data");
    assert!(compacted[5].contains("device add") && compacted.len() == 7, "{compacted:?}");
}

#[test]
fn a_dead_btrfs_disk_is_replaced_by_number_and_leftover_single_chunks_converted() {
    let mut pool = btrfs(Profile::Raid1, Profile::Raid1, "bc", 500 * GB, 100 * GB);
    let single = |purpose| SpaceUse {
        purpose,
        profile: Profile::Single,
        total_bytes: 1 << 30,
        used_bytes: 1000,
    };
    // Most was written while degraded: still raid1 is what is meant.
    pool.space[0].total_bytes = 1 << 20;
    pool.space.extend([single(Purpose::Data), single(Purpose::Metadata)]);
    pool.members[1].missing = true;
    pool.members[1].path = None;
    pool.mounts[0].options.push("degraded".into());
    for name in ["missing", "2", "Sc"] {
        let done = commands(&on_btrfs(pool.clone(), &replace(name, disk('d', 600 * GB))).unwrap());
        assert_eq!(
            done,
            [
                "btrfs replace start -B 2 /dev/disk/by-id/ata-Sd /srv/data",
                "btrfs filesystem resize 2:max /srv/data",
                "btrfs balance start -dconvert=raid1,soft -mconvert=raid1,soft /srv/data",
            ]
        );
    }
    // Not mounted at all: degraded first, where fstab says.
    pool.mounts.clear();
    let mut host = host();
    host.fstab = format!("UUID={} /srv/data btrfs noatime 0 0\n", pool.uuid);
    let unmounted = ObservedPool::Btrfs(pool.clone());
    let by = replace("missing", disk('d', 600 * GB));
    let done = commands(&change(&unmounted, &by, None, &host).unwrap());
    assert_eq!(done[1], "mount -t btrfs -o noatime,degraded /dev/sdb /srv/data");
    host.fstab = format!("UUID={} /srv/my\\040data btrfs noatime 0 0\n", pool.uuid);
    let done = commands(&change(&unmounted, &by, None, &host).unwrap());
    assert_eq!(done[1], "mount -t btrfs -o noatime,degraded /dev/sdb '/srv/my data'");
    assert!(plan(&unmounted, &by).unwrap_err().contains("--mount"));
}

/// What a degraded mount writes with one copy gets its second one, and the pool isn't left mounted
/// degraded.
#[test]
fn a_missing_member_of_an_unmounted_pool_is_replaced_to_the_end() {
    let mut pool = btrfs(Profile::Raid1, Profile::Raid1, "bc", 500 * GB, 100 * GB);
    pool.members[1].missing = true;
    pool.mounts.clear();
    // Only the mounted filesystem tells how its chunks are used.
    pool.space.clear();
    let mut host = host();
    host.fstab = format!("UUID={} /srv/data btrfs noatime 0 0\n", pool.uuid);
    let by = replace("missing", disk('d', 500 * GB));
    let planned = |pool: &ObservedBtrfs| {
        change(&ObservedPool::Btrfs(pool.clone()), &by, None, &host).unwrap()
    };
    let unmixed =
        |plan: &Plan| plan.after.iter().any(|one| matches!(one, Condition::BtrfsUnmixed { .. }));
    let unknown = planned(&pool);
    assert!(unmixed(&unknown), "else it would end half done without a word");
    pool.profiles_on_disk = vec![
        (Purpose::Data, Profile::Raid1),
        (Purpose::Data, Profile::Single),
        (Purpose::Metadata, Profile::Raid1),
    ];
    let known = planned(&pool);
    assert!(!unmixed(&known));
    assert_eq!(
        commands(&known)[2..],
        [
            "btrfs replace start -B 2 /dev/disk/by-id/ata-Sd /srv/data",
            "btrfs filesystem resize 2:max /srv/data",
            "btrfs balance start -dconvert=raid1,soft -mconvert=raid1,soft /srv/data",
            "umount /srv/data",
            "mount -t btrfs -o noatime,device=/dev/sdb /dev/disk/by-id/ata-Sd /srv/data",
        ]
    );
}

#[test]
fn a_label_that_no_file_can_have_still_has_a_journal() {
    for label in ["-o", "a/b", "a;b", "..", "a\nb"] {
        let mut pool = btrfs(Profile::Raid1, Profile::Raid1, "bc", 500 * GB, GB);
        pool.label = Some(label.into());
        let uuid = pool.uuid.to_string();
        assert_eq!(on_btrfs(pool, &Change::Rebalance).unwrap().pool, uuid, "{label}");
    }
}

#[test]
fn full_survivors_are_refused_before_replace_fails_with_enospc() {
    let mut pool = btrfs(Profile::Raid1, Profile::Raid1, "bc", 500 * GB, 400 * GB);
    pool.members[1].missing = true;
    pool.members[0].allocated_bytes = pool.members[0].size_bytes;
    pool.space.iter_mut().for_each(|space| space.used_bytes = space.total_bytes);
    let by = replace("missing", disk('d', 500 * GB));
    let refused = on_btrfs(pool.clone(), &by).unwrap_err();
    assert!(refused.contains("survivors are full"), "{refused}");
    assert!(refused.contains("at least 4.36GB meanwhile: `--lend DISK`"), "{refused}");
    lent_a_disk_the_pool_gives_it_back(&pool);
    // What one metadata chunk has to spare doesn't help while it is copied.
    pool.space[1].used_bytes = 0;
    assert!(on_btrfs(pool.clone(), &by).is_err());
    // Chunks that are half empty do.
    pool.space[0].used_bytes = pool.space[0].total_bytes / 2;
    let plan = on_btrfs(pool.clone(), &by).unwrap();
    let refused = on_btrfs(pool, &lending(disk('e', 64 * GB))).unwrap_err();
    assert!(refused.contains("needs no disk lent"), "{refused}");
    let done = commands(&plan);
    assert!(done[..5].iter().all(|line| line.starts_with("btrfs balance start -dusage=")));
    assert_eq!(done[5], "btrfs replace start -B 2 /dev/disk/by-id/ata-Sd /srv/data");
    let enough = |condition: &Condition| matches!(condition, Condition::BtrfsUnallocated { .. });
    assert!(plan.steps[5].before.iter().any(enough), "{plan}");
}

fn lending(lent: Disk) -> Change {
    let mut change = replace("missing", disk('d', 500 * GB));
    if let Change::Replace { lent: place, .. } = &mut change {
        *place = Some(Box::new(lent));
    }
    change
}

fn lent_a_disk_the_pool_gives_it_back(full: &ObservedBtrfs) {
    let refused = on_btrfs(full.clone(), &lending(disk('e', 2 * GB))).unwrap_err();
    assert!(refused.contains("4.36GB"), "{refused}");
    let plan = on_btrfs(full.clone(), &lending(disk('e', 8 * GB))).unwrap();
    let done = commands(&plan);
    assert_eq!(done[0], "btrfs device add /dev/disk/by-id/ata-Se /srv/data");
    assert_eq!(done[1], "btrfs replace start -B 2 /dev/disk/by-id/ata-Sd /srv/data");
    assert_eq!(done.last().unwrap(), "btrfs device remove /dev/disk/by-id/ata-Se /srv/data");
    // What a degraded mount wrote lies on one disk only, and with its copy all is too full.
    let mut single = full.clone();
    let one_copy = SpaceUse { profile: Profile::Single, ..single.space[0] };
    single.space.push(one_copy);
    let plan = on_btrfs(single, &lending(disk('e', 8 * GB))).unwrap();
    assert!(commands(&plan).last().unwrap().starts_with("btrfs balance"), "{plan}");
    assert!(plan.warnings[0].contains("braid pool remove data /dev/sde"), "{plan}");
}

#[test]
fn no_disk_is_lent_where_the_new_one_is_smaller_than_the_missing_one() {
    let mut full = btrfs(Profile::Raid1, Profile::Raid1, "bc", 500 * GB, 400 * GB);
    full.members[1].missing = true;
    full.members[0].allocated_bytes = full.members[0].size_bytes;
    full.space.iter_mut().for_each(|space| space.used_bytes = space.total_bytes);
    let mut by = replace("missing", disk('d', 450 * GB));
    let refused = on_btrfs(full.clone(), &by).unwrap_err();
    assert!(refused.contains("survivors are full"), "{refused}");
    assert!(!refused.contains("--lend"), "{refused}");
    if let Change::Replace { lent, .. } = &mut by {
        *lent = Some(Box::new(disk('e', 64 * GB)));
    }
    let refused = on_btrfs(full, &by).unwrap_err();
    assert!(refused.contains("has to be as large as the missing one"), "{refused}");
    assert!(refused.contains("/dev/sdd has 450GB, it had 500GB; take a larger one"), "{refused}");
}

#[test]
fn without_another_copy_nothing_is_replaced() {
    let mut pool = btrfs(Profile::Raid0, Profile::Raid1, "bc", 500 * GB, 100 * GB);
    pool.members[1].missing = true;
    let refused = on_btrfs(pool, &replace("missing", disk('d', 500 * GB))).unwrap_err();
    assert!(refused.contains("no copy"), "{refused}");
    let refused = on_md(md(MdLayout::Raid0, "bc", 500 * GB), &replace("0", disk('d', 500 * GB)));
    assert!(refused.unwrap_err().contains("no second copy"));
}

#[test]
fn a_smaller_disk_is_added_and_the_old_one_removed_if_all_fits() {
    let pool = |used| btrfs(Profile::Raid1, Profile::Raid1, "bcd", 500 * GB, used);
    let done = commands(&on_btrfs(pool(200 * GB), &replace("3", disk('e', 300 * GB))).unwrap());
    assert!(done[0].contains("device add") && done[1].contains("device remove 3"), "{done:?}");
    let refused = on_btrfs(pool(700 * GB), &replace("3", disk('e', 300 * GB))).unwrap_err();
    assert!(refused.contains("free "), "{refused}");
}

/// What leaves needs new chunks on the others before any of its own is given back.
#[test]
fn where_no_chunk_could_be_allocated_half_empty_ones_are_emptied_before_a_disk_leaves() {
    let mut full = btrfs(Profile::Raid1, Profile::Raid1, "bc", 500 * GB, 100 * GB);
    full.members.iter_mut().for_each(|member| member.allocated_bytes = member.size_bytes);
    full.space[0].total_bytes = 450 * GB;
    let smaller = replace("2", disk('d', 300 * GB));
    let done = commands(&on_btrfs(full.clone(), &smaller).unwrap());
    assert!(done[..5].iter().all(|line| line.starts_with("btrfs balance start -dusage=")));
    assert!(done[5].contains("device add") && done[6].contains("device remove 2"), "{done:?}");
    full.space[0].used_bytes = full.space[0].total_bytes - GB;
    let refused = on_btrfs(full, &replace("2", disk('d', 490 * GB))).unwrap_err();
    assert!(refused.contains("unallocated on 2 disks, and 1 have it"), "{refused}");
    let mut three = btrfs(Profile::Raid1, Profile::Raid1, "bcd", 500 * GB, 300 * GB);
    three.members.iter_mut().for_each(|member| member.allocated_bytes = member.size_bytes);
    three.space[0].total_bytes = 700 * GB;
    let remove = Change::Remove { member: MemberName("3".into()) };
    let done = commands(&on_btrfs(three.clone(), &remove).unwrap());
    assert!(done[0].contains("-dusage=0") && done[5].contains("device remove 3"), "{done:?}");
    // One that nothing is on leaves at once.
    three.members[2].allocated_bytes = 0;
    let done = commands(&on_btrfs(three, &remove).unwrap());
    assert_eq!(done, ["btrfs device remove 3 /srv/data"]);
}

#[test]
fn removing_asks_whether_the_rest_is_enough() {
    let remove = |name: &str| Change::Remove { member: MemberName(name.into()) };
    let three = |used| btrfs(Profile::Raid1, Profile::Raid1, "bcd", 500 * GB, used);
    let done = commands(&on_btrfs(three(300 * GB), &remove("/dev/sdc")).unwrap());
    assert_eq!(done, ["btrfs device remove 2 /srv/data"]);
    let refused = on_btrfs(three(600 * GB), &remove("2")).unwrap_err();
    assert!(refused.contains("free"), "{refused}");
    let two = btrfs(Profile::Raid1, Profile::Raid1, "bc", 500 * GB, GB);
    let refused = on_btrfs(two, &remove("2")).unwrap_err();
    assert!(refused.contains("convert data --layout btrfs-single"), "{refused}");
    let one = btrfs(Profile::Single, Profile::Dup, "b", 500 * GB, GB);
    let refused = on_btrfs(one, &remove("1")).unwrap_err();
    assert!(refused.contains("only disk") && !refused.contains("convert"), "{refused}");
    let refused = on_btrfs(three(GB), &remove("/dev/sdz")).unwrap_err();
    assert!(refused.contains("1 (/dev/sdb), 2 (/dev/sdc)"), "{refused}");
    let refused = on_md(md(MdLayout::Raid5, "bcd", 500 * GB), &remove("0")).unwrap_err();
    assert!(refused.contains("can't give one back"), "{refused}");
}

#[test]
fn converting_asks_whether_it_fits_and_is_nothing_when_it_is_so() {
    let to = |layout: &str| convert(layout, vec![]);
    let four = || btrfs(Profile::Raid1, Profile::Raid1, "bcde", 500 * GB, 700 * GB);
    let done = commands(&on_btrfs(four(), &to("btrfs-raid10")).unwrap());
    assert_eq!(done, ["btrfs balance start -dconvert=raid10,soft -mconvert=raid1,soft /srv/data"]);
    assert!(on_btrfs(four(), &to("btrfs-raid1")).unwrap().is_empty());
    assert!(on_btrfs(four(), &to("btrfs-raid1c4")).unwrap_err().contains("free"));
    assert!(on_btrfs(four(), &to("btrfs-raid6")).unwrap_err().contains("unstable"));
    assert!(on_btrfs(four(), &to("md-raid1")).unwrap_err().contains("can't become"));
    assert!(
        on_md(md(MdLayout::FAR2, "bc", GB), &to("md-raid10-n2"))
            .unwrap_err()
            .contains("doesn't become md-raid10-n2 in place")
    );
}

#[test]
fn what_a_member_missed_while_it_was_away_is_mended_by_the_same_convert() {
    let mut pool = btrfs(Profile::Raid1, Profile::Raid1, "bc", 500 * GB, 100 * GB);
    let single = SpaceUse { profile: Profile::Single, total_bytes: 1 << 20, ..pool.space[0] };
    pool.space.push(SpaceUse { used_bytes: 1000, ..single });
    let done = commands(&on_btrfs(pool, &convert("btrfs-raid1", vec![])).unwrap());
    assert_eq!(
        done,
        [
            "btrfs balance start -dconvert=raid1,soft -mconvert=raid1,soft /srv/data",
            "btrfs scrub start -B /srv/data"
        ]
    );
}

#[test]
fn md_becomes_what_its_kernel_can_reshape_it_to() {
    let new = |letters: &str| letters.chars().map(|letter| disk(letter, 500 * GB)).collect();
    let done = |from, letters, to: &str, more| {
        let plan = on_md(md(from, letters, 500 * GB), &convert(to, new(more)));
        plan.map(|plan| commands(&plan))
    };
    let five = done(MdLayout::Raid1, "bc", "md-raid5", "d").unwrap();
    assert_eq!(five[0], "mdadm --grow /dev/md127 --level=raid5");
    assert_eq!(five[2], "mdadm --grow /dev/md127 --raid-devices=3");
    assert_eq!(five.last().unwrap(), "resize2fs /dev/md127");
    let six = done(MdLayout::Raid5, "bcd", "md-raid6", "e").unwrap();
    assert_eq!(six[0], "mdadm /dev/md127 --add /dev/disk/by-id/ata-Se");
    assert_eq!(six[1], "mdadm --grow /dev/md127 --level=raid6 --raid-devices=4 --layout=preserve");
    let mirrored = done(MdLayout::Raid0, "bc", "md-raid10-n2", "de").unwrap();
    assert!(mirrored[0].contains("--level=raid10 --raid-devices=4 --add"), "{mirrored:?}");
    for (from, letters, to, more, says) in [
        (MdLayout::Raid5, "bcd", "md-raid6", "", "1 more"),
        (MdLayout::Raid0, "bc", "md-raid10-n2", "d", "2 more"),
        (MdLayout::NEAR2, "bcde", "md-raid10-o2", "", "the data is lost"),
        (MdLayout::Raid6, "bcde", "md-raid5", "", "in place"),
    ] {
        let refused = done(from, letters, to, more).unwrap_err();
        assert!(refused.contains(says), "{refused}");
    }
}

#[test]
fn far_is_never_reshaped_and_near_is_with_its_filesystem() {
    let refused = on_md(md(MdLayout::FAR2, "bc", 500 * GB), &add(vec![disk('d', 500 * GB)]));
    assert!(refused.unwrap_err().contains("far-mode"));
    let two = vec![disk('d', 500 * GB), disk('e', 500 * GB)];
    let done = commands(&on_md(md(MdLayout::NEAR2, "bc", 500 * GB), &add(two)).unwrap());
    assert_eq!(done[0], "mdadm /dev/md127 --add /dev/disk/by-id/ata-Sd");
    assert_eq!(done[2], "mdadm --grow /dev/md127 --raid-devices=4");
    assert_eq!(done.last().unwrap(), "resize2fs /dev/md127");
}

#[test]
fn a_living_md_member_is_copied_and_a_dead_one_filled_from_the_others() {
    let by = replace("Sc", disk('d', 500 * GB));
    let done = commands(&on_md(md(MdLayout::Raid1, "bc", 500 * GB), &by).unwrap());
    assert!(done[1].contains("--replace /dev/sdc --with /dev/disk/by-id/ata-Sd"), "{done:?}");
    assert!(done.last().unwrap().ends_with("--remove /dev/sdc"), "{done:?}");
    let mut degraded = md(MdLayout::Raid1, "bc", 500 * GB);
    degraded.degraded = 1;
    degraded.members[1].state = MdMemberState::Faulty;
    let done =
        commands(&on_md(degraded.clone(), &replace("missing", disk('d', 500 * GB))).unwrap());
    assert!(done[0].ends_with("--remove /dev/sdc") && done[1].contains("--add"), "{done:?}");
    let refused = on_md(degraded.clone(), &replace("missing", disk('d', 100 * GB))).unwrap_err();
    assert!(refused.contains("needs"), "{refused}");
    let refused = on_md(degraded, &add(vec![disk('d', 500 * GB)])).unwrap_err();
    assert!(refused.contains("not complete"), "{refused}");
}

#[test]
fn nothing_is_begun_while_something_else_runs() {
    let mut pool = btrfs(Profile::Raid1, Profile::Raid1, "bc", 500 * GB, GB);
    pool.exclusive_operation = ExclusiveOperation::BalancePaused;
    for wanted in [add(vec![disk('d', GB)]), replace("1", disk('d', 500 * GB)), Change::Rebalance] {
        assert!(on_btrfs(pool.clone(), &wanted).unwrap_err().contains("paused balance"));
    }
}

#[test]
fn rebalancing_empties_the_emptiest_chunks_first() {
    let pool = btrfs(Profile::Raid1, Profile::Raid1, "bc", 500 * GB, 100 * GB);
    let done = commands(&on_btrfs(pool, &Change::Rebalance).unwrap());
    let filters: Vec<&str> = done.iter().filter_map(|line| line.split(' ').nth(3)).collect();
    assert_eq!(filters, ["-dusage=0", "-dusage=25", "-dusage=50", "-dusage=75"]);
}

#[test]
fn what_is_no_member_is_told_before_a_new_disk_is_judged() {
    let check = |pool: &ObservedPool, name: &str| check_member(pool, &MemberName(name.into()));
    let mirror = btrfs(Profile::Raid1, Profile::Raid1, "bc", 500 * GB, GB);
    let mut array = md(MdLayout::Raid1, "bc", 500 * GB);
    let btrfs = ObservedPool::Btrfs(mirror);
    assert_eq!(check(&btrfs, "/dev/sdc"), Ok(()));
    let refused = check(&btrfs, "/dev/loop9").unwrap_err().to_string();
    assert!(refused.contains("/dev/loop9") && refused.contains("2 (/dev/sdc)"), "{refused}");
    assert!(check(&ObservedPool::Md(array.clone()), "missing").is_err());
    array.degraded = 1;
    assert_eq!(check(&ObservedPool::Md(array), "missing"), Ok(()));
}
