//! Backups as a user makes them: from a snapshot, to a folder and by a server that fails; what the
//! doctor says of them; what is needed to have them back elsewhere.

use crate::host::Host;
use braid_backup_targets::{
    KEY, S3Server, SECRET, differences, fill, noise, restic, restic_is_there,
};
use braid_loop_disks::{in_private_mounts, run};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

const CODES: [&str; 9] = [
    "backup-overdue",
    "unfinished-backup",
    "incomplete-backup",
    "damaged-backup",
    "unchecked-backup",
    "untried-backup",
    "backup-lock",
    "missing-backup-key",
    "not-all-seen",
];

#[test]
fn a_pool_is_backed_up_from_a_snapshot_and_comes_back_elsewhere() {
    let name = "backup::a_pool_is_backed_up_from_a_snapshot_and_comes_back_elsewhere";
    in_private_mounts(name, || {
        let host = Host::new();
        let (a, b) = (host.disk("a"), host.disk("b"));
        host.create("btrfs-raid1", &[&a, &b]);
        let data = host.path("data");
        fill(&data.join("mine"), 2_000_000);
        run("btrfs", &["subvolume", "create", data.join("mine/inner").to_str().unwrap()]);
        fs::write(data.join("mine/inner/file"), "not in the snapshot").unwrap();
        // What a run left that was killed.
        let left = data.join(".braid-backup.20200101T000000Z");
        let words = ["subvolume", "snapshot", "-r", data.to_str().unwrap(), left.to_str().unwrap()];
        run("btrfs", &words);
        let (target, key) = (host.path("target"), host.path("backup.key"));
        let [target, key] = [&target, &key].map(|path| path.to_str().unwrap().to_owned());
        let mine = data.join("mine");
        let mine = mine.to_str().unwrap().to_owned();

        host.fails(&["backup", "--key", &key, &mine, &target], 1, &["no key", "init"]);
        let made = host.works(&["backup", "init", "--key", &key, &target]);
        assert!(made.contains("ALL BACKUPS ARE LOST") && made.contains("sheet"), "{made}");
        host.fails(&["backup", "check", "--key", &key, "/nowhere"], 1, &["holds no backups"]);
        let shown = host.works(&["backup", "--key", &key, "--dry-run", "--json", &mine, &target]);
        let shown: Value = serde_json::from_str(&shown).unwrap();
        assert!(shown["snapshot"].is_null() && shown["changed_files"].as_u64() > Some(70));
        let listed = host.works(&["backup", "list", "--key", &key, &target]);
        assert!(listed.contains("no backups yet"), "{listed}");

        let done = host.braid(&["backup", "--key", &key, &mine, &target]);
        assert!(done.status.success(), "{done:?}");
        let said = String::from_utf8_lossy(&done.stdout);
        assert!(said.contains("from a snapshot"), "{said}");
        let warned = String::from_utf8_lossy(&done.stderr);
        assert!(warned.contains("mine/inner is a separate subvolume"), "{warned}");
        let snapshots = host.sh("ls -A data | grep braid-backup || true");
        assert_eq!(snapshots, "");
        assert_eq!(found(&host), Vec::<String>::new());

        host.works(&["backup", "check", "--key", &key, "--read", "100", &target]);
        let drilled = host.works(&["backup", "drill", "--key", &key, "--json", &target]);
        let drilled: Value = serde_json::from_str(&drilled).unwrap();
        assert!(drilled["compared"] == drilled["files"] && drilled["files"].as_u64() > Some(70));

        // On another computer, with what the sheet has.
        let sheet = host.works(&["backup", "sheet", "--key", &key, &target]);
        let line = sheet.lines().find_map(|line| line.strip_prefix("KEY")).unwrap().trim();
        let (typed, back) = (host.path("typed"), host.path("back"));
        fs::write(&typed, format!("{line}\n")).unwrap();
        fs::set_permissions(&typed, fs::Permissions::from_mode(0o600)).unwrap();
        let (typed, to) = (typed.to_str().unwrap(), back.to_str().unwrap());
        // As some write it.
        let small = line.to_lowercase().replace('0', "o").replace('1', "l");
        fs::write(typed, format!("{small}\n")).unwrap();
        host.works(&["backup", "list", "--key", typed, &target]);
        fs::write(typed, format!("{line}\n")).unwrap();
        host.fails(
            &["backup", "leave", "/nowhere"],
            2,
            &["no record of backups at /nowhere", &target],
        );
        host.works(&["backup", "restore", "--key", typed, &target, "latest", "--to", to]);
        fs::remove_file(data.join("mine/inner/file")).unwrap();
        run("btrfs", &["subvolume", "delete", data.join("mine/inner").to_str().unwrap()]);
        // An empty folder is in the place of the subvolume.
        fs::remove_dir(back.join("inner")).unwrap();
        let differ = differences(Path::new(&mine), &back);
        let differ: Vec<&String> =
            differ.iter().filter(|one| !one.contains("path: \"\"")).collect();
        assert!(differ.len() <= 1, "{differ:?}");
        if restic_is_there() {
            let said = restic(&target, Path::new(typed), &[], &["check", "--read-data"]);
            assert!(said.contains("no errors were found"), "{said}");
        }

        // Several are kept by a policy.
        for _ in 0..2 {
            host.works(&["backup", "--key", &key, &mine, &target]);
        }
        // Of an hour the newest stays, and the oldest.
        let policy = ["--policy", "1x1h"];
        let words = [&["backup", "forget", "--key", &key, &target, "--yes"][..], &policy].concat();
        host.works(&words);
        let listed = host.works(&["backup", "list", "--key", &key, "--json", &target]);
        assert_eq!(listed.matches("\"id\"").count(), 2, "{listed}");
    });
}

