//! `braid pool create`, `add`, `resume`… as a user types them, on loop devices.

use crate::BRAID;
use crate::host::{Host, mib, serial};
use braid_loop_disks::{LoopDisk, in_private_mounts};
use std::fs;

#[test]
fn the_whole_disk_in_place_of_its_partition_is_refused() {
    in_private_mounts("changes::the_whole_disk_in_place_of_its_partition_is_refused", || {
        let host = Host::new();
        let (disk, other) = (host.disk("a"), host.disk("b"));
        let [first, second] = disk.partition(mib(130)).unwrap();
        host.sh(&format!("mkfs.ext4 -q -L photos {first}"));
        host.fails(
            &mirror([disk.path(), other.path()], &["--yes"]),
            1,
            &["partition table", &first, &second, "ext4", "photos", "--erase"],
        );
        // Permission for a partition is none for its disk.
        let erase = format!("{}-part1", serial(&disk));
        host.fails(
            &mirror([disk.path(), other.path()], &["--yes", "--erase", &erase]),
            2,
            &[&erase, "none of the named disks"],
        );
        // The empty partition can be had without any.
        host.works(&mirror([&second, other.path()], &["--yes"]));
        assert_eq!(host.sh(&format!("blkid -p -s LABEL -o value {first}")), "photos");
    });
}

#[test]
fn a_disk_in_use_is_refused_even_with_erase() {
    in_private_mounts("changes::a_disk_in_use_is_refused_even_with_erase", || {
        let host = Host::new();
        let (disk, other) = (host.disk("a"), host.disk("b"));
        let refused = |says: &[&str]| {
            let erase = serial(&disk);
            let args = mirror([disk.path(), other.path()], &["--yes", "--erase", &erase]);
            host.fails(&args, 1, says);
        };
        host.sh(&format!("mkfs.ext4 -q {} && mkdir m && mount {0} m", disk.path()));
        refused(&["mounted", "/m"]);
        host.sh(&format!("umount m && mkswap {0} && swapon {0}", disk.path()));
        refused(&["swap"]);
        host.sh(&format!("swapoff {}", disk.path()));
        let [first, _] = disk.partition(mib(130)).unwrap();
        host.sh(&format!("mkfs.ext4 -q {first} && mount {first} m"));
        refused(&["mounted", "/m"]);
        host.sh("umount m");
    });
}

#[test]
fn data_is_lost_only_by_its_serial_number() {
    in_private_mounts("changes::data_is_lost_only_by_its_serial_number", || {
        let host = Host::new();
        let (disk, other) = (host.disk("a"), host.disk("b"));
        host.sh(&format!("mkfs.xfs -q -f -L tax {0} || mkfs.ext4 -q -L tax {0}", disk.path()));
        let create = mirror([disk.path(), other.path()], &[]);
        host.fails(&[&create[..], &["--yes"]].concat(), 1, &["tax", "--erase", &serial(&disk)]);
        let erase = serial(&disk);
        let with = [&create[..], &["--erase", &erase]].concat();
        // Nobody is there to be asked.
        host.fails(&with, 7, &["LOSES", "tax", "--yes"]);
        let shown = host.works(&[&with[..], &["--dry-run"]].concat());
        assert!(shown.contains("mkfs.btrfs") && shown.contains("wipefs"), "{shown}");
        assert_eq!(host.sh(&format!("blkid -p -s LABEL -o value {}", disk.path())), "tax");
        host.works(&[&with[..], &["--yes"]].concat());
        let status = host.works(&["status"]);
        assert!(status.contains("data"), "{status}");
    });
}

/// mkfs.btrfs would refuse an ext4, but mdadm doesn't: what can't be seen must not count as
/// nothing.
#[test]
fn a_disk_that_cannot_be_looked_at_is_not_taken_for_empty() {
    in_private_mounts("changes::a_disk_that_cannot_be_looked_at_is_not_taken_for_empty", || {
        let host = Host::new();
        let (disk, other) = (host.disk("a"), host.disk("b"));
        host.sh(&format!("mkfs.ext4 -q -L tax {}", disk.path()));
        let broken = "#!/bin/sh\necho 'probing failed: Input/output error' >&2\nexit 1\n";
        host.program("blkid", broken);
        host.program("wipefs", broken);
        let erase = serial(&disk);
        for more in [&["--yes"][..], &["--yes", "--erase", &erase]] {
            let create = mirror([disk.path(), other.path()], more);
            host.fails(&create, 1, &["could not be seen", "Input/output error"]);
        }
        let plan = host.works(&["plan", disk.path()]);
        assert!(plan.contains("could not be seen"), "{plan}");
        // blkid and wipefs are where neither `su` nor cron looks.
        let mut create = host.command(&mirror([disk.path(), other.path()], &["--yes"]));
        let refused = create.env("PATH", "/usr/bin:/bin").output().unwrap();
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(said.contains("ext4 filesystem \"tax\""), "{said}");
    });
}

