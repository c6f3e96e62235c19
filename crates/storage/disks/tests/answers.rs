//! Other programs' answers, of several versions, and what is none.

use braid_disks::signature::{Signature, blkid, wipefs};
use braid_disks::smart::{self, SmartError};
use braid_disks::superblock;
use braid_pool::disk::Health;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

fn fixture(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    fs::read_to_string(path).unwrap()
}

fn blkid_says(name: &str) -> Signature {
    let mut found = blkid::parse(&fixture(&format!("signatures/{name}"))).unwrap();
    assert_eq!(found.len(), 1, "{name}: {found:?}");
    found.remove(0)
}

#[test]
fn blkid_names_filesystems_members_and_tables() {
    let btrfs = blkid_says("blkid-2.38-btrfs.txt");
    assert_eq!((btrfs.kind.as_str(), btrfs.label.as_deref()), ("btrfs", Some("my photos")));
    let md = blkid_says("blkid-2.38-md.txt");
    assert_eq!(md.kind, "linux_raid_member");
    assert_eq!(md.uuid.as_deref(), Some("23bfb5a5-fab8-c20e-816f-1c8213d382de"));
    assert_eq!(blkid_says("blkid-2.29-ext4.txt").kind, "ext4");
    let table = blkid_says("blkid-2.41-gpt.txt");
    assert_eq!(
        (table.kind.as_str(), table.usage.as_deref()),
        ("gpt", Some(blkid::PARTITION_TABLE))
    );
}

#[test]
fn a_partition_without_anything_on_it_is_empty_to_blkid() {
    let text = "DEVNAME=/dev/sda1\nPART_ENTRY_SCHEME=gpt\nPART_ENTRY_NUMBER=1\n";
    assert_eq!(blkid::parse(text), Ok(Vec::new()));
}

#[test]
fn another_form_than_blkids_is_an_error_and_no_empty_disk() {
    for text in ["/dev/sda: TYPE=\"ext4\"", "TYPE ext4", "=x", "usage: blkid"] {
        assert!(blkid::parse(text).is_err(), "{text}");
    }
    assert!(wipefs::parse("DEVICE OFFSET TYPE UUID LABEL\nsda 0x438 ext4").is_err());
}

#[test]
fn wipefs_lists_what_blkid_calls_ambivalent() {
    let found = wipefs::parse(&fixture("signatures/wipefs-2.38.json")).unwrap();
    let kinds: Vec<&str> = found.iter().map(|signature| signature.kind.as_str()).collect();
    assert_eq!(kinds, ["ext4", "btrfs"]);
    assert_eq!(found[0].label.as_deref(), Some("a b\"c\\d é"));
    assert_eq!(wipefs::parse(&fixture("signatures/wipefs-2.33-gpt.json")).unwrap().len(), 3);
    assert_eq!(wipefs::parse("").unwrap(), []);
    assert_eq!(wipefs::parse("{\"signatures\": [\n\n]}").unwrap(), []);
}

fn smart_says(name: &str, status: i32) -> smart::Smart {
    smart::parse("/dev/sda", &fixture(&format!("smart/{name}.json")), status).unwrap()
}

