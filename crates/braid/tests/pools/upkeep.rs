//! What the config wants to be done for a pool regularly: `braid pool apply` sets systemd's timers,
//! changes them and takes them back. Here systemctl is a program that notes what it is told.

use crate::BRAID;
use crate::host::Host;
use braid_loop_disks::in_private_mounts;
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const UNITS: &str = "root/etc/systemd/system";

/// Notes its words, and enables as systemctl does.
const SYSTEMCTL: &str = r#"#!/bin/sh
cd FOLDER
echo "$*" >> told
verb=$1
shift
[ "$1" != --now ] || shift
mkdir -p root/etc/systemd/system/timers.target.wants
for unit; do
    case $verb in
    enable) ln -sf ../$unit root/etc/systemd/system/timers.target.wants/$unit ;;
    disable) rm -f root/etc/systemd/system/timers.target.wants/$unit ;;
    esac
done
"#;

#[test]
fn what_the_config_wants_regularly_is_set_changed_and_taken_back() {
    let name = "upkeep::what_the_config_wants_regularly_is_set_changed_and_taken_back";
    in_private_mounts(name, || {
        let host = Host::new();
        let (a, b) = (host.disk("a"), host.disk("b"));
        host.create("btrfs-raid1", &[&a, &b]);
        let file = host.path("pools.toml");
        let wants = |upkeep: &str| {
            let text = format!(
                "[[pool]]\nname = \"data\"\nlayout = \"btrfs-raid1\"\ndisks = [{:?}, {:?}]\nmount = {:?}\n{upkeep}",
                a.path(),
                b.path(),
                host.path("data")
            );
            fs::write(&file, text).unwrap();
        };
        let config = file.to_str().unwrap();
        let apply = |more: &[&str]| host.works(&[&["apply", "--config", config], more].concat());
        let told = || fs::read_to_string(host.path("told")).unwrap_or_default();

        wants("scrub = { on = \"monthly\" }\n");
        host.fails(
            &["apply", "--config", config, "--yes"],
            1,
            &["systemd isn't running here", "cron"],
        );
        fs::create_dir_all(host.path("root/run/systemd/system")).unwrap();
        let systemctl = SYSTEMCTL.replace("FOLDER", host.folder.path().to_str().unwrap());
        host.program("systemctl", &systemctl);

        wants(
            "scrub = { on = \"monthly\" }\n\
             snapshot = { on = \"*:0/15\", of = [\".\"] }\n\
             retain = { policy = \"24x1h | 14x1d\" }\n",
        );
        let shown = apply(&["--dry-run"]);
        assert!(shown.contains("a timer: *:0/15") && shown.contains("pool retain"), "{shown}");
        assert!(!host.path(UNITS).exists() && told().is_empty());
        apply(&["--yes"]);
        assert_eq!(told().matches("enable --now").count(), 1, "{}", told());
        let set = units(&host);
        assert_eq!(set.len(), 6, "{set:?}");
        checked_by_systemd(&host);
        // Again: nothing is to be done.
        let before = told();
        assert!(apply(&["--yes"]).contains("matches the config"));
        let all: serde_json::Value = serde_json::from_str(&apply(&["--yes", "--json"])).unwrap();
        let as_it_is = json!({ "pool": "data", "changes": [], "done": true });
        assert_eq!(all, json!({ "pools": [as_it_is], "forgotten": [] }));
        assert_eq!(told(), before);

        // The services do it.
        runs(&host, "snapshot");
        runs(&host, "retain");
        let taken = host.works(&[
            "snapshot",
            "--list",
            "--json",
            "--into",
            snapshots(&host).to_str().unwrap(),
        ]);
        assert_eq!(taken.matches("\"name\"").count(), 1, "{taken}");

        // Interrupted between the files and systemd.
        wants("scrub = { on = \"weekly\", jitter = \"2h\" }\nsnapshot = {}\n");
        host.program("systemctl", "#!/bin/sh\nkill -9 $PPID\nsleep 9\n");
        assert_eq!(host.braid(&["apply", "--config", config, "--yes"]).status.code(), None);
        host.program("systemctl", &systemctl);
        host.works(&["resume", "data"]);
        assert!(apply(&["--yes"]).contains("matches the config"));
        assert_eq!(units(&host).len(), 4);
        let text: String = units(&host).iter().map(|unit| read(&host, unit)).collect();
        assert!(text.contains("OnCalendar=weekly\nRandomizedDelaySec=7200\n"), "{text}");
        assert!(text.contains("OnCalendar=hourly\n"), "{text}");
        assert!(told().contains("restart braid-pool-scrub@"), "{}", told());

        // What was set by hand stays, the config's goes.
        wants("");
        apply(&["--yes"]);
        let left = units(&host);
        assert_eq!(left.len(), 1, "the service of scrubs is for all pools: {left:?}");
        let unit_folder = host.path(UNITS);
        host.works(&["scrub", "schedule", "data", "--units", unit_folder.to_str().unwrap()]);
        assert!(apply(&["--yes"]).contains("matches the config"));
        assert_eq!(units(&host).len(), 2);
    });
}