#[test]
fn what_cannot_be_read_makes_a_backup_incomplete_and_the_doctor_says_so() {
    let name = "backup::what_cannot_be_read_makes_a_backup_incomplete_and_the_doctor_says_so";
    in_private_mounts(name, || {
        let host = Host::new();
        let mine = host.path("mine");
        fs::create_dir(&mine).unwrap();
        fs::write(mine.join("open"), "open").unwrap();
        fs::write(mine.join("shut"), "shut").unwrap();
        fs::set_permissions(mine.join("shut"), fs::Permissions::from_mode(0o000)).unwrap();
        // As root that minds modes.
        let minding = |words: &[&str]| {
            let braid = host.command(words);
            let mut command = Command::new("setpriv");
            command.arg("--bounding-set=-dac_override,-dac_read_search").arg("--");
            command.arg(braid.get_program()).args(braid.get_args());
            host.place(&mut command).output().unwrap()
        };
        let (target, key) = (host.path("target"), host.path("key"));
        let [target, key] = [&target, &key].map(|path| path.to_str().unwrap().to_owned());
        let mine = mine.to_str().unwrap();
        host.works(&["backup", "init", "--key", &key, &target]);
        let done = minding(&["backup", "--key", &key, mine, &target]);
        let said = String::from_utf8_lossy(&done.stdout);
        assert_eq!(done.status.code(), Some(1), "{done:?}");
        assert!(said.contains("INCOMPLETE: 1 file ") && said.contains("live ("), "{said}");
        let warned = String::from_utf8_lossy(&done.stderr);
        assert!(warned.contains("shut"), "{warned}");
        let listed = host.works(&["backup", "list", "--key", &key, &target]);
        assert!(listed.contains("incomplete"), "{listed}");
        assert_eq!(found(&host), ["incomplete-backup"]);
        // Who may not read the records is told so, and not that they are damaged.
        host.sh("chmod 000 state/.backups/*.json");
        let doctor = minding(&["doctor", "--json", "--no-smart"]);
        let said = String::from_utf8_lossy(&doctor.stdout);
        assert!(said.contains("not-all-seen") && !said.contains("rm "), "{doctor:?}");
        host.sh("chmod 600 state/.backups/*.json");

        // Mended, it is whole again.
        host.sh("chmod 644 mine/shut");
        host.works(&["backup", "--key", &key, mine, &target]);
        assert_eq!(found(&host), Vec::<String>::new());
        let restored = host.path("back");
        let to = restored.to_str().unwrap();
        host.works(&["backup", "restore", "--key", &key, &target, "--to", to]);
        assert_eq!(fs::read(restored.join("shut")).unwrap(), b"shut");
    });
}

