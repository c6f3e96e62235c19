//! What goes into packages besides the program: scripts for other systems, looked at and run here.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

fn packaging() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging")
}

/// Runs it, unless there is no such program.
fn told(command: &mut Command) -> Option<String> {
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => {
            eprintln!("SKIPPED: {}: {error}", command.get_program().display());
            return None;
        }
    };
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    assert!(output.status.success(), "{command:?}: {}\n{text}", output.status);
    Some(text)
}

#[test]
fn openwrts_scripts_do_what_its_shell_is_told() {
    let mut run = Command::new("busybox");
    run.arg("ash").arg(packaging().join("openwrt/test/run")).arg(env!("CARGO_BIN_EXE_braid"));
    if let Some(told) = told(&mut run) {
        assert!(told.ends_with("passed\n"), "{told}");
    }
}

#[test]
fn shellcheck_finds_nothing_in_the_scripts() {
    let openwrt = packaging().join("openwrt");
    let mut check = Command::new("shellcheck");
    // busybox's shell is ash, which dash is, too; includes are found where the scripts are.
    check.args(["-s", "dash", "-x"]).current_dir(openwrt.join("braid/files"));
    check.args(["braid.init", "braid.proto", "braid.defaults", "braid.hotplug", "forms.sh"]);
    check.args(
        ["run", "uci", "functions.sh", "netifd-proto.sh"].map(|it| format!("../../test/{it}")),
    );
    told(&mut check);
    let mut check = Command::new("shellcheck");
    check.args(["-s", "dash"]).current_dir(packaging().join("debian"));
    check.args(["braid.postinst", "braid.postrm", "braid.prerm"]);
    told(&mut check);
    let mut check = Command::new("shellcheck");
    check.args(["-x", "-s", "bash"]).current_dir(packaging());
    check.args(["debian/build", "debian/repository", "debian/try", "container/build"]);
    check.args(["container/try", "cross/build", "cross/try", "release/older", "../release"]);
    told(&mut check);
}

/// Runs a script of the Debian package on the system in a folder.
fn maintained(root: &Path, script: &str, arguments: &[&str]) -> String {
    let script = packaging().join("debian").join(script);
    // One that didn't look would do it to this computer.
    assert!(fs::read_to_string(&script).unwrap().contains("\nroot=${DPKG_ROOT:-}\n"), "{script:?}");
    told(Command::new("sh").arg(script).args(arguments).env("DPKG_ROOT", root)).unwrap()
}

/// Purges a system that has these files and no others of Braid's: what is left of them, and what
/// was said.
fn purged(files: &[(&str, &str)]) -> (Vec<String>, String) {
    let root = tempfile::tempdir().unwrap();
    for (file, content) in files {
        let file = root.path().join(&file[1..]);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, content).unwrap();
    }
    let said = maintained(root.path(), "braid.postrm", &["purge"]);
    let is_left = |file: &str| root.path().join(&file[1..]).exists();
    let folders = ["/etc/braid", "/var/lib/braid"];
    let all = files.iter().map(|(file, _)| *file).chain(folders);
    (all.filter(|file| is_left(file)).map(str::to_owned).collect(), said)
}

#[test]
fn what_was_enabled_is_so_again_when_the_package_comes_back() {
    let root = tempfile::tempdir().unwrap();
    let wants = root.path().join("etc/systemd/system/timers.target.wants");
    fs::create_dir_all(&wants).unwrap();
    let link = wants.join("braid-pool-scrub@x.timer");
    let unit = Path::new("/etc/systemd/system/braid-pool-scrub@x.timer");
    symlink(unit, &link).unwrap();
    let others = wants.join("others.timer");
    symlink("/usr/lib/systemd/system/others.timer", &others).unwrap();
    maintained(root.path(), "braid.postrm", &["remove"]);
    assert!(link.symlink_metadata().is_err() && others.is_symlink());
    maintained(root.path(), "braid.postinst", &["configure", "0.1.0"]);
    assert_eq!(fs::read_link(&link).unwrap(), unit);
    // Once: who disables it after that isn't overruled by the next upgrade.
    fs::remove_file(&link).unwrap();
    maintained(root.path(), "braid.postinst", &["configure", "0.1.0"]);
    assert!(link.symlink_metadata().is_err());
}

#[test]
fn purging_keeps_whatever_opens_encrypted_disks_and_backups() {
    const KEY: &str = "0123-4567-89AB-CDEF-GHJK-MNPQ-RSTV-WXYZ\n";
    let kept = [
        ("/etc/braid/keys/data.key", KEY),
        ("/etc/braid/backup.key", "a word that somebody chose"),
        ("/etc/braid/my keys/second.key", KEY),
        // Others are nobody's but for who names them.
        ("/etc/braid/disks.bin", "some bytes"),
        ("/etc/braid/third.bin", "some bytes"),
        ("/var/lib/braid/pools/.headers/data/3f3f", "LUKS\u{ba}\u{be} and so on"),
        ("/var/lib/braid/pools/data/journal", "{}"),
    ];
    let gone = [
        ("/etc/braid/braid.toml", "[interface]"),
        ("/etc/braid/home.key", "6Jq0kq4cD7Yw6cJ0Q0G1m0i5m1W6Vd3h8o2y1sX9bE8="),
        ("/etc/braid/backup.env", "AWS_ACCESS_KEY_ID=x"),
        ("/var/lib/braid/history.db", "LU"),
        ("/var/lib/braid/pools/data/1.done", "{}"),
        (
            "/etc/systemd/system/braid-pool-backup@x.service",
            "ExecStart=x --key /etc/braid/third.bin",
        ),
    ];
    let others = [("/etc/crypttab", "luks-a /dev/sda /etc/braid/disks.bin luks\n")];
    let all: Vec<_> = kept.iter().chain(&gone).chain(&others).copied().collect();
    let (left, said) = purged(&all);
    let mut wanted: Vec<_> = kept.iter().chain(&others).map(|(file, _)| *file).collect();
    wanted.extend(["/etc/braid", "/var/lib/braid"]);
    assert_eq!(left, wanted, "{said}");
    for (file, _) in kept {
        assert!(said.lines().any(|line| line.trim() == file), "{file} isn't named:\n{said}");
    }
    assert!(!said.contains("home.key") && said.contains("rm -r /etc/braid"), "{said}");
    // Where nothing is encrypted all of it goes, without a word.
    assert_eq!(purged(&gone), (vec![], String::new()));
}

