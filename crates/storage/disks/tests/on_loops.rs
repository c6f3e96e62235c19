//! Real disks, made of loop devices: what is on them, and btrfs on them.

use braid_disks::block_device::{self, BlockDevice};
use braid_disks::signature::{self, Signatures};
use braid_disks::superblock::btrfs::devices;
use braid_disks::{AskSmart, HostRoot, Inventory, btrfs, btrfs_ioctl, disk_now, superblock};
use braid_loop_disks::{LoopDisk, fast_folder, in_private_mounts, run};
use braid_pool::disk::{Content, Disk, Family, Usability};
use braid_pool::layout::Profile;
use braid_pool::observed::{ObservedBtrfs, Purpose};
use braid_units::ByteSize;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

const SIZE: ByteSize = ByteSize::from_bytes(300 << 20);

/// As a command sees it that is to take it.
fn now(disk: &LoopDisk) -> Disk {
    let mut inventory = Inventory::take(&HostRoot::real(), AskSmart::No);
    inventory.examine(|seen| seen.path == disk.path());
    inventory.by_path(disk.path()).unwrap().clone()
}

fn why(disk: &Disk) -> String {
    match disk.usability() {
        Usability::Free => "free".to_owned(),
        Usability::AfterErase { why } => format!("erase: {why}"),
        Usability::No { why } => format!("no: {why}"),
    }
}

#[test]
fn a_disk_tells_what_is_on_it() {
    in_private_mounts("a_disk_tells_what_is_on_it", || {
        let dir = tempfile::tempdir_in(fast_folder()).unwrap();
        let disk = LoopDisk::new(dir.path(), "my disk", SIZE).unwrap();
        let empty = now(&disk);
        assert_eq!(why(&empty), "free");
        assert_eq!(empty.size_bytes, SIZE.bytes());
        assert_eq!(empty.id().as_str(), format!("loop:{}", disk.file().display()));

        run("mkfs.ext4", &["-q", "-L", "holiday é", disk.path()]);
        let carries = why(&now(&disk));
        assert!(carries.starts_with("erase: ext4 filesystem \"holiday é\" (UUID "), "{carries}");

        let at = dir.path().join("mnt");
        fs::create_dir(&at).unwrap();
        run("mount", &[disk.path(), at.to_str().unwrap()]);
        let mounted = now(&disk);
        assert_eq!(why(&mounted), format!("no: mounted at {}", at.display()));
        run("umount", &[at.to_str().unwrap()]);

        // A btrfs behind an ext4 that was not wiped: blkid calls it ambivalent.
        let device = File::options().write(true).open(disk.path()).unwrap();
        device.write_all_at(b"_BHRfS_M", (64 << 10) + 0x40).unwrap();
        let both = now(&disk).contents;
        assert!(
            both.iter().any(|c| matches!(c, Content::Filesystem { kind, .. } if kind == "ext4"))
        );
        assert!(both.iter().any(|c| matches!(c, Content::Member { family: Family::Btrfs, .. })));

        run("wipefs", &["-qa", disk.path()]);
        let wiped = why(&now(&disk));
        assert!(wiped.starts_with("erase: unknown content: "), "{wiped}");
        run("mkswap", &["-q", "-L", "spare", disk.path()]);
        assert_eq!(why(&now(&disk)), "erase: swap area \"spare\"");
    });
}

/// libblkid 2.38 and older take such a member for empty.
#[test]
fn a_member_of_bcachefs_is_left_alone() {
    in_private_mounts("a_member_of_bcachefs_is_left_alone", || {
        let dir = tempfile::tempdir_in(fast_folder()).unwrap();
        let disk = LoopDisk::new(dir.path(), "disk", SIZE).unwrap();
        let magic = b"\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef";
        let device = File::options().write(true).open(disk.path()).unwrap();
        device.write_all_at(magic, 4096 + 24).unwrap();
        device.write_all_at(&[0x11; 16], 4096 + 56).unwrap();
        device.sync_all().unwrap();
        let carries = why(&now(&disk));
        let member =
            "no: member of bcachefs (UUID 11111111-1111-1111-1111-111111111111): Braid leaves";
        assert!(carries.starts_with(member), "{carries}");
    });
}