#[test]
fn what_another_program_takes_back_is_done_once() {
    let name = "upkeep::what_another_program_takes_back_is_done_once";
    in_private_mounts(name, || {
        let host = Host::new();
        let disk = host.disk("a");
        host.create("btrfs-single", &[&disk]);
        fs::create_dir_all(host.path("root/run/systemd/system")).unwrap();
        let own = "for unit; do echo '# mine' > root/etc/systemd/system/$unit; done\n";
        let systemctl = format!("{SYSTEMCTL}{own}");
        let folder = host.folder.path().to_str().unwrap();
        host.program("systemctl", &systemctl.replace("FOLDER", folder));
        let text = format!(
            "[[pool]]\nname = \"data\"\nlayout = \"btrfs-single\"\ndisks = [{:?}]\nmount = {:?}\n\
             scrub = {{}}\n",
            disk.path(),
            host.path("data")
        );
        let file = host.path("pools.toml");
        fs::write(&file, text).unwrap();
        let says = ["still doesn't match the config", "done and changed nothing: set what is done"];
        host.fails(&["apply", "--config", file.to_str().unwrap(), "--yes"], 1, &says);
        let told = fs::read_to_string(host.path("told")).unwrap();
        assert_eq!(told.matches("enable").count(), 1, "{told}");
    });
}

