use super::*;
use crate::luks::{Encryption, Header, LuksVolume, Mapping, Unlock, mapping_name};

fn uuid(letter: char) -> Uuid {
    Uuid::from_bytes([letter as u8; 16])
}

fn encrypted(letter: char, unlock: Unlock) -> Disk {
    let key_file = match unlock {
        Unlock::KeyFile => "/etc/braid/keys/data.key",
        _ => "/run/braid/keys/data",
    };
    let wish = Encryption {
        pool: "data".into(),
        pool_uuid: Uuid::from_bytes([2; 16]),
        uuid: uuid(letter),
        makes_key_file: unlock == Unlock::KeyFile,
        unlock,
        key_file: key_file.into(),
        discards: false,
        sector_bytes: 4096,
        headers: "/state/data".into(),
    };
    Disk { encrypt: Some(wish), ..disk(letter, 500 * GB) }
}

fn two(unlock: Unlock) -> Vec<Disk> {
    "bc".chars().map(|letter| encrypted(letter, unlock.clone())).collect()
}

fn device(letter: char) -> String {
    format!("/dev/mapper/{}", mapping_name("data", uuid(letter)))
}

/// A host on which the disks with these letters are open.
fn opened(letters: &str) -> ObservedHost {
    let volume = |letter: char| LuksVolume {
        uuid: uuid(letter),
        path: format!("/dev/sd{letter}"),
        disk: disk(letter, 500 * GB).id(),
        pool: Some("data".into()),
        pool_uuid: None,
        open: Some(Mapping {
            name: mapping_name("data", uuid(letter)),
            node: format!("/dev/dm-{letter}"),
            volume: uuid(letter),
            over: format!("/dev/sd{letter}"),
            disk: disk(letter, 500 * GB).id(),
            whole_disk: format!("/dev/sd{letter}"),
        }),
        header: Header::Whole,
        slots: Vec::new(),
        discards: false,
    };
    let line = |letter: char| {
        let name = mapping_name("data", uuid(letter));
        format!("{name} UUID={} /etc/braid/keys/data.key luks,nofail\n", uuid(letter))
    };
    ObservedHost {
        luks: letters.chars().map(volume).collect(),
        crypttab: letters.chars().map(line).collect(),
        header_backups: Some("/state".into()),
        ..host()
    }
}

/// A raid1 whose members are mappings.
fn raid1(letters: &str) -> ObservedPool {
    let mut pool = btrfs(Profile::Raid1, Profile::Raid1, letters, 500 * GB, 50 * GB);
    for (member, letter) in pool.members.iter_mut().zip(letters.chars()) {
        member.path = Some(format!("/dev/dm-{letter}"));
    }
    ObservedPool::Btrfs(pool)
}

#[test]
fn disks_are_encrypted_saved_named_and_opened_before_the_pool_is_made_of_their_mappings() {
    for (layout, maker) in [("btrfs-raid1", "mkfs.btrfs"), ("md-raid1", "mdadm --create")] {
        let plan = create(&new(layout, two(Unlock::KeyFile)), &host()).unwrap();
        let all = commands(&plan);
        assert!(all[0].contains("/etc/braid/keys/data.key"), "{}", all[0]);
        let order = ["luksFormat", "luksHeaderBackup", "crypttab", "cryptsetup open", maker];
        let places: Vec<usize> = order.iter().map(|word| position(&plan, word)).collect();
        assert!(places.is_sorted(), "{places:?} in {all:?}");
        let made = &all[position(&plan, maker)];
        assert!(made.contains(&device('b')) && made.contains(&device('c')), "{made}");
        assert!(!made.contains("by-id"), "{made}");
        // Made once, though both disks need it.
        assert_eq!(all.iter().filter(|each| each.contains("random key")).count(), 1);
        let last = plan.steps.iter().position(|step| step.name == "open Sc").unwrap();
        let maker = &plan.steps[position(&plan, maker)];
        assert!(position(&plan, &maker.action.to_string()) > last);
        for member in "bc".chars() {
            let (name, uuid) = (mapping_name("data", uuid(member)), uuid(member));
            assert!(maker.before.contains(&Condition::OpenAndEmpty { name, uuid, anew: true }));
        }
    }
}