/// The article's mistake: `/dev/sdd` written for `/dev/sdd5`.
#[test]
fn a_disk_with_partitions_is_as_busy_as_they_are() {
    in_private_mounts("a_disk_with_partitions_is_as_busy_as_they_are", || {
        let dir = tempfile::tempdir_in(fast_folder()).unwrap();
        let file = dir.path().join("disk");
        let image = File::create(&file).unwrap();
        image.set_len(SIZE.bytes()).unwrap();
        image.write_all_at(&old_partition_table(2048, 200_000), 446).unwrap();
        let disk = LoopDisk::plug_in(&file).unwrap();
        let part = format!("{}p1", disk.path());
        if !Path::new(&part).exists() {
            // This kernel doesn't read such tables; it can be told.
            run("addpart", &[disk.path(), "1", "2048", "200000"]);
        }
        run("mkfs.ext4", &["-q", &part]);
        let whole = now(&disk);
        let table = format!("erase: dos partition table with {part}, ext4 filesystem (UUID ");
        assert!(why(&whole).starts_with(&table), "{whole:?}");
        assert!(why(&whole).ends_with(&format!(" on {part}")), "{whole:?}");
        let host = HostRoot::real();
        let inside = disk_now(&host, &part).unwrap();
        assert!(why(&inside).starts_with("erase: ext4"), "{inside:?}");
        assert_eq!(inside.partition.as_ref().unwrap().start_bytes, 1 << 20);
        assert_eq!(inside.physical_disk(), disk.path());
        assert_eq!(inside.id().as_str(), format!("{}-part1", whole.id()));

        let at = dir.path().join("mnt");
        fs::create_dir(&at).unwrap();
        run("mount", &[&part, at.to_str().unwrap()]);
        assert_eq!(why(&now(&disk)), format!("no: mounted at {}", at.display()));
        run("umount", &[at.to_str().unwrap()]);
    });
}

#[test]
fn a_table_whose_partitions_the_kernel_does_not_show_is_not_called_empty() {
    let name = "a_table_whose_partitions_the_kernel_does_not_show_is_not_called_empty";
    in_private_mounts(name, || {
        let dir = tempfile::tempdir_in(fast_folder()).unwrap();
        let disk = LoopDisk::new(dir.path(), "disk", SIZE).unwrap();
        for (table, says) in [
            ("label: gpt", "empty gpt partition table"),
            ("label: dos", "empty dos partition table"),
            (
                "label: gpt\nsize=10MiB\nsize=+",
                "gpt partition table with 2 that the kernel doesn't show",
            ),
            (
                "label: dos\nsize=10MiB\nsize=+",
                "dos partition table with 2 that the kernel doesn't show",
            ),
        ] {
            let script = format!(
                "wipefs -qa $0; printf '{table}\n' | sfdisk -q --no-reread --no-tell-kernel $0"
            );
            run("sh", &["-c", &script, disk.path()]);
            // Some kernels know such tables.
            let _ = std::process::Command::new("partx").args(["--delete", disk.path()]).output();
            let found = why(&now(&disk));
            assert!(found.starts_with(&format!("erase: {says}")), "{found}");
        }
    });
}

/// One entry of the partition table of PCs, and the signature behind all four.
fn old_partition_table(start: u32, sectors: u32) -> Vec<u8> {
    let mut table = vec![0; 66];
    table[4] = 0x83;
    table[8..12].copy_from_slice(&start.to_le_bytes());
    table[12..16].copy_from_slice(&sectors.to_le_bytes());
    table[64..].copy_from_slice(&[0x55, 0xaa]);
    table
}

#[test]
fn the_user_names_a_disk_by_path_or_id() {
    in_private_mounts("the_user_names_a_disk_by_path_or_id", || {
        let dir = tempfile::tempdir_in(fast_folder()).unwrap();
        let disk = LoopDisk::new(dir.path(), "disk", SIZE).unwrap();
        let twin = LoopDisk::plug_in(disk.file()).unwrap();
        let other = LoopDisk::new(dir.path(), "other", SIZE).unwrap();
        let inventory = Inventory::take(&HostRoot::real(), AskSmart::No);
        let id = format!("loop:{}", other.file().display());
        assert_eq!(inventory.find(&id).unwrap().path, other.path());
        assert_eq!(inventory.find(other.path()).unwrap().id().as_str(), id);
        assert!(inventory.find("/dev/nonsuch").is_err());
        // Two devices with the same id: permission for it would be permission for both.
        let shared = format!("loop:{}", disk.file().display());
        assert!(inventory.find(&shared).is_err());
        assert_eq!(inventory.by_path(twin.path()).unwrap().id().as_str(), twin.path());
        assert!(inventory.notes.iter().any(|note| note.contains(&shared)));
    });
}

