//! How the disks are looked at.

use crate::host::Host;
use braid_loop_disks::in_private_mounts;
use std::fs;

/// To start a program is most of what it takes.
#[test]
fn a_program_is_asked_about_many_disks_at_once() {
    in_private_mounts("looks::a_program_is_asked_about_many_disks_at_once", || {
        let host = Host::new();
        let (a, b, blank) = (host.disk("a"), host.disk("b"), host.disk("blank"));
        host.create("btrfs-raid1", &[&a, &b]);
        for program in ["blkid", "wipefs"] {
            let log = host.path(program);
            let text = format!(
                "#!/bin/sh\necho \"$*\" >> {}\nexec /sbin/{program} \"$@\"\n",
                log.display()
            );
            host.program(program, &text);
        }
        let listed = host.works(&["disks", "--no-smart"]);
        assert!(listed.contains(blank.path()), "{listed}");
        let asked = |program: &str| fs::read_to_string(host.path(program)).unwrap();
        let (blkid, wipefs) = (asked("blkid"), asked("wipefs"));
        let with = |text: &str, disk: &str| {
            let names = |line: &&str| line.split(' ').any(|word| word == disk);
            text.lines().filter(names).map(str::to_owned).collect::<Vec<_>>()
        };
        let of_both = with(&wipefs, a.path());
        assert_eq!(of_both, with(&wipefs, b.path()));
        assert_eq!(of_both, with(&wipefs, blank.path()));
        assert_eq!(of_both.len(), 1, "{wipefs}");
        let of_both = with(&blkid, a.path());
        assert_eq!(of_both, with(&blkid, b.path()));
        assert_eq!(of_both.len(), 1, "{blkid}");
        host.sh("umount data");
    });
}