#[test]
fn a_full_disk_ends_a_restore_with_an_error_and_not_with_a_panic() {
    let name = "backup::a_full_disk_ends_a_restore_with_an_error_and_not_with_a_panic";
    in_private_mounts(name, || {
        let host = Host::new();
        let mine = host.path("mine");
        fs::create_dir(&mine).unwrap();
        fs::write(mine.join("large"), noise(6_000_000, 3)).unwrap();
        let (target, key) = (host.path("target"), host.path("key"));
        let [target, key] = [&target, &key].map(|path| path.to_str().unwrap().to_owned());
        host.works(&["backup", "init", "--key", &key, &target]);
        host.works(&["backup", "--key", &key, mine.to_str().unwrap(), &target]);
        let small = host.path("small");
        fs::create_dir(&small).unwrap();
        run("mount", &["-t", "tmpfs", "-o", "size=1m", "small", small.to_str().unwrap()]);
        let to = small.join("back");
        let words = ["backup", "restore", "--key", &key, &target, "--to", to.to_str().unwrap()];
        let output = host.braid(&words);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("o space left") && !said.contains("panicked"), "{said}");
        run("umount", &[small.to_str().unwrap()]);
    });
}

#[test]
fn a_backup_that_is_killed_goes_on_and_no_two_are_at_work() {
    let name = "backup::a_backup_that_is_killed_goes_on_and_no_two_are_at_work";
    in_private_mounts(name, || {
        let host = Host::new();
        let mine = host.path("mine");
        fs::create_dir(&mine).unwrap();
        fs::write(mine.join("large"), noise(8_000_000, 3)).unwrap();
        let [mine, target, key] = ["mine", "target", "key"].map(|name| text_of(&host, name));
        host.works(&["backup", "init", "--key", &key, &target]);
        // Slow enough to be met at work.
        let words = ["backup", "--key", &key, "--limit", "100kbit", &mine, &target];
        let at_work = || {
            let mut command = host.command(&words);
            let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
            // It sends: what it backs up has been looked at, and signals are heard.
            while host.sh("find target/data -type f").is_empty() {
                assert!(child.try_wait().unwrap().is_none(), "it has ended");
                std::thread::sleep(std::time::Duration::from_millis(50));
            }
            child
        };
        let interrupted = at_work();
        run("kill", &["-INT", &interrupted.id().to_string()]);
        let ended = interrupted.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.code() == Some(1) && said.contains("repeat the command"), "{ended:?}");
        host.sh("rm -rf target/data/*/* target/data/*/.*.braid-new");

        let mut first = at_work();
        host.fails(&["backup", "--key", &key, &mine, &target], 1, &["another command is at work"]);
        first.kill().unwrap();
        first.wait().unwrap();
        assert_eq!(found(&host), ["backup-overdue"]);
        let listed = host.works(&["backup", "list", "--key", &key, &target]);
        assert!(listed.contains("no backups yet"), "{listed}");
        assert_ne!(host.sh("find target -name '*.braid-new'"), "");
        host.works(&["backup", "--key", &key, &mine, &target]);
        assert_eq!(host.sh("find target -name '*.braid-new'"), "");
        host.works(&["backup", "check", "--key", &key, "--read", "100", &target]);
        assert_eq!(found(&host), Vec::<String>::new());
    });
}

#[test]
fn a_target_that_is_full_or_not_mounted_is_no_place_to_begin_anew() {
    let name = "backup::a_target_that_is_full_or_not_mounted_is_no_place_to_begin_anew";
    in_private_mounts(name, || {
        let host = Host::new();
        let (mine, small) = (host.path("mine"), host.path("small"));
        fs::create_dir_all(&mine).unwrap();
        fs::create_dir(&small).unwrap();
        fs::write(mine.join("large"), noise(4_000_000, 3)).unwrap();
        let [mine, disk, key] = ["mine", "small", "key"].map(|name| text_of(&host, name));
        run("mount", &["-t", "tmpfs", "-o", "size=2m", "small", &disk]);
        let target = format!("{disk}/backups of mine");
        host.works(&["backup", "init", "--key", &key, &target]);
        host.fails(&["backup", "--key", &key, &mine, &target], 1, &["o space left", &target]);
        let listed = host.works(&["backup", "list", "--key", &key, &target]);
        assert!(listed.contains("no backups yet"), "{listed}");
        run("mount", &["-o", "remount,size=40m", &disk]);
        host.works(&["backup", "--key", &key, &mine, &target]);
        host.works(&["backup", "check", "--key", &key, "--read", "100", &target]);

        run("umount", &[&disk]);
        let wrong = ["is its disk mounted", "backup leave"];
        host.fails(&["backup", "--key", &key, &mine, &target], 1, &wrong);
        host.fails(&["backup", "init", "--key", &key, &target], 1, &wrong);
        assert!(!Path::new(&target).exists());
        // It is gone for good.
        host.fails(&["backup", "leave", &target, "/not/backed/up"], 2, &["mine"]);
        host.works(&["backup", "leave", &target]);
        host.fails(&["backup", "leave", &target], 2, &["has no record of backups"]);
        assert_eq!(found(&host), Vec::<String>::new());

        let inside = format!("{mine}/backups");
        host.works(&["backup", "init", "--key", &key, &inside]);
        host.fails(&["backup", "--key", &key, &mine, &inside], 1, &["would have itself"]);
        assert_eq!(found(&host), Vec::<String>::new());
    });
}

