//! A disk counts as free only if it is empty; filesystems made by their own tools, then damaged so
//! that nothing recognises them any more.

use braid_disks::{AskSmart, HostRoot, Inventory};
use braid_loop_disks::{LoopDisk, fast_folder, in_private_mounts};
use braid_pool::disk::Usability;
use braid_units::ByteSize;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::process::Command;

const MIB: u64 = 1 << 20;
/// Large enough for each mkfs, and for btrfs' second superblock.
const SIZE: u64 = 400 * MIB;

/// What `braid pool disks` says of its use.
fn verdict(disk: &LoopDisk) -> String {
    let mut inventory = Inventory::take(&HostRoot::real(), AskSmart::No);
    inventory.examine(|seen| seen.path == disk.path());
    match inventory.by_path(disk.path()).unwrap().usability() {
        Usability::Free => "free".to_owned(),
        Usability::AfterErase { why } => format!("erase: {why}"),
        Usability::No { why } => format!("no: {why}"),
    }
}

struct Bench {
    folder: tempfile::TempDir,
}

impl Bench {
    fn new() -> Bench {
        Bench { folder: tempfile::tempdir_in(fast_folder()).unwrap() }
    }

    fn disk(&self) -> LoopDisk {
        LoopDisk::new(self.folder.path(), "disk", ByteSize::from_bytes(SIZE)).unwrap()
    }

    /// A disk on which this shell command was run, if its program is installed.
    fn made_by(&self, command: &str) -> Option<LoopDisk> {
        let program = command.split(' ').next()?;
        let disk = self.disk();
        let script = format!("command -v {program} > /dev/null || exit 77; {command}");
        let mut shell = Command::new("sh");
        shell.args(["-ec", &script]).env("DISK", disk.path());
        shell.env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin").current_dir(self.folder.path());
        let output = shell.output().unwrap();
        if output.status.code() == Some(77) {
            println!("{program} is not installed: skipped");
            return None;
        }
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
        Some(disk)
    }
}

fn device(disk: &LoopDisk) -> File {
    File::options().read(true).write(true).open(disk.path()).unwrap()
}

fn write(disk: &LoopDisk, at: u64, bytes: &[u8]) {
    let device = device(disk);
    device.write_all_at(bytes, at).unwrap();
    device.sync_all().unwrap();
}

/// Bytes without any pattern.
fn noise(length: u64) -> Vec<u8> {
    let mut state = 1_u64;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u8
    };
    (0..length).map(|_| next()).collect()
}

#[test]
fn only_a_blank_disk_is_free() {
    in_private_mounts("only_a_blank_disk_is_free", || {
        let bench = Bench::new();
        let disk = bench.disk();
        assert_eq!(verdict(&disk), "free");
        // As erased flash reads.
        for at in 0..SIZE / MIB {
            device(&disk).write_all_at(&[0xff; MIB as usize], at * MIB).unwrap();
        }
        device(&disk).sync_all().unwrap();
        assert_eq!(verdict(&disk), "free");
    });
}

#[test]
fn a_filesystem_whose_start_is_gone_is_not_free() {
    in_private_mounts("a_filesystem_whose_start_is_gone_is_not_free", || {
        let bench = Bench::new();
        // What makes it, and how much of its start is lost: the first block, and all that lies in
        // one piece there.
        for (make, lost) in [
            ("mkfs.ext4 -q $DISK", [4096, 8 * MIB]),
            ("mkfs.ext4 -q -b 1024 $DISK", [4096, 8 * MIB]),
            ("mkfs.ext2 -q -b 2048 $DISK", [4096, 8 * MIB]),
            ("mkfs.xfs -q $DISK", [512, 8 * MIB]),
            ("mkfs.btrfs -q $DISK", [128 << 10, 8 * MIB]),
            ("mkfs.vfat $DISK", [512, 8192]),
            ("mkfs.exfat $DISK", [512, 4096]),
            ("mkntfs -q -Q -F $DISK", [512, 4 * MIB]),
            ("mkswap -q $DISK", [512, 1536]),
            (
                "cryptsetup -q luksFormat --type luks1 --pbkdf-force-iterations 1000 $DISK /etc/passwd",
                [512, 4096],
            ),
            (
                "cryptsetup -q luksFormat --type luks2 --pbkdf pbkdf2 --pbkdf-force-iterations 1000 $DISK /etc/passwd",
                [512, 4096],
            ),
            ("mkfs.f2fs -q $DISK", [1024, 8192]),
            ("echo label: gpt | sfdisk -q $DISK", [512, 34 * 512]),
        ] {
            for lost in lost {
                let Some(disk) = bench.made_by(make) else { break };
                let before = verdict(&disk);
                assert!(before.starts_with("erase: "), "{make}: {before}");
                write(&disk, 0, &vec![0; lost as usize]);
                let after = verdict(&disk);
                assert!(after.starts_with("erase: "), "{make} without {lost} bytes: {after}");
                println!("{make} without {lost} bytes: {after}");
            }
        }
    });
}