/// A btrfs of two loop devices, mounted at `mnt`.
struct Pool {
    dir: tempfile::TempDir,
    disks: Vec<LoopDisk>,
}

impl Pool {
    fn new(data: &str, metadata: &str) -> Self {
        let dir = tempfile::tempdir_in(fast_folder()).unwrap();
        let disks: Vec<LoopDisk> =
            ["a", "b"].iter().map(|name| LoopDisk::new(dir.path(), name, SIZE).unwrap()).collect();
        let paths: Vec<&str> = disks.iter().map(LoopDisk::path).collect();
        run(
            "mkfs.btrfs",
            &[&["-q", "-L", "my pool", "-d", data, "-m", metadata], &paths[..]].concat(),
        );
        fs::create_dir(dir.path().join("mnt")).unwrap();
        Pool { dir, disks }
    }

    fn at(&self) -> String {
        self.dir.path().join("mnt").to_str().unwrap().to_owned()
    }

    fn mount(&self, options: &str) {
        run("mount", &["-o", options, self.disks[0].path(), &self.at()]);
    }

    fn unmount(&self) {
        run("umount", &[&self.at()]);
    }

    /// As it is seen now; other tests' and the host's own are passed over.
    fn observe(&self) -> ObservedBtrfs {
        let host = HostRoot::real();
        let inventory = Inventory::take(&host, AskSmart::No);
        let mine = |pool: &ObservedBtrfs| {
            pool.members.iter().any(|m| m.path.as_deref() == Some(self.disks[0].path()))
        };
        let mut all = btrfs::observe(&host, &inventory);
        all.retain(mine);
        assert_eq!(all.len(), 1, "{all:#?}");
        all.remove(0)
    }
}

#[test]
fn a_mounted_btrfs_is_seen_with_its_members_and_profiles() {
    in_private_mounts("a_mounted_btrfs_is_seen_with_its_members_and_profiles", || {
        let pool = Pool::new("raid1", "raid1");
        let before = pool.observe();
        assert_eq!((before.mounts.len(), before.members.len(), before.space.len()), (0, 2, 0));
        assert_eq!(before.label.as_deref(), Some("my pool"));

        pool.mount("defaults");
        fs::write(pool.dir.path().join("mnt/file"), vec![7; 3 << 20]).unwrap();
        fs::create_dir(pool.dir.path().join("mnt/db")).unwrap();
        run("sync", &["-f", &pool.at()]);
        let seen = pool.observe();
        assert_eq!((seen.uuid, seen.label.as_deref()), (before.uuid, Some("my pool")));
        assert_eq!(seen.profiles(Purpose::Data), [Profile::Raid1]);
        assert_eq!(seen.profiles(Purpose::Metadata), [Profile::Raid1]);
        assert!(seen.space_of(Purpose::Data).1 >= 3 << 20);
        assert_eq!(seen.mounts[0].at, pool.at());
        assert!(!seen.quotas && seen.nodatacow.is_empty() && !seen.scrub.running);
        for (member, disk) in seen.members.iter().zip(&pool.disks) {
            assert_eq!(member.path.as_deref(), Some(disk.path()));
            let id = format!("loop:{}", disk.file().display());
            assert_eq!(member.disk.as_ref().unwrap().as_str(), id);
            assert_eq!((member.size_bytes, member.missing), (SIZE.bytes(), false));
            assert!(member.allocated_bytes > 0 && member.errors.sum() == 0);
            let used = why(&now(disk));
            assert_eq!(used, format!("no: mounted at {}", pool.at()));
        }

        run("btrfs", &["quota", "enable", &pool.at()]);
        run("chattr", &["+C", &format!("{}/db", pool.at())]);
        let seen = pool.observe();
        assert!(seen.quotas);
        assert_eq!(seen.nodatacow, [format!("{}/db", pool.at())]);

        assert_eq!(seen.scrub.ended_ago, None);
        run("btrfs", &["scrub", "start", "-B", &pool.at()]);
        let scrubbed = pool.observe().scrub;
        assert!(scrubbed.ended_ago.unwrap() < Duration::from_secs(600));
        assert!(!scrubbed.running);
        // btrfs-progs' records outlive the filesystem.
        let _ = fs::remove_file(format!("/var/lib/btrfs/scrub.status.{}", seen.uuid));
        pool.unmount();
    });
}