#[test]
fn what_cannot_be_noted_here_takes_nothing_from_a_backup() {
    let name = "backup::what_cannot_be_noted_here_takes_nothing_from_a_backup";
    in_private_mounts(name, || {
        let host = Host::new();
        fs::create_dir(host.path("mine")).unwrap();
        fs::write(host.path("mine/file"), "precious").unwrap();
        let [mine, target, key] = ["mine", "target", "key"].map(|name| text_of(&host, name));
        let state = text_of(&host, "state");
        fs::create_dir_all(&state).unwrap();
        run("mount", &["-t", "tmpfs", "-o", "size=256k", "state", &state]);
        host.works(&["backup", "init", "--key", &key, &target]);
        host.sh("head -c 1M /dev/zero >state/other 2>/dev/null || true");
        let full = host.braid(&["backup", "--key", &key, &mine, &target]);
        let (done, said) =
            (String::from_utf8_lossy(&full.stdout), String::from_utf8_lossy(&full.stderr));
        assert_eq!(full.status.code(), Some(1), "{full:?}");
        assert!(done.contains("1 file") && said.contains("can't be recorded"), "{full:?}");
        let listed = host.works(&["backup", "list", "--key", &key, "--json", &target]);
        assert_eq!(listed.matches("\"id\"").count(), 1, "{listed}");
        fs::remove_file(host.path("state/other")).unwrap();
        host.works(&["backup", "--key", &key, &mine, &target]);
        assert_eq!(found(&host), Vec::<String>::new());
        run("umount", &[&state]);
    });
}

#[test]
fn of_several_paths_each_comes_back_by_what_the_sheet_has() {
    let name = "backup::of_several_paths_each_comes_back_by_what_the_sheet_has";
    in_private_mounts(name, || {
        let host = Host::new();
        let [target, key] = ["target", "key"].map(|name| text_of(&host, name));
        host.works(&["backup", "init", "--key", &key, &target]);
        let sources = ["small", "large one"].map(|name| text_of(&host, name));
        for source in &sources {
            fs::create_dir(source).unwrap();
            fs::write(Path::new(source).join("file"), source).unwrap();
            host.works(&["backup", "--key", &key, source, &target]);
        }
        let back = text_of(&host, "back");
        let words = ["backup", "restore", "--key", &key, &target, "latest", "--to", &back];
        let small = format!("latest --path {}", sources[0]);
        let large = format!("latest --path '{}'", sources[1]);
        host.fails(&words, 2, &["which is meant", &small, &large]);
        assert!(!Path::new(&back).exists());
        let words = ["backup", "list", "--key", &key, &target, "latest"];
        host.fails(&words, 2, &["which is meant", &sources[0], &sources[1]]);
        let listed = host.works(&[&words[..], &[&sources[0]]].concat());
        assert!(listed.contains("file"), "{listed}");
        let drilled = host.works(&["backup", "drill", "--key", &key, "--json", &target]);
        let drilled: Value = serde_json::from_str(&drilled).unwrap();
        let of_each: Vec<_> = drilled["backups"].as_array().unwrap().iter().collect();
        assert!(of_each.len() == 2 && of_each.iter().all(|one| one["files"] == 1), "{drilled}");

        // All commands of the sheet, as they are printed.
        let sheet = host.works(&["backup", "sheet", "--key", &key, &target]);
        for program in ["braid", "restic"] {
            if program == "restic" && !restic_is_there() {
                continue;
            }
            let restored = text_of(&host, &format!("restored by {program}"));
            let word = format!("'{restored}'");
            let mut script = format!("braid() {{ {} \"$@\"; }}\n", crate::BRAID);
            for line in sheet.lines().filter(|line| line.starts_with("    ")) {
                let is_others = line.starts_with("    braid") || line.starts_with("    restic");
                if is_others && !line.contains(&format!("    {program} ")) {
                    // With the line that it goes on in.
                    script.push_str(": ");
                }
                let line = line.replace("'/restored", &format!("'{restored}"));
                script.push_str(&line.replace(" /restored", &format!(" {word}")));
                script.push('\n');
            }
            host.sh(&script);
            for source in &sources {
                let came = fs::read(format!("{restored}{source}/file")).unwrap();
                assert_eq!(came, source.as_bytes());
            }
        }
    });
}

