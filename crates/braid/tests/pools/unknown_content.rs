//! Disks on which nothing is recognised and that aren't empty: only `--erase` takes them.

use crate::host::{Host, mib, serial};
use braid_loop_disks::{LoopDisk, in_private_mounts};
use std::fs::File;
use std::os::unix::fs::FileExt;

/// As a disk that is encrypted as a whole looks: nothing but its owner knows it from noise.
fn encrypt(host: &Host, disk: &LoopDisk) {
    host.sh(&format!(
        "head -c {} /dev/urandom | dd of={} bs=1M conv=fsync iflag=fullblock status=none",
        mib(400).bytes(),
        disk.path()
    ));
}

#[test]
fn no_command_overwrites_unknown_content_unasked() {
    in_private_mounts("unknown_content::no_command_overwrites_unknown_content_unasked", || {
        let host = Host::new();
        let (a, b, spare) = (host.disk("a"), host.disk("b"), host.disk("spare"));
        let secret = host.disk("secret");
        encrypt(&host, &secret);
        let sum = || host.sh(&format!("sha256sum < {}", secret.path()));
        let before = sum();
        let says = ["unknown content", "random bytes", "--erase", &serial(&secret)];
        let (one, two) = (secret.path(), spare.path());
        for more in ["--dry-run", "--yes"] {
            host.fails(&["create", "data", "--layout", "btrfs-raid1", two, one, more], 1, &says);
            let bench = ["bench", "--layouts", "btrfs-single", one, more];
            host.fails(&bench, 1, &says);
        }
        let listed = host.works(&["disks", "--no-smart"]);
        let line = |disk: &LoopDisk| {
            let named = |line: &&str| line.split(' ').next() == Some(disk.path());
            listed.lines().find(named).unwrap().to_owned()
        };
        assert!(line(&secret).contains("only with --erase: unknown content"), "{listed}");
        assert!(line(&spare).ends_with(" free"), "{listed}");
        assert!(host.works(&["plan", two, one]).contains("carries unknown content"));

        host.create("btrfs-raid1", &[&a, &b]);
        for more in ["--dry-run", "--yes"] {
            host.fails(&["add", "data", one, more], 1, &says);
            host.fails(&["replace", "data", b.path(), one, more], 1, &says);
            host.fails(&["replace", "data", b.path(), two, "--lend", one, more], 1, &says);
            host.fails(&["convert", "data", "--layout", "btrfs-raid1c3", one, more], 1, &says);
        }
        assert_eq!(sum(), before);
        let shown = host.works(&["add", "data", one, "--erase", &serial(&secret), "--dry-run"]);
        assert!(shown.contains("LOSES unknown content"), "{shown}");
        host.works(&["add", "data", one, "--erase", &serial(&secret), "--yes"]);
        // What it held is still there for the most part.
        host.works(&["remove", "data", one, "--yes"]);
        host.fails(&["add", "data", one, "--yes"], 1, &["unknown content"]);
    });
}

#[test]
fn what_is_written_after_the_plan_was_made_is_seen() {
    in_private_mounts("unknown_content::what_is_written_after_the_plan_was_made_is_seen", || {
        let host = Host::new();
        let (a, b) = (host.disk("a"), host.disk("b"));
        // The first step runs a program, which another one precedes: it writes to the disk of the
        // second.
        host.sh(&format!("mkfs.ext4 -q -L old {}", a.path()));
        let text = format!(
            "#!/bin/sh\ncase \"$*\" in *--all*) echo hello | dd of={} seek=131072 conv=fsync status=none;; esac\n\
             exec /usr/sbin/wipefs \"$@\"\n",
            b.path()
        );
        host.program("wipefs", &text);
        let (a_path, b_path, erase) = (a.path(), b.path(), serial(&a));
        let args = [
            "create",
            "data",
            "--layout",
            "btrfs-raid1",
            a_path,
            b_path,
            "--yes",
            "--erase",
            &erase,
        ];
        host.fails(
            &args,
            1,
            &["unknown content: data at byte 67108864", "braid pool abandon data"],
        );
        let mut found = [0; 5];
        File::open(b.path()).unwrap().read_exact_at(&mut found, 64 << 20).unwrap();
        assert_eq!(&found, b"hello");
    });
}

#[test]
fn a_btrfs_that_lost_its_first_superblock_is_not_overwritten() {
    let name = "unknown_content::a_btrfs_that_lost_its_first_superblock_is_not_overwritten";
    in_private_mounts(name, || {
        let host = Host::new();
        let (a, b) = (host.disk("a"), host.disk("b"));
        host.sh(&format!(
            "mkfs.btrfs -q -L photos {0}; dd if=/dev/zero of={0} bs=64K seek=1 count=1 conv=fsync status=none",
            a.path()
        ));
        let create = ["create", "data", "--layout", "btrfs-raid1", a.path(), b.path(), "--yes"];
        host.fails(&create, 1, &["unknown content: a btrfs superblock at byte 67108864"]);
        host.sh(&format!("btrfs rescue super-recover -y {} || true", a.path()));
        assert_eq!(host.sh(&format!("blkid -p -s LABEL -o value {}", a.path())), "photos");
    });
}