/// As OpenWrt's apk takes versions: numbers with dots, and the package's release as `-r1`.
#[test]
fn packages_have_the_version_of_the_program() {
    let read = |file: &str| fs::read_to_string(packaging().join(file)).unwrap();
    let makefile = read("openwrt/braid/Makefile");
    let variable = |name: &str| {
        let line = makefile.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(":="));
        line.unwrap_or_else(|| panic!("no {name}"))
    };
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(variable("PKG_VERSION"), version);
    assert!(version.split('.').all(|part| part.parse::<u32>().is_ok()), "{version}");
    assert!(variable("PKG_RELEASE").parse::<u32>().is_ok());
    let compose = read("container/compose.yaml");
    assert!(compose.contains(&format!("image: braid:{version}\n")), "{compose}");
}

/// Of a build of two crates, one of which uses the other.
#[test]
fn what_a_program_is_made_of_is_listed_as_cyclonedx_wants_it() {
    let mut metadata = Command::new(env!("CARGO"));
    metadata.args(["metadata", "--locked", "--quiet", "--format-version", "1"]);
    let metadata = metadata.output().unwrap();
    assert!(metadata.status.success(), "{}", String::from_utf8_lossy(&metadata.stderr));
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("metadata");
    std::fs::write(&input, &metadata.stdout).unwrap();
    let version = env!("CARGO_PKG_VERSION");
    let mut list = Command::new("jq");
    list.arg("-f").arg(packaging().join("release/sbom.jq"));
    list.args(["--arg", "time", "2026-11-24T00:00:00Z"]).arg(&input).arg("--args");
    list.args(["braid", "braid-units"].map(|name| format!("{name}@{version}")));
    let Some(told) = told(&mut list) else { return };
    let list: serde_json::Value = serde_json::from_str(&told).unwrap();
    assert_eq!((&list["bomFormat"], &list["specVersion"]), (&"CycloneDX".into(), &"1.5".into()));
    let component = &list["metadata"]["component"];
    assert_eq!((&component["name"], &component["type"]), (&"braid".into(), &"application".into()));
    let units = format!("pkg:cargo/braid-units@{version}");
    assert_eq!(list["components"].as_array().unwrap().len(), 1);
    assert_eq!(list["components"][0]["purl"], units.as_str());
    assert_eq!(list["components"][0]["licenses"][0]["expression"], "MIT OR Apache-2.0");
    let dependencies = list["dependencies"].as_array().unwrap();
    let of_program = dependencies.iter().find(|it| it["ref"] == component["bom-ref"]).unwrap();
    assert_eq!(of_program["dependsOn"], serde_json::json!([units]));
}

/// As polkit asks it: members of the group have tunnels' units, and nobody has any other.
#[test]
fn members_of_the_group_start_and_stop_tunnels_and_nothing_else() {
    let script = r#"
        const text = require("fs").readFileSync(process.argv[1], "utf8");
        let rule;
        const polkit = { addRule: (it) => rule = it, Result: { NOT_HANDLED: "-", YES: "yes" } };
        new Function("polkit", text)(polkit);
        const manage = "org.freedesktop.systemd1.manage-units";
        const ask = (group, unit, verb, id) => rule(
            { id: id || manage, lookup: (key) => ({ unit, verb })[key] },
            { isInGroup: (it) => it === group });
        for (const [unit, verb] of [
            ["braid-home.service", "start"], ["braid-concentrator.service", "stop"],
            ["braid@second.service", "restart"], ["braid-home.service", "reload"],
            ["ssh.service", "stop"], ["braid-ui.service", "start"], ["xbraid-home.service", "stop"],
            ["braid-home.service\n", "stop"], ["braid@a/../b.service", "start"],
            ["braid-home.service", "set-property"], ["braid-pool-watch.service", "stop"],
            [undefined, undefined],
        ]) console.log(ask("braid", unit, verb), ask("users", unit, verb), unit, verb);
        console.log(ask("braid", "braid-home.service", "start", "org.freedesktop.login1.reboot"));
    "#;
    let mut ask = Command::new("node");
    ask.args(["-e", script]).arg(packaging().join("polkit/50-braid.rules"));
    let Some(told) = told(&mut ask) else { return };
    let yes: Vec<&str> = told.lines().filter_map(|line| line.strip_prefix("yes - ")).collect();
    assert_eq!(
        yes,
        [
            "braid-home.service start",
            "braid-concentrator.service stop",
            "braid@second.service restart",
            "braid-home.service reload"
        ]
    );
    assert!(!told.contains(" yes ") && told.ends_with("\n-\n"), "{told}");
}