#[test]
fn a_btrfs_that_ran_without_a_member_shows_it_and_what_it_left_behind() {
    in_private_mounts("a_btrfs_that_ran_without_a_member_shows_it_and_what_it_left_behind", || {
        let mut pool = Pool::new("raid1", "raid1");
        pool.mount("defaults");
        pool.unmount();
        let gone = pool.disks.pop().unwrap();
        run("btrfs", &["device", "scan", "--forget", gone.path()]);
        let gone = gone.unplug();
        let lacking = pool.observe();
        let missing: Vec<_> =
            lacking.missing().map(|member| (member.devid, member.size_bytes)).collect();
        assert_eq!(missing, [(2, SIZE.bytes())], "known before it is mounted");

        pool.mount("degraded");
        // More than fits into the chunks that were there.
        fs::write(pool.dir.path().join("mnt/file"), vec![7; 120 << 20]).unwrap();
        run("sync", &["-f", &pool.at()]);
        let degraded = pool.observe();
        let missing: Vec<u64> = degraded.missing().map(|member| member.devid).collect();
        assert_eq!(missing, [2]);
        assert_eq!(degraded.members[1].size_bytes, SIZE.bytes());
        assert!(degraded.mounts[0].has("degraded"));
        assert_eq!(degraded.profiles(Purpose::Data).len(), 2, "{:?}", degraded.space);
        assert!(degraded.profiles(Purpose::Data).contains(&Profile::Single));
        pool.unmount();

        // The member comes back, behind by what it missed.
        pool.disks.push(LoopDisk::plug_in(&gone).unwrap());
        let again = pool.observe();
        assert_eq!(again.missing().count(), 0);
        let behind = again.members.iter().find(|member| member.devid == 2).unwrap();
        assert!(behind.generation.unwrap() < again.generation, "{again:#?}");
    });
}

/// A disk that takes no writes when it is removed or replaced keeps its superblock.
#[test]
fn what_has_left_with_its_superblock_is_no_member() {
    in_private_mounts("what_has_left_with_its_superblock_is_no_member", || {
        let pool = Pool::new("raid1", "raid1");
        let [removed, new] =
            ["removed", "new"].map(|name| LoopDisk::new(pool.dir.path(), name, SIZE).unwrap());
        let replaced = &pool.disks[1];
        pool.mount("defaults");
        run("btrfs", &["device", "add", removed.path(), &pool.at()]);
        run("sync", &["-f", &pool.at()]);
        let left = [&removed, replaced];
        let before = left.map(|disk| devices::superblock(Path::new(disk.path())).unwrap());
        run("btrfs", &["device", "remove", removed.path(), &pool.at()]);
        run("btrfs", &["replace", "start", "-B", replaced.path(), new.path(), &pool.at()]);
        pool.unmount();
        for (disk, superblock) in left.iter().zip(&before) {
            let device = File::options().write(true).open(disk.path()).unwrap();
            device.write_all_at(superblock, 64 << 10).unwrap();
        }

        let seen = pool.observe();
        let members: Vec<_> = seen.members.iter().map(|m| (m.devid, m.path.as_deref())).collect();
        assert_eq!(members, [(1, Some(pool.disks[0].path())), (2, Some(new.path()))]);
        for disk in left {
            run("btrfs", &["device", "scan", "--forget", disk.path()]);
        }
    });
}

/// What a power cut leaves of a replace: the new disk has a superblock with the number 0.
#[test]
fn the_target_of_an_interrupted_replace_is_no_member() {
    in_private_mounts("the_target_of_an_interrupted_replace_is_no_member", || {
        let mut pool = Pool::new("raid1", "raid1");
        drop(pool.disks.pop());
        let target = LoopDisk::new(pool.dir.path(), "target", SIZE).unwrap();
        let mut superblock = devices::superblock(Path::new(pool.disks[0].path())).unwrap();
        const DEVID: usize = 0xc9;
        superblock[DEVID..][..8].fill(0);
        let sum = crc32c(&superblock[32..]);
        superblock[..4].copy_from_slice(&sum.to_le_bytes());
        let device = File::options().write(true).open(target.path()).unwrap();
        device.write_all_at(&superblock, 64 << 10).unwrap();
        drop(device);

        let seen = pool.observe();
        let members: Vec<_> = seen.members.iter().map(|m| (m.devid, m.missing)).collect();
        assert_eq!(members, [(1, false), (2, true)]);
    });
}