#[test]
fn a_disk_that_changed_after_the_plan_was_made_is_refused() {
    in_private_mounts("changes::a_disk_that_changed_after_the_plan_was_made_is_refused", || {
        let host = Host::new();
        let (disk, other) = (host.disk("a"), host.disk("b"));
        host.sh(&format!("mkfs.ext4 -q -L old {}", disk.path()));
        // Between plan and doing, the first program that the plan runs is another one: it puts
        // something else on the other disk, which the plan thinks empty.
        let text = format!(
            "#!/bin/sh\nmkfs.ext4 -q -L sudden {}\nexec /usr/sbin/wipefs \"$@\"\n",
            other.path()
        );
        host.program("wipefs-once", &text);
        let erase = serial(&disk);
        let once = "#!/bin/sh\ncase \"$*\" in *--all*) exec wipefs-once \"$@\";; \
                    *) exec /usr/sbin/wipefs \"$@\";; esac\n";
        host.program("wipefs", once);
        let args = mirror([disk.path(), other.path()], &["--erase", &erase, "--yes"]);
        host.fails(&args, 1, &["sudden", "braid pool resume data", "braid pool abandon data"]);
        assert_eq!(host.sh(&format!("blkid -p -s LABEL -o value {}", other.path())), "sudden");
        let answer = host.works(&["abandon", "data"]);
        assert!(answer.contains("erased"), "what can't be undone is told: {answer}");
    });
}

#[test]
fn killed_in_mkfs_it_is_resumed_or_abandoned() {
    in_private_mounts("changes::killed_in_mkfs_it_is_resumed_or_abandoned", || {
        let host = Host::new();
        let (a, b) = (host.disk("a"), host.disk("b"));
        let create = mirror([a.path(), b.path()], &["--yes"]);
        let (state, runs) = (host.path("state"), host.path("runs"));
        let resume =
            format!("{BRAID} pool resume --state-dir {} > {}", state.display(), runs.display());
        let mkfs =
            format!("#!/bin/sh\n/sbin/mkfs.btrfs \"$@\"\n{resume}\nkill -9 $PPID\nsleep 9\n");
        host.program("mkfs.btrfs", &mkfs);
        let killed = host.braid(&create);
        assert_eq!(killed.status.code(), None, "{killed:?}");
        let said = fs::read_to_string(&runs).unwrap();
        assert!(said.contains("nothing was interrupted"), "while it ran: {said}");
        let interrupted = ["was interrupted", "braid pool resume data", "braid pool abandon data"];
        host.fails(&create, 1, &interrupted);
        host.fails(&["destroy", "data", "--dry-run"], 1, &interrupted);
        let listed = host.works(&["resume"]);
        assert!(listed.contains("data: create pool data"), "{listed}");
        let left = host.works(&["resume", "data", "--dry-run"]);
        assert!(left.contains("mkfs.btrfs") && left.contains("fstab"), "{left}");
        let undone = host.works(&["abandon", "data", "--dry-run", "--json"]);
        let undone: serde_json::Value = serde_json::from_str(&undone).unwrap();
        assert_eq!(undone["steps_to_undo"].as_array().unwrap().len(), 1, "{undone}");
        assert_ne!(host.sh(&format!("wipefs --noheadings {}", a.path())), "", "it is still there");
        host.works(&["abandon", "data", "--yes"]);
        assert_eq!(host.sh(&format!("wipefs --noheadings {} {}", a.path(), b.path())), "");
        // No signature is left, but the disks aren't blank any more.
        host.fails(&create, 1, &["unknown content", "--erase", &serial(&a)]);
        let erase = [serial(&a), serial(&b)];
        let again = [&create[..], &["--erase", &erase[0], "--erase", &erase[1]]].concat();
        assert_eq!(host.braid(&again).status.code(), None);
        fs::remove_file(host.path("bin/mkfs.btrfs")).unwrap();
        let resumed = host.works(&["resume", "data", "--json"]);
        assert!(resumed.contains("\"done\": true"), "{resumed}");
        host.fails(&["resume", "data"], 1, &["nothing was interrupted"]);
        let fstab = fs::read_to_string(host.fstab()).unwrap();
        assert!(fstab.contains(" btrfs "), "{fstab}");
    });
}

