use super::*;

#[test]
fn an_array_is_refused_where_the_kernel_has_no_md() {
    let without = ObservedHost { lacks_md: true, ..host() };
    let new = new("md-raid1", vec![disk('b', 500 * GB), disk('c', 500 * GB)]);
    assert!(create(&new, &without).unwrap_err().to_string().contains("has none"));
}

#[test]
fn mdadm_conf_comes_before_the_initramfs_and_both_name_the_array_by_uuid() {
    let plan =
        create(&new("md-raid10-f2", vec![disk('b', 500 * GB), disk('c', 500 * GB)]), &host())
            .unwrap();
    let create = &commands(&plan)[0];
    for word in ["--metadata=1.2", "--name=data", "--homehost=any", "--layout=f2", "--level=raid10"]
    {
        assert!(create.contains(word), "{create}");
    }
    assert!(create.contains("/dev/disk/by-id/ata-Sb /dev/disk/by-id/ata-Sc"), "{create}");
    let line =
        format!("ARRAY /dev/md/data metadata=1.2 UUID={}", "01010101:01010101:01010101:01010101");
    assert!(commands(&plan)[position(&plan, "mdadm.conf")].contains(&line));
    assert!(position(&plan, "mdadm.conf") < position(&plan, "update-initramfs"));
    assert!(position(&plan, "fstab") < position(&plan, "update-initramfs"));
    let fstab = &commands(&plan)[position(&plan, "fstab")];
    assert!(fstab.contains("UUID=02020202-0202-0202-0202-020202020202 /srv/data ext4"), "{fstab}");
    assert!(
        plan.warnings.iter().any(|warning| warning.contains("no further disk, ever")),
        "{:?}",
        plan.warnings
    );
}

#[test]
fn mount_options_hold_now_and_at_boot_and_a_mount_point_may_have_spaces() {
    let two = || vec![disk('b', 500 * GB), disk('c', 500 * GB)];
    for (layout, kind) in [("btrfs-raid1", "btrfs"), ("md-raid1", "ext4")] {
        let options = "compress=zstd:3,commit=120".parse().unwrap();
        let place = "/srv/our films".to_owned();
        let plan = NewPool { options, mount_at: place, ..new(layout, two()) };
        let plan = create(&plan, &host()).unwrap();
        let fstab = &commands(&plan)[position(&plan, "fstab")];
        let line =
            format!(r"/srv/our\040films {kind} noatime,nofail,compress=zstd:3,commit=120 0 ");
        assert!(fstab.contains(&line), "{fstab}");
        let mount = commands(&plan).into_iter().find(|it| it.starts_with("mount -t")).unwrap();
        assert!(mount.contains("-o noatime,compress=zstd:3,commit=120"), "{mount}");
        assert!(mount.ends_with("'/srv/our films'"), "{mount}");
    }
}

#[test]
fn filesystems_are_aligned_to_the_stripes() {
    let four: Vec<Disk> = "bcde".chars().map(|letter| disk(letter, 500 * GB)).collect();
    for (layout, hint) in [
        ("md-raid0", "stride=128,stripe_width=512"),
        ("md-raid5", "stride=128,stripe_width=384"),
        ("md-raid6", "stride=128,stripe_width=256"),
        ("md-raid10-n2", "stride=128,stripe_width=256"),
    ] {
        let plan = create(&new(layout, four.clone()), &host()).unwrap();
        assert!(commands(&plan)[position(&plan, "mkfs.ext4")].contains(hint), "{layout}");
    }
    let xfs = NewPool { filesystem: MdFilesystem::Xfs, ..new("md-raid5", four) };
    let plan = create(&xfs, &host()).unwrap();
    assert!(commands(&plan)[position(&plan, "mkfs.xfs")].contains("su=512k,sw=3"));
}

#[test]
fn a_disk_that_carries_something_is_named_and_refused_without_its_own_permission() {
    let mut full = disk('d', 500 * GB);
    full.contents.push(ext4());
    let mut pool = new("btrfs-raid1", vec![disk('b', 500 * GB), full.clone()]);
    let refused = create(&pool, &host()).unwrap_err().to_string();
    assert!(
        refused.contains("/dev/sdd") && refused.contains("ext4 filesystem \"photos\""),
        "{refused}"
    );
    assert!(refused.contains("--erase Sd"), "{refused}");

    // Permission for one of its partitions, or for another disk, is none for this one.
    for other in ["Sd-part5", "Sb"] {
        pool.erase = ErasePermission::for_disks([crate::disk::DiskId::new(other)]);
        assert!(create(&pool, &host()).is_err(), "{other}");
    }
    pool.erase = ErasePermission::for_disks([full.id()]);
    let plan = create(&pool, &host()).unwrap();
    assert_eq!(commands(&plan)[0], "wipefs --all --quiet /dev/disk/by-id/ata-Sd");
    assert!(matches!(plan.steps[0].undo, Undo::Never(_)));
    let shown = plan.to_string();
    assert!(shown.contains("serial Sd, 500GB") && shown.contains("LOSES ext4"), "{shown}");
}

#[test]
fn what_nothing_recognises_is_told_and_has_nothing_to_erase() {
    let mut used = disk('d', 500 * GB);
    used.contents.push(Content::Unknown { what: "unknown content: data at byte 0".into() });
    let mut pool = new("btrfs-raid1", vec![disk('b', 500 * GB), used.clone()]);
    assert!(create(&pool, &host()).is_err());
    pool.erase = ErasePermission::for_disks([used.id()]);
    let plan = create(&pool, &host()).unwrap();
    assert!(plan.to_string().contains("LOSES unknown content"), "{plan}");
    assert!(commands(&plan)[0].starts_with("mkfs.btrfs"), "{plan}");
}