#[test]
fn what_is_lost_at_the_target_is_named_by_check_drill_restore_and_doctor() {
    let name = "backup::what_is_lost_at_the_target_is_named_by_check_drill_restore_and_doctor";
    in_private_mounts(name, || {
        let host = Host::new();
        fs::create_dir(host.path("mine")).unwrap();
        fs::write(host.path("mine/large"), noise(1_000_000, 3)).unwrap();
        let [mine, target, key] = ["mine", "target", "key"].map(|name| text_of(&host, name));
        host.works(&["backup", "init", "--key", &key, &target]);
        host.works(&["backup", "--key", &key, &mine, &target]);
        fs::rename(&key, host.path("kept")).unwrap();
        assert_eq!(found(&host), ["missing-backup-key"]);
        // One that is made now opens nothing of what is there.
        let elsewhere = text_of(&host, "elsewhere");
        for other in [&target, &elsewhere] {
            host.fails(
                &["backup", "init", "--key", &key, other],
                1,
                &["is gone", "recovery sheet"],
            );
        }
        assert!(!Path::new(&key).exists());
        fs::rename(host.path("kept"), &key).unwrap();
        assert_eq!(found(&host), Vec::<String>::new());
        host.fails(&["backup", "list", "--key", &key, &target, "ffff"], 1, &["no backup ffff"]);
        let words = ["backup", "list", "--key", &key, &target, "latest", "/nowhere"];
        host.fails(&words, 1, &["/nowhere isn't in any backup"]);

        host.sh("mv $(ls -S target/data/*/* | head -n 1) lost");
        let checked = host.braid(&["backup", "check", "--key", &key, &target]);
        assert_eq!(checked.status.code(), Some(1), "{checked:?}");
        assert_eq!(found(&host), ["damaged-backup"]);
        let drilled = host.braid(&["backup", "drill", "--key", &key, &target]);
        let said = String::from_utf8_lossy(&drilled.stdout);
        assert!(
            drilled.status.code() == Some(1)
                && said.contains("mine/large: ")
                && said.contains("WRONG: "),
            "{drilled:?}"
        );
        let back = text_of(&host, "back");
        let words = ["backup", "restore", "--key", &key, &target, "--to", &back];
        host.fails(&words, 1, &["LOST: large", "1 file couldn't be restored"]);
        assert!(!Path::new(&back).join("large").exists());
        // What is still here is sent again.
        let again = host.braid(&["backup", "--key", &key, &mine, &target]);
        let said = String::from_utf8_lossy(&again.stderr);
        assert!(again.status.success() && said.contains("had lost 1 pack"), "{said}");
        let back = text_of(&host, "back again");
        host.works(&["backup", "restore", "--key", &key, &target, "--to", &back]);
        assert_eq!(found(&host), ["damaged-backup"], "until it is checked again");
        host.works(&["backup", "check", "--key", &key, &target]);
        assert_eq!(found(&host), Vec::<String>::new());

        // What is known here is damaged, too: nothing else stops for that.
        host.sh("for file in state/.backups/*.json; do echo junk >$file; done");
        assert_eq!(found(&host), ["damaged-backup"]);
    });
}