/// A whole section goes: so do the timers that were made of it, and nothing else.
#[test]
fn a_section_that_goes_out_of_the_config_takes_its_timers_with_it() {
    let name = "upkeep::a_section_that_goes_out_of_the_config_takes_its_timers_with_it";
    in_private_mounts(name, || {
        let host = Host::new();
        let disk = host.disk("a");
        host.create("btrfs-single", &[&disk]);
        fs::create_dir_all(host.path("root/run/systemd/system")).unwrap();
        let systemctl = SYSTEMCTL.replace("FOLDER", host.folder.path().to_str().unwrap());
        host.program("systemctl", &systemctl);
        let section = format!(
            "[[pool]]\nname = \"data\"\nlayout = \"btrfs-single\"\ndisks = [{:?}]\nmount = {:?}\n",
            disk.path(),
            host.path("data")
        );
        let upkeep = "scrub = {}\nsnapshot = {}\nretain = { policy = \"2x1d\" }\n";
        let files = ["one.toml", "other.toml"].map(|file| host.path(file));
        let write = |text: &str| fs::write(&files[0], text).unwrap();
        let config = files.each_ref().map(|file| file.to_str().unwrap());
        let apply = |config: &str, more: &[&str]| {
            host.works(&[&["apply", "--config", config], more].concat())
        };
        let told = || fs::read_to_string(host.path("told")).unwrap_or_default();
        write(&format!("{section}{upkeep}"));
        apply(config[0], &["--yes"]);
        assert_eq!(units(&host).len(), 6);
        // What others made: a program that isn't Braid, somebody by hand, another config for its
        // pool.
        let theirs = ["braid-pool-watch.timer", "backup.timer", "braid-pool-scrub@somewhere.timer"];
        let of_other = "braid-pool-retain@03030303-0303-0303-0303-030303030303.timer";
        let ours = units(&host).into_iter().find(|unit| unit.to_str().unwrap().contains("retain"));
        let text = read(&host, &ours.unwrap()).replace(config[0], config[1]);
        for unit in theirs.into_iter().chain([of_other]) {
            fs::write(host.path(UNITS).join(unit), &text).unwrap();
        }

        // Asked about other pools only, or with the section there, nothing goes.
        apply(config[0], &["--yes", "data"]);
        apply(config[0], &["--yes"]);
        assert_eq!(units(&host).len(), 10);

        write("");
        let shown = apply(config[0], &["--dry-run"]);
        assert!(shown.contains("these timers run no more"), "{shown}");
        assert!(shown.contains("pool data") && !shown.contains(of_other), "{shown}");
        let json = apply(config[0], &["--dry-run", "--json"]);
        assert!(
            json.contains("braid-pool-snapshot@") && json.contains("\"done\": false"),
            "{json}"
        );
        assert_eq!(units(&host).len(), 10);
        // Interrupted on its way.
        host.program("systemctl", "#!/bin/sh\nkill -9 $PPID\nsleep 9\n");
        assert_eq!(host.braid(&["apply", "--config", config[0], "--yes"]).status.code(), None);
        host.program("systemctl", &systemctl);
        host.works(&["resume", "data"]);
        let mut left: Vec<String> = units(&host)
            .iter()
            .map(|unit| unit.file_name().unwrap().to_str().unwrap().to_owned())
            .collect();
        left.sort();
        let mut expected = [&theirs[..], &[of_other, "braid-pool-scrub@.service"]].concat();
        expected.sort_unstable();
        assert_eq!(left, expected);
        assert_eq!(told().matches("disable --now").count(), 1, "{}", told());
        // The pool itself is as it was; and now there is nothing that this config is of.
        assert!(snapshots(&host).parent().unwrap().exists());
        host.fails(&["apply", "--config", config[0]], 3, &["[[pool]] is missing"]);
        // The other config's goes with the other config's section.
        fs::write(&files[1], "").unwrap();
        apply(config[1], &["--yes"]);
        assert_eq!(units(&host).len(), 4);
    });
}

/// Paths of the units' files, in the host's folder.
fn units(host: &Host) -> Vec<PathBuf> {
    let entries = fs::read_dir(host.path(UNITS)).unwrap().flatten();
    let files = entries.filter(|entry| entry.file_type().unwrap().is_file());
    files.map(|entry| PathBuf::from(UNITS).join(entry.file_name())).collect()
}

fn read(host: &Host, unit: &Path) -> String {
    fs::read_to_string(host.folder.path().join(unit)).unwrap()
}

fn snapshots(host: &Host) -> PathBuf {
    host.path("data/.snapshots")
}

/// Does what the service of this kind does; its words are a shell's, too.
fn runs(host: &Host, kind: &str) {
    let start = format!("braid-pool-{kind}@");
    let is_it = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap();
        name.starts_with(&start) && name.ends_with(".service")
    };
    let service = units(host).into_iter().find(is_it).unwrap();
    let text = read(host, &service);
    let line =
        text.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/bin/braid ")).unwrap();
    host.sh(&format!("{BRAID} {line}"));
}

/// That systemd reads them, where it is installed. It looks whether the programs are there.
fn checked_by_systemd(host: &Host) {
    let copies = host.path("checked");
    fs::create_dir(&copies).unwrap();
    for path in units(host) {
        let text = read(host, &path).replace("/usr/bin/braid", "/bin/true");
        fs::write(copies.join(path.file_name().unwrap()), text).unwrap();
    }
    let files = fs::read_dir(&copies).unwrap().flatten().map(|entry| entry.path());
    let plain = files.filter(|path| !path.to_str().unwrap().contains("@.service"));
    let checked = Command::new("systemd-analyze").arg("verify").args(plain).output();
    let Ok(checked) = checked else { return println!("not checked: there is no systemd-analyze") };
    let said = String::from_utf8_lossy(&checked.stderr);
    let ours: Vec<&str> = said.lines().filter(|line| line.contains("braid-pool-")).collect();
    assert_eq!(ours, Vec::<&str>::new(), "{said}");
}