#[test]
fn disks_come_and_go() {
    in_private_mounts("changes::disks_come_and_go", || {
        let host = Host::new();
        let (a, b, c) = (host.disk("a"), host.disk("b"), host.disk("c"));
        host.create("btrfs-raid1", &[&a, &b]);
        let same = ["create", "data", "--layout", "btrfs-single", c.path(), "--yes"];
        host.fails(&same, 1, &["a pool data already exists here", "choose another name"]);
        let stranger = ["replace", "data", "/dev/loop9999", "NEW", "--yes"];
        host.fails(&stranger, 1, &["/dev/loop9999", a.path(), b.path()]);
        host.works(&["add", "data", c.path(), "--yes"]);
        let plan =
            host.works(&["convert", "data", "--layout", "btrfs-raid1c3", "--dry-run", "--json"]);
        assert!(
            plan.contains("\"done\": false") && plan.contains("-dconvert=raid1c3,soft"),
            "{plan}"
        );
        host.works(&["remove", "data", b.path(), "--yes"]);
        host.works(&["rebalance", "data", "--yes"]);
        // What it held as a member is still on it.
        let again = ["replace", "data", c.path(), b.path(), "--yes"];
        host.fails(&again, 1, &["unknown content", "--erase", &serial(&b)]);
        host.works(&[&again[..], &["--erase", &serial(&b)]].concat());
        let usage = host.sh("btrfs filesystem show data");
        assert!(usage.contains(a.path()) && usage.contains(b.path()), "{usage}");
        assert!(!usage.contains(c.path()), "{usage}");
        host.fails(&["add", "data", "/dev/null", "--yes"], 1, &["/dev/null is no disk"]);
        host.fails(&["add", "nope", b.path(), "--yes"], 1, &["there is no pool nope", "data"]);
        // Unmade by hand, its name is free for what is made of its disks.
        host.sh("umount data; sed -i '/ btrfs /d' root/etc/fstab");
        host.fails(&same, 1, &["a pool data already exists here", "not mounted"]);
        let erase = [serial(&a), serial(&b)];
        let again = mirror([a.path(), b.path()], &["--erase", &erase[0], "--erase", &erase[1]]);
        host.works(&[&again[..], &["--yes"]].concat());
    });
}

/// What was begun goes on with the disks that it was begun with.
#[test]
fn a_disk_that_an_interrupted_change_needs_is_not_taken() {
    in_private_mounts("changes::a_disk_that_an_interrupted_change_needs_is_not_taken", || {
        let host = Host::new();
        let (a, b, c) = (host.disk("a"), host.disk("b"), host.disk("c"));
        host.create("btrfs-raid1", &[&a, &b]);
        let killer = "#!/bin/sh\ncase \"$*\" in \"device add\"*) kill -9 $PPID; sleep 9;; \
                      *) exec /usr/bin/btrfs \"$@\";; esac\n";
        host.program("btrfs", killer);
        assert_eq!(host.braid(&["add", "data", c.path(), "--yes"]).status.code(), None);
        fs::remove_file(host.path("bin/btrfs")).unwrap();
        let mut create = std::process::Command::new(BRAID);
        create.args(["pool", "create", "other", "--layout", "btrfs-single", "--dry-run"]);
        create.arg(c.path()).arg("--mount").arg(host.path("elsewhere"));
        let mut create = || host.place(&mut create).output().unwrap();
        let refused = create();
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(said.contains("braid pool resume data") && said.contains(c.path()), "{said}");
        host.works(&["abandon", "data"]);
        assert!(create().status.success());
    });
}