fn crc32c(bytes: &[u8]) -> u32 {
    let step = |sum: u32, _| if sum & 1 == 0 { sum >> 1 } else { sum >> 1 ^ 0x82f6_3b78 };
    !bytes.iter().fold(!0, |sum, byte| (0..8).fold(sum ^ u32::from(*byte), step))
}

#[test]
fn wrong_bytes_on_a_member_are_counted() {
    in_private_mounts("wrong_bytes_on_a_member_are_counted", || {
        let pool = Pool::new("raid1", "raid1");
        pool.mount("defaults");
        let data = b"what was written is what should be read ".repeat(100_000);
        fs::write(pool.dir.path().join("mnt/file"), &data).unwrap();
        pool.unmount();
        // Some of the file's bytes on the second disk go wrong.
        let image = File::options().read(true).write(true).open(pool.disks[1].file()).unwrap();
        let mut bytes = vec![0; SIZE.bytes() as usize];
        image.read_exact_at(&mut bytes, 0).unwrap();
        let block = bytes.chunks(4096).position(|block| block.starts_with(&data[..64])).unwrap();
        image.write_all_at(&[0xee; 8192], block as u64 * 4096 + 65_536).unwrap();
        drop(image);
        pool.mount("defaults");
        run("btrfs", &["scrub", "start", "-B", &pool.at()]);
        let seen = pool.observe();
        assert_eq!(seen.members[0].errors.sum(), 0);
        assert!(seen.members[1].errors.corruption > 0, "{:?}", seen.members[1].errors);
        assert!(seen.scrub.corrected > 0 && seen.scrub.uncorrectable == 0);
        let _ = fs::remove_file(format!("/var/lib/btrfs/scrub.status.{}", seen.uuid));
        pool.unmount();
    });
}

#[test]
fn the_kernels_progress_is_read() {
    in_private_mounts("the_kernels_progress_is_read", || {
        let pool = Pool::new("single", "raid1");
        pool.mount("defaults");
        let on = File::open(pool.at()).unwrap();
        let uuid = pool.observe().uuid;
        assert_eq!(btrfs_ioctl::filesystem_uuid(&on).unwrap(), uuid);
        assert_eq!(btrfs_ioctl::scrub_progress(&on, 1).unwrap(), None);
        assert_eq!(btrfs_ioctl::balance_progress(&on).unwrap(), None);
        assert!(!btrfs_ioctl::cancel_scrub(&on).unwrap());
        let replace = btrfs_ioctl::replace_progress(&on).unwrap();
        assert_eq!(replace.state, btrfs_ioctl::ReplaceState::NeverStarted);
        assert_eq!(btrfs_ioctl::device_errors(&on, 2).unwrap().sum(), 0);
        assert!(btrfs_ioctl::device_info(&on, 99).is_err());
        assert!(btrfs_ioctl::filesystem_uuid(&File::open("/proc").unwrap()).is_err());
        drop(on);
        pool.unmount();
    });
}

#[test]
fn members_of_every_profile_are_known_from_those_that_are_left() {
    in_private_mounts("members_of_every_profile_are_known_from_those_that_are_left", || {
        for (metadata, expected) in [("raid1", 4), ("raid1c3", 4), ("raid10", 4), ("raid0", 4)] {
            let dir = tempfile::tempdir_in(fast_folder()).unwrap();
            let disks: Vec<LoopDisk> = ["a", "b", "c", "d"]
                .iter()
                .map(|name| LoopDisk::new(dir.path(), name, SIZE).unwrap())
                .collect();
            let paths: Vec<&str> = disks.iter().map(LoopDisk::path).collect();
            let args = ["-q", "-f", "-d", "raid0", "-m", metadata];
            run("mkfs.btrfs", &[&args, &paths[..]].concat());
            let host = HostRoot::real();
            let super_of = |path: &&str| superblock::btrfs::read(Path::new(path)).unwrap().unwrap();
            let there: BTreeMap<u64, PathBuf> =
                paths.iter().map(|path| (super_of(path).devid, PathBuf::from(path))).collect();
            let bytes = devices::superblock(&host.path(paths[0])).unwrap();
            let all = devices::read(&bytes, &there).unwrap();
            assert_eq!(all.devices.len(), expected, "{metadata}");
            for (purpose, word) in [(Purpose::Data, "raid0"), (Purpose::Metadata, metadata)] {
                let profile = Profile::from_word(word).unwrap();
                assert!(all.profiles.contains(&(purpose, profile)), "{:?}", all.profiles);
            }
            for (item, path) in all.devices.iter().zip(&paths) {
                let own = super_of(path);
                assert_eq!((item.devid, item.uuid), (own.devid, own.device));
                assert_eq!(item.total_bytes, own.device_bytes);
            }
            // Without any device that has the tree, nothing is made up.
            assert_eq!(devices::read(&bytes, &BTreeMap::new()), None);
        }
    });
}