/// The blog's slip: `/dev/sdd` was written, `/dev/sdd5` was meant.
#[test]
fn the_whole_disk_instead_of_its_partition_ends_in_a_refusal_that_says_what_is_on_it() {
    let mut whole = disk('d', 500 * GB);
    whole.contents.push(Content::PartitionTable {
        kind: "gpt".into(),
        partitions: vec!["/dev/sdd1".into(), "/dev/sdd5".into()],
        entries: Some(2),
        uuid: None,
    });
    let mut fifth = disk('d', 100 * GB);
    fifth.path = "/dev/sdd5".into();
    fifth.partition = Some(Partition { disk: "/dev/sdd".into(), number: 5, start_bytes: 1 << 30 });
    let slip = new("btrfs-raid1", vec![disk('b', 500 * GB), whole]);
    let refused = create(&slip, &host()).unwrap_err().to_string();
    assert!(refused.contains("gpt partition table with /dev/sdd1, /dev/sdd5"), "{refused}");
    assert!(create(&new("btrfs-raid1", vec![disk('b', 500 * GB), fifth]), &host()).is_ok());
}

#[test]
fn what_is_in_use_or_belongs_to_others_is_refused_even_with_permission() {
    let member = |family| Content::Member { family, name: None, uuid: None };
    for content in [
        Content::Mounted { at: "/".into() },
        Content::Holder { device: "md0".into() },
        Content::SwapActive,
        Content::Busy,
        member(crate::disk::Family::Lvm),
        member(crate::disk::Family::Zfs),
        member(crate::disk::Family::Bcachefs),
    ] {
        let mut used = disk('c', 500 * GB);
        used.contents.push(content.clone());
        let mut pool = new("btrfs-single", vec![used.clone()]);
        pool.erase = ErasePermission::for_disks([used.id()]);
        let refused = create(&pool, &host()).unwrap_err().to_string();
        assert!(refused.contains("can't be used"), "{content}: {refused}");
    }
}

#[test]
fn wrong_wishes_are_refused_with_a_reason() {
    let two = || vec![disk('b', 500 * GB), disk('c', 500 * GB)];
    let three = || vec![disk('b', 500 * GB), disk('c', 500 * GB), disk('d', 500 * GB)];
    let mut same = two();
    same[1] = same[0].clone();
    for (pool, word) in [
        (new("md-raid5", two()), "needs 3 disks, not 2"),
        (new("btrfs-raid5", three()), "unstable"),
        (new("btrfs-raid1", same), "one physical disk"),
        (new("btrfs-raid1", vec![disk('b', 50_000_000), disk('c', 500 * GB)]), "too small"),
        (NewPool { mount_at: "/home".into(), ..new("btrfs-raid1", two()) }, "fstab line 3"),
        (NewPool { mount_at: "/srv/a\tb".into(), ..new("btrfs-raid1", two()) }, "fstab could hold"),
        (NewPool { mount_at: "/etc".into(), ..new("btrfs-raid1", two()) }, "folder of the system"),
        (NewPool { mount_at: "/usr/lib/x".into(), ..new("btrfs-raid1", two()) }, "of the system"),
        (NewPool { mount_at: "/".into(), ..new("btrfs-raid1", two()) }, "absolute"),
        (NewPool { mount_at: "/var".into(), ..new("btrfs-raid1", two()) }, "of the system"),
        (NewPool { mount_at: "srv".into(), ..new("btrfs-raid1", two()) }, "absolute"),
        (NewPool { mount_at: "/srv/../etc".into(), ..new("btrfs-raid1", two()) }, "absolute"),
    ] {
        let refused = create(&pool, &host()).unwrap_err().to_string();
        assert!(refused.contains(word), "{refused}");
    }
    let twice = NewPool { accept_unstable: true, ..new("btrfs-raid5", three()) };
    assert!(create(&twice, &host()).is_ok());
}

#[test]
fn steps_of_every_layout_have_different_names_and_go_through_json() {
    for layout in Layout::ALL {
        let disks = "bcdef".chars().map(|letter| disk(letter, 500 * GB)).collect();
        let plan = create(&new(&layout.to_string(), disks), &host()).unwrap();
        let mut names: Vec<&str> = plan.steps.iter().map(|step| step.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), plan.steps.len(), "{layout}");
        let json = serde_json::to_string(&plan).unwrap();
        assert_eq!(serde_json::from_str::<Plan>(&json).unwrap(), plan);
    }
}

#[test]
fn names_that_would_confuse_others_are_refused() {
    for name in ["", "-x", ".hidden", "a/b", "a b", "md127", "ümlaut", &"x".repeat(33)] {
        assert!(name.parse::<PoolName>().is_err(), "{name:?}");
    }
    for name in ["data", "md", "mdx", "a.b-c_d", "0"] {
        assert!(name.parse::<PoolName>().is_ok(), "{name:?}");
    }
}

#[test]
fn a_disk_in_use_is_told_as_such_and_not_as_too_small() {
    let mut used = disk('b', 500 * GB);
    used.contents = vec![crate::disk::Content::Mounted { at: "/".to_owned() }];
    let new = new("btrfs-raid1", vec![used, disk('c', 1 << 20)]);
    let refused = create(&new, &host()).unwrap_err().to_string();
    assert!(refused.contains("mounted at /"), "{refused}");
}
