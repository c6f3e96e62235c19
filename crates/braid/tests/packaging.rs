//! What goes into packages besides the program: scripts for other systems, looked at and run here.

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
    check.args(["braid.init", "braid.proto", "braid.defaults", "forms.sh"]);
    check.args(
        ["run", "uci", "functions.sh", "netifd-proto.sh"].map(|it| format!("../../test/{it}")),
    );
    told(&mut check);
    let mut check = Command::new("shellcheck");
    check.args(["-x", "-s", "bash"]).current_dir(packaging());
    check.args(["debian/build", "debian/repository", "debian/try", "container/build"]);
    check.args(["container/try", "cross/build", "cross/try", "release/older", "../release"]);
    told(&mut check);
}

/// As OpenWrt's apk takes versions: numbers with dots, and the package's release as `-r1`.
#[test]
fn packages_have_the_version_of_the_program() {
    let read = |file: &str| std::fs::read_to_string(packaging().join(file)).unwrap();
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