#[test]
fn a_format_is_of_the_claimed_disk_and_undone_by_blanking_its_header() {
    let plan = create(&new("btrfs-raid1", two(Unlock::KeyFile)), &host()).unwrap();
    let step = plan.step("encrypt Sb").unwrap();
    assert!(matches!(step.before[0], Condition::AsClaimed(_)));
    let command = step.action.to_string();
    for part in [
        "--type luks2",
        "--label braid:data",
        "--subsystem braid:02020202-0202-0202-0202-020202020202",
        "--sector-size 4096",
        "--offset 32768",
        "--pbkdf pbkdf2",
        "--key-file /etc/braid/keys/data.key /dev/disk/by-id/ata-Sb",
    ] {
        assert!(command.contains(part), "{part} in {command}");
    }
    let Undo::By(actions) = &step.undo else { panic!("{:?}", step.undo) };
    let undone: Vec<String> = actions.iter().map(ToString::to_string).collect();
    assert_eq!(undone, ["blkdiscard --zeroout --length 16777216 /dev/disk/by-id/ata-Sb"]);
}

#[test]
fn what_opens_it_decides_what_boot_does() {
    let tang = Unlock::Tang { url: "http://t".into(), thumbprint: "abc".into() };
    for (unlock, crypttab, fstab) in [
        (Unlock::KeyFile, "/etc/braid/keys/data.key luks,nofail", "noatime,nofail 0 0"),
        (Unlock::Passphrase, "none luks,noauto", "noatime,nofail,noauto 0 0"),
        (Unlock::Tpm2, "none luks,nofail,tpm2-device=auto", "noatime,nofail 0 0"),
        (
            tang,
            "none luks,nofail,_netdev",
            "noatime,nofail,_netdev,x-systemd.requires=remote-cryptsetup.target 0 0",
        ),
    ] {
        let plan = create(&new("btrfs-raid1", two(unlock.clone())), &host()).unwrap();
        assert!(commands(&plan)[position(&plan, "crypttab")].ends_with(crypttab), "{plan}");
        assert!(commands(&plan)[position(&plan, "/etc/fstab")].ends_with(fstab), "{plan}");
        let text = plan.to_string();
        assert_eq!(text.contains("--pbkdf"), unlock == Unlock::KeyFile, "{text}");
        assert_eq!(text.contains("systemd-cryptenroll"), unlock == Unlock::Tpm2);
        let is_tang = matches!(unlock, Unlock::Tang { .. });
        assert_eq!(text.contains(r#"tang '{"thp":"abc","url":"http://t"}'"#), is_tang, "{text}");
    }
}

#[test]
fn an_encrypted_pool_takes_no_disk_as_it_is() {
    let add = |disk: Disk| Change::Add { disks: vec![disk], erase: ErasePermission::default() };
    let host = opened("bc");
    let refused = change(&raid1("bc"), &add(disk('d', 500 * GB)), None, &host);
    assert!(refused.unwrap_err().to_string().contains("is encrypted, and /dev/sdd"));
    let plan = change(&raid1("bc"), &add(encrypted('d', Unlock::KeyFile)), None, &host).unwrap();
    let added = &commands(&plan)[position(&plan, "btrfs device add")];
    assert_eq!(added, &format!("btrfs device add {} /srv/data", device('d')));
}

#[test]
fn that_further_keys_do_not_open_a_new_disk_is_said() {
    let mut host = opened("bc");
    let slot = |number| crate::luks::KeySlot {
        number,
        stretched_by: "pbkdf2".into(),
        iterations: 1000,
        token: None,
    };
    let add = || Change::Add {
        disks: vec![encrypted('d', Unlock::KeyFile)],
        erase: ErasePermission::default(),
    };
    for (slots, is_said) in [(vec![slot(0)], false), (vec![slot(0), slot(1)], true)] {
        host.luks[1].slots = slots;
        let plan = change(&raid1("bc"), &add(), None, &host).unwrap();
        let said = plan.warnings.iter().any(|each| each.contains("key add data"));
        assert_eq!(said, is_said, "{plan}");
    }
}

#[test]
fn a_disk_that_leaves_is_closed_and_its_keys_erased_after_the_pool_has_let_it_go() {
    let host = opened("bcd");
    let member = MemberName("Sd".into());
    let plan = change(&raid1("bcd"), &Change::Remove { member }, None, &host).unwrap();
    let last: Vec<String> = commands(&plan).into_iter().skip(1).collect();
    let line = host.crypttab.lines().last().unwrap();
    assert_eq!(
        last,
        [
            format!("/etc/crypttab: without {line}"),
            format!("cryptsetup close {}", mapping_name("data", uuid('d'))),
            format!("remove /state/data/{}.luks", uuid('d')),
            "blkdiscard --zeroout --length 16777216 /dev/sdd".to_owned(),
        ]
    );
    // btrfs ends well though a disk took nothing: then what it lacks may only be on this one.
    let took_all = |each: &Condition| matches!(each, Condition::BtrfsTookAll { .. });
    assert!(plan.steps[1].before.iter().any(took_all), "{:?}", plan.steps[1]);
    // It may take no writes any more.
    let erase = plan.step("erase the keys of Sd").unwrap();
    assert_eq!(plan.dispensable.len(), 1);
    let otherwise = plan.otherwise(erase).unwrap();
    assert!(otherwise.contains("destroy the disk"), "{otherwise}");
    assert!(otherwise.contains("braid pool key erase data Sd"), "{otherwise}");
    // One that is somebody else's, or dead, keeps what it has.
    for (change_it, is_said) in [
        ((|volume: &mut LuksVolume| volume.pool = None) as fn(&mut LuksVolume), false),
        (|volume| volume.header = Header::Gone, true),
    ] {
        let mut host = opened("bcd");
        change_it(&mut host.luks[2]);
        let member = MemberName("Sd".into());
        let plan = change(&raid1("bcd"), &Change::Remove { member }, None, &host).unwrap();
        assert!(!plan.to_string().contains("blkdiscard"), "{plan}");
        assert!(plan.to_string().contains("cryptsetup close"), "{plan}");
        assert_eq!(plan.to_string().contains("destroy the disk"), is_said, "{plan}");
    }
}

#[test]
fn the_line_of_a_member_that_is_gone_goes_with_it() {
    let mut host = opened("bc");
    host.luks.truncate(1);
    let ObservedPool::Btrfs(mut pool) = raid1("bc") else { unreachable!() };
    pool.members[1].missing = true;
    (pool.members[1].path, pool.members[1].disk) = (None, None);
    let wanted = Change::Replace {
        member: MemberName("missing".into()),
        by: Box::new(encrypted('d', Unlock::KeyFile)),
        lent: None,
        erase: ErasePermission::default(),
    };
    let plan = change(&ObservedPool::Btrfs(pool), &wanted, None, &host).unwrap();
    let gone = format!("/etc/crypttab: without {}", mapping_name("data", uuid('c')));
    assert!(commands(&plan)[position(&plan, "without")].starts_with(&gone), "{plan}");
    assert!(!plan.to_string().contains("blkdiscard --zeroout --length 16777216 /dev/sdc"));
}

#[test]
fn a_disk_that_was_pulled_out_is_not_opened_when_it_comes_back() {
    let mut host = opened("bc");
    host.luks.truncate(1);
    let ObservedPool::Btrfs(mut pool) = raid1("bc") else { unreachable!() };
    pool.members[1].missing = true;
    let wanted = Change::Replace {
        member: MemberName("/dev/dm-c".into()),
        by: Box::new(encrypted('d', Unlock::KeyFile)),
        lent: None,
        erase: ErasePermission::default(),
    };
    let plan = change(&ObservedPool::Btrfs(pool), &wanted, None, &host).unwrap();
    let name = mapping_name("data", uuid('c'));
    let close = format!("cryptsetup close {name}");
    let line = format!("/etc/crypttab: without {name}");
    assert!(position(&plan, &line) < position(&plan, &close), "{plan}");
    assert!(plan.otherwise(plan.step(&format!("close {name}")).unwrap()).is_some());
    assert!(plan.to_string().contains(&format!("remove /state/data/{}.luks", uuid('c'))), "{plan}");
}

#[test]
fn what_an_erased_disk_held_is_said_to_stay_readable() {
    let mut full = encrypted('b', Unlock::KeyFile);
    full.contents.push(ext4());
    let erase = ErasePermission::for_disks([full.id()]);
    let wanted = NewPool { erase, ..new("btrfs-single", vec![full]) };
    let plan = create(&wanted, &host()).unwrap();
    assert!(position(&plan, "wipefs") < position(&plan, "luksFormat"));
    assert!(plan.warnings.iter().any(|each| each.contains("until it is overwritten")), "{plan}");
}