/// As by two controllers without multipath: what is used by one path can't be taken by the other.
#[test]
fn a_disk_that_is_reached_by_two_paths_is_one() {
    in_private_mounts("a_disk_that_is_reached_by_two_paths_is_one", || {
        let dir = tempfile::tempdir_in(fast_folder()).unwrap();
        let disk = LoopDisk::new(dir.path(), "disk", SIZE).unwrap();
        run("mkfs.btrfs", &["-q", disk.path()]);
        let other = LoopDisk::plug_in(disk.file()).unwrap();
        assert!(why(&now(&other)).starts_with("erase: member of btrfs"));
        let at = dir.path().join("mnt");
        fs::create_dir(&at).unwrap();
        run("mount", &[disk.path(), at.to_str().unwrap()]);
        // Which of the two the kernel took is its choice.
        let seen = [why(&now(&disk)), why(&now(&other))];
        let mounted = format!("no: mounted at {}", at.display());
        assert!(seen.contains(&mounted), "{seen:?}");
        let used = if seen[0] == mounted { disk.path() } else { other.path() };
        assert!(
            seen.contains(&format!("no: the same disk as {used}, which is in use")),
            "{seen:?}"
        );
        run("umount", &[at.to_str().unwrap()]);
        assert!(why(&now(&other)).starts_with("erase: member of btrfs"));
    });
}

/// Whatever is beside it: nothing, two things at once, a table.
#[test]
fn a_device_carries_the_same_when_many_are_looked_at() {
    in_private_mounts("a_device_carries_the_same_when_many_are_looked_at", || {
        let dir = tempfile::tempdir_in(fast_folder()).unwrap();
        let disks = ["blank", "ext4", "gpt", "swap", "both"]
            .map(|name| LoopDisk::new(dir.path(), name, SIZE).unwrap());
        let [_, ext4, gpt, swap, both] = &disks;
        run("mkfs.ext4", &["-q", "-L", "holiday é", ext4.path()]);
        run("sh", &["-c", "echo label: gpt | sfdisk --quiet $0", gpt.path()]);
        run("mkswap", &["-q", swap.path()]);
        run("mkfs.ext4", &["-q", both.path()]);
        let host = HostRoot::real();
        let devices: Vec<BlockDevice> = disks
            .iter()
            .map(|disk| block_device::one(&host, &disk.path()["/dev/".len()..]).unwrap())
            .collect();
        let alone =
            || devices.iter().map(|device| signature::look(&host, std::slice::from_ref(device)));
        let found = signature::look(&host, &devices);
        let kinds = |seen: &Signatures| {
            seen.found.iter().map(|found| found.kind.clone()).collect::<Vec<_>>().join(" ")
        };
        let all: Vec<String> = found.iter().map(kinds).collect();
        assert_eq!(all, ["", "ext4", "gpt PMBR", "swap", "ext4"]);
        assert_eq!(found, alone().flatten().collect::<Vec<_>>());

        // blkid calls it ambivalent.
        let device = File::options().write(true).open(both.path()).unwrap();
        device.write_all_at(b"_BHRfS_M", (64 << 10) + 0x40).unwrap();
        let found = signature::look(&host, &devices);
        assert_eq!(found, alone().flatten().collect::<Vec<_>>());
        assert!(kinds(&found[4]).contains("ext4") && kinds(&found[4]).contains("btrfs"));

        // One that no program can read.
        let mut with_none = devices.clone();
        with_none[2].name = "braid-no-such-device".to_owned();
        let seen = signature::look(&host, &with_none);
        assert!(!seen[2].trouble.is_empty());
        assert_eq!(seen[1], found[1]);
        assert_eq!(seen[4], found[4]);
    });
}