#[test]
fn what_check_finds_damaged_is_repaired_sent_again_and_given_up_where_it_is_gone() {
    let name =
        "backup::what_check_finds_damaged_is_repaired_sent_again_and_given_up_where_it_is_gone";
    in_private_mounts(name, || {
        let host = Host::new();
        fs::create_dir(host.path("mine")).unwrap();
        fs::write(host.path("mine/stays"), noise(3_000_000, 3)).unwrap();
        let [mine, target, key] = ["mine", "target", "key"].map(|name| text_of(&host, name));
        host.works(&["backup", "init", "--key", &key, &target]);
        host.works(&["backup", "--key", &key, &mine, &target]);
        fs::write(host.path("mine/goes"), noise(2_000_000, 5)).unwrap();
        host.works(&["backup", "--key", &key, &mine, &target]);
        fs::remove_file(host.path("mine/goes")).unwrap();
        let repair = |more: &[&str]| {
            let words = [&["backup", "repair", "--key", &key, &target][..], more].concat();
            let output = host.braid(&words);
            (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
        };
        let (code, said) = repair(&[]);
        assert!(code == Some(0) && said.contains("0 damaged"), "{said}");

        // Of both files, the first pieces.
        host.sh("for pack in $(find target/data -type f -size +1M); do chmod 600 $pack; \
             printf xx | dd of=$pack bs=1 seek=1000 conv=notrunc status=none; done");
        let checked = host.braid(&["backup", "check", "--key", &key, "--read", "100", &target]);
        let said = String::from_utf8_lossy(&checked.stdout);
        assert!(checked.status.code() == Some(1) && said.contains("backup repair"), "{said}");
        let doctor = host.braid(&["doctor", "--json", "--no-smart"]);
        assert!(String::from_utf8_lossy(&doctor.stdout).contains("braid pool backup repair"));
        let before = host.sh("find target -type f | sort | xargs sha256sum");
        let (code, said) = repair(&["--dry-run", "--json"]);
        let report: Value = serde_json::from_str(&said).unwrap();
        assert_eq!((code, &report["mended_packs"]), (Some(1), &Value::from(0)), "{report}");
        // What the check found, and no more.
        assert!(report["read_packs"].as_u64() == Some(2), "{report}");
        let lacks = |which: usize| report["backups"][which]["lost_files"].as_u64();
        assert_eq!((lacks(0), lacks(1)), (Some(1), Some(2)), "{report}");
        // Nobody is there to say yes.
        assert_ne!(repair(&[]).0, Some(0));
        assert_eq!(host.sh("find target -type f | sort | xargs sha256sum"), before);

        let (code, said) = repair(&["--yes"]);
        assert!(code == Some(1) && said.contains("2 packs replaced"), "{said}");
        assert!(said.contains("LOST of") && said.contains("mine/goes"), "{said}");
        assert_eq!(found(&host), ["damaged-backup"], "until it is checked again");
        host.works(&["backup", "--key", &key, &mine, &target]);
        let (code, said) = repair(&["--dry-run"]);
        assert!(code == Some(1) && !said.contains("mine/stays"), "{said}");
        let (code, said) = repair(&["--yes", "--drop-lost"]);
        assert!(code == Some(0) && said.contains("removed from 1 backup"), "{said}");
        host.works(&["backup", "check", "--key", &key, "--read", "100", &target]);
        assert_eq!(found(&host), Vec::<String>::new());
        if restic_is_there() {
            restic(&target, Path::new(&key), &[], &["check", "--read-data"]);
        }
        let listed = host.works(&["backup", "list", "--key", &key, &target]);
        assert_eq!(listed.matches("incomplete").count(), 1, "{listed}");
        let back = text_of(&host, "back");
        host.works(&["backup", "restore", "--key", &key, &target, "--to", &back]);
        assert_eq!(fs::read(host.path("back/stays")).unwrap(), noise(3_000_000, 3));
    });
}

#[test]
fn backups_are_locked_where_nobody_can_delete_them_and_the_doctor_minds_the_locks() {
    let name =
        "backup::backups_are_locked_where_nobody_can_delete_them_and_the_doctor_minds_the_locks";
    in_private_mounts(name, || {
        let host = Host::new();
        fs::create_dir(host.path("mine")).unwrap();
        fs::write(host.path("mine/file"), "precious").unwrap();
        let [mine, key, env, folder] = ["mine", "key", "env", "s3"].map(|it| text_of(&host, it));
        let credentials = format!("AWS_ACCESS_KEY_ID={KEY}\nAWS_SECRET_ACCESS_KEY=\"{SECRET}\"\n");
        fs::write(&env, credentials).unwrap();
        let server = S3Server::locking(Path::new(&folder));
        let target = format!("s3:http://{}/backups/mine", server.address);
        let words = |verb: &'static str, more: &[&'static str]| {
            let of = ["backup", verb, "--key", &key, "--credentials", &env];
            [&of[..], more, &[&target]].concat()
        };
        let back_up = ["backup", "--key", &key, "--credentials", &env, &mine, &target];
        host.fails(&["backup", "init", "--lock", "90", &target], 2, &["write 90d"]);
        let elsewhere = text_of(&host, "elsewhere");
        let no_s3 = ["backup", "init", "--key", &key, "--lock", "90d", &elsewhere];
        host.fails(&no_s3, 1, &["only S3 servers"]);
        host.works(&words("init", &[]));
        host.works(&back_up);
        assert!(server.lock_ends().is_empty());
        host.fails(&words("lock", &[]), 2, &["give the time to lock for"]);
        let shown = host.works(&words("lock", &["--for", "90d", "--dry-run"]));
        assert!(shown.contains("would be locked until") && server.lock_ends().is_empty());
        // Nobody is there to say yes.
        let asked = host.braid(&words("lock", &["--for", "90d"]));
        let said = String::from_utf8_lossy(&asked.stderr);
        assert!(!asked.status.success() && said.contains("--yes"), "{said}");
        assert!(server.lock_ends().is_empty());
        let done = host.works(&words("lock", &["--for", "90d", "--yes", "--json"]));
        let done: Value = serde_json::from_str(&done).unwrap();
        let files = server.lock_ends().len();
        assert!(files > 4, "{done}");
        assert_eq!(done["locked"]["files"].as_u64(), Some(files as u64));
        assert_eq!(done["locked"]["days"].as_u64(), Some(90));
        assert_eq!(found(&host), Vec::<String>::new());

        // What later backups write is locked without a word.
        fs::write(host.path("mine/file"), "changed").unwrap();
        let said = host.works(&back_up);
        assert!(said.contains("are locked until") && said.contains("0 extended"), "{said}");
        assert!(server.lock_ends().len() > files);

        // Locks that run out while no backup is made.
        host.sh("sed -i 's/\"ends_s\": [0-9]*/\"ends_s\": 1700000000/' state/.backups/*.json");
        assert_eq!(found(&host), ["backup-lock"]);
        server.age_locks(100);
        host.sh("rm state/.backups/*.locks");
        host.works(&words("lock", &[]));
        let in_90_days = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(90 * 24);
        assert!(server.lock_ends().values().all(|end| *end > in_90_days));
        assert_eq!(found(&host), Vec::<String>::new());

        // A backup whose locks can't be prolonged is made, and that is said.
        let stuck = server.lock_ends().into_keys().find(|key| key.contains("/data/")).unwrap();
        server.stick_lock(&stuck, true);
        host.sh("rm state/.backups/*.locks");
        let failed = host.braid(&back_up);
        let said = String::from_utf8_lossy(&failed.stderr);
        assert_eq!(failed.status.code(), Some(1), "{said}");
        assert!(
            said.contains("the backup is made, but") && said.contains("it stays as it is"),
            "{said}"
        );
        assert_eq!(found(&host), ["backup-lock"]);
        server.stick_lock(&stuck, false);
        host.works(&words("lock", &[]));
        assert_eq!(found(&host), Vec::<String>::new());

        let off = host.works(&words("lock", &["--off"]));
        assert!(off.contains("are no longer extended"), "{off}");
        host.fails(&words("lock", &["--off"]), 2, &["is locked by this computer"]);
        let said = host.works(&back_up);
        assert!(!said.contains("locked"), "{said}");
    });
}

fn text_of(host: &Host, name: &str) -> String {
    host.path(name).to_str().unwrap().to_owned()
}

/// What the doctor finds about backups.
fn found(host: &Host) -> Vec<String> {
    let doctor = host.braid(&["doctor", "--json", "--no-smart"]);
    let report: Value = serde_json::from_slice(&doctor.stdout).unwrap();
    let findings = report["findings"].as_array().unwrap().iter();
    let codes = findings.filter_map(|finding| finding["code"].as_str());
    codes.filter(|code| CODES.contains(code)).map(str::to_owned).collect()
}