fn doubts(health: &Health) -> &str {
    match health {
        Health::Doubtful { why } => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_good_disk_with_error_recovery_control() {
    let smart = smart_says("7.3-ata-good", 0);
    assert_eq!(smart.health, Health::Good);
    let recovery = smart.error_recovery.unwrap();
    assert_eq!((recovery.limit, recovery.can_limit), (Some(Duration::from_secs(7)), true));
}

#[test]
fn only_bits_0_and_1_of_smartctls_status_mean_that_nothing_was_said() {
    // 64: the error log isn't empty; the attributes count.
    let smart = smart_says("7.2-ata-pending-no-erc", 64);
    assert_eq!(doubts(&smart.health), "16 reallocated sectors, 8 pending sectors");
    let recovery = smart.error_recovery.unwrap();
    assert_eq!((recovery.limit, recovery.can_limit), (None, false));
    assert_eq!(smart_says("7.3-ata-good", 4).health, Health::Good);
    assert!(doubts(&smart_says("7.3-ata-good", 16).health).contains("threshold"));
    assert!(doubts(&smart_says("7.3-ata-good", 128).health).contains("self-test"));
    for bit in [1, 2] {
        let error = smart::parse("/dev/sda", &fixture("smart/7.3-ata-good.json"), bit);
        assert!(matches!(error, Err(SmartError::Refused(..))), "{bit}");
    }
}

#[test]
fn a_failing_disk_says_so_by_its_verdict_or_by_the_status() {
    let smart = smart_says("7.3-ata-failing-erc-off", 24);
    assert!(matches!(smart.health, Health::Failing { .. }));
    let recovery = smart.error_recovery.unwrap();
    assert_eq!((recovery.limit, recovery.can_limit), (None, true));
    assert!(matches!(smart_says("7.3-ata-good", 8).health, Health::Failing { .. }));
}

#[test]
fn flash_wears_out() {
    let smart = smart_says("7.4-nvme-worn", 0);
    assert_eq!(doubts(&smart.health), "2 media errors, 103 % of its rated life used");
    assert_eq!(smart.error_recovery, None);
}

#[test]
fn disks_of_every_kind_and_age_of_smartctl_are_understood() {
    for (name, status, expected) in [
        ("7.0-ata-ssd-good", 0, "good"),
        ("7.4-sas-good", 0, "good"),
        ("7.3-sas-defects", 0, "11 grown defects, 4 uncorrected errors"),
        ("7.1-sas-failing", 8, "failing"),
        ("7.1-nvme-failing", 8, "failing"),
        ("7.5-nvme-spare-low", 0, "good"),
        // Bit 2: a command to the disk failed; nothing is known, and it is no error.
        ("7.3-usb-no-smart", 4, "unknown"),
    ] {
        let found = match smart_says(name, status).health {
            Health::Good => "good".to_owned(),
            Health::Unknown => "unknown".to_owned(),
            Health::Failing { .. } => "failing".to_owned(),
            Health::Doubtful { why } => why,
        };
        assert_eq!(found, expected, "{name}");
    }
    let erc = smart_says("7.0-ata-ssd-good", 0).error_recovery.unwrap();
    assert_eq!((erc.limit, erc.can_limit), (None, true));
    let bridge = smart::parse("/dev/sdf", &fixture("smart/7.2-usb-unknown-bridge.json"), 1);
    assert!(matches!(bridge, Err(SmartError::Refused(_, why)) if why.contains("USB bridge")));
}

/// Real answers, recorded with QEMU 7.2's emulated disks by smartctl of Debian 11, 12, 13 and sid:
/// ATA with and without a self-test, NVMe, the same with critical warnings 0x09 (spare, read-only),
/// SCSI without SMART, a USB stick.
#[test]
fn what_real_disks_answered_is_understood() {
    let recorded = |name: &str| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded/smart");
        fs::read_to_string(folder.join(format!("{name}.json"))).unwrap()
    };
    let says = |name: &str, status: i32| smart::parse("/dev/sda", &recorded(name), status).unwrap();
    for name in ["7.2-ata", "7.3-ata", "7.4-ata", "7.5-ata", "7.5-ata-tested"] {
        let smart = says(name, 0);
        assert_eq!((smart.health, smart.error_recovery), (Health::Good, None), "{name}");
    }
    let warm = ["7.5-ata", "7.2-nvme"].map(|name| says(name, 0).temperature_c);
    assert_eq!(warm, [Some(31), Some(50)]);
    for name in ["7.2-nvme", "7.5-nvme"] {
        assert_eq!(says(name, 0).health, Health::Good, "{name}");
    }
    for name in ["7.2-nvme-warns", "7.3-nvme-warns", "7.4-nvme-warns", "7.5-nvme-warns"] {
        let why = "SMART's own verdict is FAILED: too few spare blocks, read-only".to_owned();
        assert_eq!(says(name, 8).health, Health::Failing { why }, "{name}");
    }
    for version in ["7.2", "7.5"] {
        assert_eq!(says(&format!("{version}-scsi"), 4).health, Health::Unknown);
        // smartctl takes the stick for a sleeping disk when it is told to speak SAT.
        let first = smart::parse("/dev/sdd", &recorded(&format!("{version}-usb")), 1);
        assert!(
            matches!(&first, Err(SmartError::Refused(_, why)) if why.contains("USB bridge")),
            "{first:?}"
        );
        let by_sat = recorded(&format!("{version}-usb-by-sat"));
        let second = smart::parse_by_sat("/dev/sdd", &by_sat, 2).unwrap_err().to_string();
        assert!(second.contains("doesn't speak SAT"), "{second}");
        assert!(matches!(smart::parse("/dev/sdd", &by_sat, 2), Err(SmartError::Asleep(_))));
    }
}

#[test]
fn a_sleeping_disk_is_no_broken_one() {
    let asleep = smart::parse("/dev/sda", &fixture("smart/7.3-standby.json"), 2);
    assert!(matches!(asleep, Err(SmartError::Asleep(_))));
    let asleep = smart::parse("/dev/sdk", &fixture("smart/7.4-sas-standby.json"), 2);
    assert!(matches!(asleep, Err(SmartError::Asleep(_))));
    let gone = smart::parse("/dev/sdz", &fixture("smart/7.3-no-device.json"), 2).unwrap_err();
    assert!(gone.to_string().contains("No such device"), "{gone}");
    assert!(matches!(smart::parse("/dev/sda", "Usage:", 1), Err(SmartError::Form(..))));
}

proptest! {
    #[test]
    fn any_bytes_make_no_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600), magic in 0..3usize) {
        // Real magic numbers, so that the parsers go on into the rubbish.
        let mut page = vec![0; 4096];
        page[..bytes.len()].copy_from_slice(&bytes);
        match magic {
            0 => {
                page[0x40..0x48].copy_from_slice(b"_BHRfS_M");
                page[0x30..0x38].copy_from_slice(&65_536u64.to_le_bytes());
                prop_assert!(superblock::btrfs::parse(&page).is_some());
            }
            1 => page[..8].copy_from_slice(&[0xfc, 0x4e, 0x2b, 0xa9, 1, 0, 0, 0]),
            _ => page[..12].copy_from_slice(&[0xfc, 0x4e, 0x2b, 0xa9, 0, 0, 0, 0, 90, 0, 0, 0]),
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), &page).unwrap();
        for size in [0, 4096, 8192, u64::MAX] {
            let _ = superblock::md::read(file.path(), size);
        }
        let there = BTreeMap::from([(1, file.path().to_owned())]);
        let _ = superblock::btrfs::devices::read(&page, &there);
        let cut = superblock::btrfs::parse(&page[..bytes.len()]);
        prop_assert!(bytes.len() >= 0x22b || cut.is_none());
    }

    #[test]
    fn any_text_makes_no_panic(text in "\\PC{0,200}") {
        let _ = blkid::parse(&text);
        let _ = wipefs::parse(&text);
        let _ = smart::parse("/dev/sda", &text, 0);
    }
}