/// After a reboot a pool that isn't in fstab is mounted by nobody else.
#[test]
fn what_was_mounted_by_hand_is_mounted_again_to_go_on() {
    in_private_mounts("changes::what_was_mounted_by_hand_is_mounted_again_to_go_on", || {
        let host = Host::new();
        let (a, b, c) = (host.disk("a"), host.disk("b"), host.disk("c"));
        host.create("btrfs-raid1", &[&a, &b]);
        fs::write(host.fstab(), "# nothing\n").unwrap();
        let killed = |step: &str, args: &[&str]| {
            let killer = format!(
                "#!/bin/sh\ncase \"$*\" in \"{step}\"*) kill -9 $PPID; sleep 9;; *) exec /usr/bin/btrfs \"$@\";; esac\n"
            );
            host.program("btrfs", &killer);
            assert_eq!(host.braid(args).status.code(), None);
            fs::remove_file(host.path("bin/btrfs")).unwrap();
            host.sh("umount data");
        };
        let add = ["add", "data", c.path(), "--yes"];
        killed("balance start", &add);
        host.sh(&format!("mount {} data", a.path()));
        host.fails(&add, 1, &["was interrupted", "braid pool resume data"]);
        host.sh("umount data");
        // As if killed before the first step was begun.
        host.sh("sed -i 1q state/data/journal");
        // Somebody else's is not taken away.
        host.sh("mount -t tmpfs none data");
        host.fails(&["resume", "data"], 1, &["something else is mounted there"]);
        host.sh("umount data && rmdir data");
        host.fails(&["resume", "data"], 1, &["no such folder"]);
        host.sh("mkdir data");
        host.works(&["resume", "data"]);
        assert_eq!(host.sh("btrfs filesystem show data | grep -c devid"), "3");

        // One that the plan keeps is missing: nothing is written beside it.
        killed("balance start", &["convert", "data", "--layout", "btrfs-raid1c3", "--yes"]);
        let file = c.unplug();
        host.fails(&["resume", "data"], 1, &["its member 3 isn't there", "degraded"]);
        host.sh("! mountpoint -q data");
        let c = LoopDisk::plug_in(&file).unwrap();
        host.works(&["resume", "data"]);

        // One that leaves may be missing.
        let d = host.disk("d");
        host.sh("umount data");
        c.unplug();
        host.sh(&format!("mount -o degraded {} data", a.path()));
        killed("replace start", &["replace", "data", "missing", d.path(), "--yes"]);
        host.works(&["resume", "data"]);
        let usage = host.sh("btrfs filesystem show data");
        assert!(usage.contains(d.path()) && !usage.contains("missing"), "{usage}");
    });
}

#[test]
fn a_mount_hides_no_files() {
    in_private_mounts("changes::a_mount_hides_no_files", || {
        let host = Host::new();
        let (a, b) = (host.disk("a"), host.disk("b"));
        host.sh("touch data/thesis.tex");
        for more in ["--dry-run", "--yes"] {
            let create = mirror([a.path(), b.path()], &[more]);
            host.fails(&create, 1, &["thesis.tex", "would hide", "mount elsewhere"]);
        }
        assert_eq!(host.sh(&format!("wipefs --noheadings {} {}", a.path(), b.path())), "");
        host.sh("rm data/thesis.tex");
        // Written between plan and mount.
        host.program("mkfs.btrfs", "#!/bin/sh\ntouch data/late\nexec /sbin/mkfs.btrfs \"$@\"\n");
        let create = mirror([a.path(), b.path()], &["--yes"]);
        let output = host.command(&create).current_dir(host.folder.path()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains("\"late\""), "{said}");
        host.sh("rm data/late");
        host.works(&["resume", "data"]);
        // Neither does one that is mounted elsewhere for a change.
        host.sh("umount data; mkdir other; touch other/letter");
        fs::write(host.fstab(), "").unwrap();
        let c = host.disk("c");
        let other = host.path("other");
        let add = ["add", "data", c.path(), "--yes", "--mount", other.to_str().unwrap()];
        host.fails(&add, 1, &["letter", "would hide"]);
        host.sh("ln -s /etc innocent");
        let innocent = host.path("innocent/data");
        for at in ["/etc/x", innocent.to_str().unwrap()] {
            let add = ["add", "data", c.path(), "--dry-run", "--mount", at];
            host.fails(&add, 1, &["of the system"]);
        }
    });
}

/// The words that make the pool `data`, mirrored by btrfs, of two devices.
fn mirror<'a>(devices: [&'a str; 2], more: &[&'a str]) -> Vec<&'a str> {
    [&["create", "data", "--layout", "btrfs-raid1"], &devices[..], more].concat()
}

#[test]
fn a_disk_counts_once_however_it_is_named() {
    in_private_mounts("changes::a_disk_counts_once_however_it_is_named", || {
        let host = Host::new();
        let disk = host.disk("a");
        let link = host.path("by-name");
        std::os::unix::fs::symlink(disk.path(), &link).unwrap();
        let names = [disk.path().to_owned(), link.display().to_string(), serial(&disk)];
        for name in &names {
            host.fails(&["plan", disk.path(), name], 2, &["named already"]);
            let create = ["create", "data", "--layout", "btrfs-raid1", "--dry-run"];
            host.fails(&[&create[..], &[disk.path(), name]].concat(), 1, &["one physical disk"]);
        }
    });
}