#[test]
fn what_no_tool_recognises_is_not_free() {
    in_private_mounts("what_no_tool_recognises_is_not_free", || {
        let bench = Bench::new();
        let text = b"Dear diary, today I wrote to the whole disk.\n".repeat(200_000);
        for (what, at, bytes, says) in [
            ("encrypted without a header", 0, noise(MIB).repeat(400), "random bytes"),
            ("a text", 0, text.clone(), "text at byte 0"),
            ("a text in the middle only", SIZE / 2, text, "text at byte"),
            ("photos in the middle only", 3 * SIZE / 7, noise(8 * MIB), "random bytes"),
            ("the last sector", SIZE - 512, vec![7; 512], "data at byte 419429888"),
            ("one byte of the first", 0, vec![1], "data at byte 0"),
            ("one byte of the last", SIZE - 1, vec![1], "data at byte 419429888"),
            ("erased flash, written to", 20 * MIB, vec![0xff; 100 << 20], "all ones at byte"),
        ] {
            let disk = bench.disk();
            write(&disk, at, &bytes);
            let found = verdict(&disk);
            assert!(found.starts_with("erase: unknown content: "), "{what}: {found}");
            assert!(found.contains(says), "{what}: {found}");
        }
        let tar = bench.made_by("tar -C /etc -cf $DISK passwd group").unwrap();
        assert!(verdict(&tar).contains("a tar archive at byte 0"), "{}", verdict(&tar));
    });
}

/// Bytes that the formats' own headers describe, where these lie.
#[test]
fn headers_of_raids_and_labels_are_seen_though_damaged_or_unknown_to_blkid() {
    let name = "headers_of_raids_and_labels_are_seen_though_damaged_or_unknown_to_blkid";
    in_private_mounts(name, || {
        let bench = Bench::new();
        let at_64k = (SIZE & !0xffff) - 0x10000;
        let lvm = [b"LABELONE".as_slice(), &[1, 0, 0, 0, 0, 0, 0, 0]].concat();
        for (what, at, bytes) in [
            ("md 1.2 with a wrong byte in its magic", 4096, b"\xfc\x4e\x2b\xa8\x01\0\0\0".to_vec()),
            ("md 1.0", SIZE - 0x4000, b"\xfc\x4e\x2b\xa8\x01\0\0\0".to_vec()),
            ("md 0.90", at_64k, b"\xfc\x4e\x2b\xa8\0\0\0\0".to_vec()),
            ("DDF", SIZE - 512, b"\xde\x11\xde\x11".to_vec()),
            ("IMSM", SIZE - 1024, b"Intel Raid ISM Cfg Sig. 1.0.00".to_vec()),
            ("DRBD 9", SIZE - 4096 + 60, b"\x83\x74\x02\x6d".to_vec()),
            ("BSD", 512, b"\x57\x45\x56\x82".to_vec()),
            ("Atari", 0x1c6, b"\x01GEM\0\0\0\x02\0\0\x10\0".to_vec()),
            ("LVM without its first sector's checksum", 512, lvm),
            ("LVM's metadata", 4608 + 4, b" LVM2 x[5A%r0N*>\x01".to_vec()),
            ("bcache", 4096 + 24, b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca".to_vec()),
            ("ZFS label 1", 256 << 10, b"\x0c\xb1\xba\0".to_vec()),
            ("ZFS label 3", SIZE - (256 << 10) + (128 << 10), b"\x0c\xb1\xba\0".to_vec()),
            ("LUKS2's second header", 4 * MIB, b"SKUL\xba\xbe\0\x02".to_vec()),
            ("GPT's backup", SIZE - 512, b"EFI PART".to_vec()),
            ("btrfs' second superblock", 64 * MIB + 0x40, b"_BHRfS_M".to_vec()),
        ] {
            let disk = bench.disk();
            write(&disk, at, &bytes);
            let found = verdict(&disk);
            assert!(found.starts_with("erase: ") || found.starts_with("no: "), "{what}: {found}");
            println!("{what}: {found}");
        }
    });
}

#[test]
fn a_filesystem_behind_a_lost_partition_table_is_not_free() {
    in_private_mounts("a_filesystem_behind_a_lost_partition_table_is_not_free", || {
        let bench = Bench::new();
        for make in ["mkfs.ext4 -q", "mkfs.xfs -q", "mkfs.btrfs -q"] {
            let copy = format!(
                "truncate -s {} part; {make} part; dd if=part of=$DISK bs=1M seek=1 conv=fsync,sparse status=none; rm part",
                SIZE - 2 * MIB
            );
            let disk = bench.made_by(&copy).unwrap();
            let found = verdict(&disk);
            assert!(found.contains("superblock at byte"), "{make}: {found}");
            // And with what follows the table.
            write(&disk, 0, &vec![0; 16 << 20]);
            let found = verdict(&disk);
            assert!(found.starts_with("erase: unknown content: "), "{make}: {found}");
        }
    });
}
