//! The shipped units under a real systemd: their sandbox must not keep the
//! program from devices, routes, nftables and raw sockets. Needs root.

use std::path::Path;
use std::process::Command;

#[test]
fn the_unit_starts_confined_restarts_and_leaves_nothing() {
    let scratch = tempfile::tempdir().unwrap();
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let output = Command::new("bash")
        .arg(here.join("tests/systemd/boot.sh"))
        .arg(env!("CARGO_BIN_EXE_braid"))
        .arg(here.join("../../packaging/systemd"))
        .arg(scratch.path())
        .output()
        .unwrap();
    if output.status.code() == Some(77) {
        eprintln!("SKIPPED: {}", String::from_utf8_lossy(&output.stdout).trim());
        return;
    }
    let read = |name: &str| std::fs::read_to_string(scratch.path().join(name)).unwrap_or_default();
    let (told, errors) = (read("out"), read("err"));
    let of = |name: &str| {
        let found = told.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        found.unwrap_or_else(|| panic!("no {name} in\n{told}\n{errors}\n{output:?}"))
    };
    assert_eq!(of("started"), "active/running", "{told}\n{errors}");
    assert!(of("status").contains("\"interface\":\"braid0\""), "{told}");
    // CAP_NET_BIND_SERVICE, CAP_NET_ADMIN and CAP_NET_RAW, no more, and a filter of system calls.
    assert_eq!(of("confined"), "CapEff:0000000000003400NoNewPrivs:1Seccomp:2");
    assert_eq!(of("low_ports"), "1 1", "{told}\n{errors}");
    assert_eq!(of("devices"), "/dev/net/tun");
    assert_eq!(of("hidden").trim(), "0 0", "the bus that systemd obeys, passwords");
    assert_eq!(of("tunables"), "net/ipv4/ip_forward", "of all settings the network's");
    assert!(of("addresses").contains("10.77.0.1/24") && of("addresses").contains("fd77::1/64"));
    assert!(of("routes").contains("198.51.100.8/29"), "{told}");
    assert!(of("table").contains("braid_braid0"), "{told}");
    assert_eq!(of("settings").trim(), "1 1", "forwarding, proxy ARP");
    assert_eq!(of("packet_sockets"), "1");
    assert_eq!(of("reloaded"), "0 active/running");
    assert_eq!(of("let_in"), "1 1", "the page changes the config: {told}\n{errors}");
    assert_eq!(of("guarded"), "2 0", "what pools' commands read it can't: {told}\n{errors}");
    assert_eq!(of("restarted"), "1", "after a crash");
    assert_eq!(of("stopped"), "0 inactive/dead");
    assert_eq!(of("left"), "0", "neither device nor table nor forwarding");
    if told.contains("applied: ") {
        assert!(of("applied").ends_with("0 3"), "{told}\n{errors}");
        assert_eq!(of("services"), "0 1", "{told}\n{errors}");
        assert!(of("changed").ends_with("0 1 Mon"), "{told}\n{errors}");
        assert!(of("kept").contains("pool timed matches the config"), "{told}");
        assert_eq!(of("replicated"), format!("success {}", of("taken")), "{told}\n{errors}");
        assert!(of("gone").ends_with("0 0"), "{told}\n{errors}");
        assert_eq!(of("forgotten"), "0 0 0", "{told}\n{errors}");
    } else {
        eprintln!("skipped: timers of a pool: there is no disk of a file here");
    }
    if told.contains("without_root: ") {
        assert_eq!(of("without_root"), "yes no yes no yes no yes no, no no inactive/dead");
    } else {
        eprintln!("skipped: units without root: polkitd is not installed");
    }
    assert_eq!(of("page_served"), "200", "{told}\n{errors}");
    assert_eq!(of("page_network"), "1 0", "no device but its own lo: {told}\n{errors}");
    assert_eq!(of("page_again"), "200", "{told}\n{errors}");
    assert_eq!(of("watched"), "0 644 750", "{told}\n{errors}");
    let unloaded = of("unloaded");
    assert!(unloaded.contains("LoadCredential="), "{unloaded}");
    assert_eq!(of("loaded"), "active/running", "{told}\n{errors}");
    assert_eq!(of("found"), "0 400", "{told}\n{errors}");
    assert_eq!(of("loaded_again"), "0 active/running", "{told}\n{errors}");
    assert_eq!(of("kept_over_restart"), "0 active/running 0", "{told}\n{errors}");
    assert_eq!(of("broken"), "failed/failed 3", "a config with errors isn't tried again");
    assert_eq!(of("units"), "", "systemd-analyze verify");
}

/// The most that each may be exposed, from 0 to 100 as `systemd-analyze security` counts. What is
/// left of it SECURITY.md tells.
fn most_exposed(unit: &str) -> &'static str {
    match unit {
        "braid-home.service" | "braid-kill-switch@.service" => "20",
        // Packet sockets besides.
        "braid-concentrator.service" | "braid@.service" => "21",
        // Everybody's files, and disks as devices, but no network.
        "braid-ui.service" => "21",
        // Disks as devices, and the Internet for those who are told.
        "braid-pool-watch.service" => "23",
        other => panic!("{other}: how much may it be exposed?"),
    }
}

#[test]
fn each_unit_is_confined() {
    let units = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/systemd");
    let mut seen = 0;
    for file in std::fs::read_dir(units).unwrap() {
        let file = file.unwrap().path().canonicalize().unwrap();
        if file.extension().is_none_or(|extension| extension != "service") {
            continue;
        }
        let most = most_exposed(file.file_name().unwrap().to_str().unwrap());
        let mut command = Command::new("systemd-analyze");
        command.args(["security", "--offline=yes", "--no-pager", "--threshold", most]);
        let Ok(output) = command.arg(&file).output() else {
            eprintln!("SKIPPED: there is no systemd-analyze");
            return;
        };
        let (told, errors) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        if errors.contains("unrecognized option") {
            eprintln!("SKIPPED: systemd-analyze is too old: {errors}");
            return;
        }
        assert!(output.status.success(), "{}\n{told}\n{errors}", file.display());
        seen += 1;
    }
    assert!(seen >= 4, "{seen}");
}
