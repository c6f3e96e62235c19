//! The commands as a user or script calls them: output and exit codes.

use serde_json::Value;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn braid(arguments: &[&str]) -> Output {
    braid_with_input(arguments, "")
}

fn braid_with_input(arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_braid"))
        .args(arguments)
        .env_remove("BRAID_LOG")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap_or_else(|| panic!("killed: {}", stderr(output)))
}

/// JSON has no other texts than Unicode, and Linux has other names.
#[test]
fn a_path_that_is_not_unicode_is_shown_in_json_as_far_as_it_can_be() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let directory = tempfile::tempdir().unwrap();
    let odd = directory.path().join(OsStr::from_bytes(b"odd\xff"));
    std::fs::create_dir(&odd).unwrap();
    let run = |arguments: &[&str], file: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_braid"));
        let output = command.args(arguments).arg(odd.join(file)).stdin(Stdio::null()).output();
        let output = output.unwrap();
        let shown: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(shown["file"].as_str().unwrap().contains("odd\u{fffd}/"), "{shown}");
        code(&output)
    };
    assert_eq!(run(&["keygen", "--json", "--out"], "key"), 0);
    assert_eq!(run(&["config", "check", "--json"], "braid.toml"), 3);
    std::fs::write(odd.join("braid.toml"), "nonsense").unwrap();
    assert_eq!(run(&["config", "check", "--json"], "braid.toml"), 3);
}

/// What a pipe gave is gone when it was read.
#[test]
fn a_config_that_comes_by_a_pipe_is_checked() {
    let output = braid_with_input(&["config", "check", "/dev/stdin"], "[[pool]]\nname = 1\n");
    assert!(stderr(&output).contains("/dev/stdin:2: "), "{output:?}");
}

/// A rule that is to block blocks nothing by a list that can't be read.
#[test]
fn a_rule_is_not_added_for_a_file_that_is_not_there() {
    let directory = tempfile::tempdir().unwrap();
    let file = home(directory.path());
    let before = std::fs::read_to_string(&file).unwrap()
        + "allowed_ips = [\"0.0.0.0/0\"]\n[routing]\ndefault_route = true\n";
    std::fs::write(&file, &before).unwrap();
    let list = directory.path().join("list");
    let list = list.to_str().unwrap();
    let add = ["rule", "add", "ads", "--do", "block", "--to-file", list, "--config", &file];
    let refused = braid(&add);
    assert_eq!(code(&refused), 1, "{}", stderr(&refused));
    assert!(stderr(&refused).contains("list: can't read it"), "{}", stderr(&refused));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), before);

    std::fs::write(list, "203.0.113.0/24\n").unwrap();
    assert_eq!(code(&braid(&add)), 0);
    std::fs::remove_file(list).unwrap();
    let checked = braid(&["config", "check", &file]);
    assert!(stdout(&checked).contains("list: can't read it"), "{}", stdout(&checked));
    let listed: Value =
        serde_json::from_slice(&braid(&["rule", "list", "--json", "--config", &file]).stdout)
            .unwrap();
    assert_eq!(listed["troubles"].as_array().unwrap().len(), 1, "{listed}");
}

/// As in `braid status | head -1`.
#[test]
fn a_reader_that_went_away_is_no_complaint() {
    for arguments in [
        vec!["keygen"],
        vec!["keygen", "--json"],
        vec!["pool", "plan", "--disk", "4T:hdd", "--disk", "4T:hdd"],
        vec!["lab", "scenarios"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let program =
            Command::new(env!("CARGO_BIN_EXE_braid")).args(&arguments).stdout(writer).output();
        let output = program.unwrap();
        assert_eq!(stderr(&output), "", "{arguments:?}");
        let expected = if arguments[0] == "lab" { 0 } else { 141 };
        assert_eq!(code(&output), expected, "{arguments:?}");
    }
}

/// A config whose key exists and whose tunnel doesn't run.
fn home(directory: &Path) -> String {
    let key = directory.join("home.key");
    assert_eq!(code(&braid(&["keygen", "--out", key.to_str().unwrap()])), 0);
    let file = directory.join("home.toml");
    let text = format!(
        "[interface]\nprivate_key_file = \"home.key\"\ncontrol = \"c.sock\"\nstate_dir = \"state\"\n\n\
         [[link]]\nname = \"dsl\"\ninterface = \"lo\" # the old one\n\n\
         [[peer]]\nname = \"c\"\npublic_key = \"{}\"\nendpoints = [\"192.0.2.1:51900\"]\n",
        "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo="
    );
    std::fs::write(&file, text).unwrap();
    file.to_str().unwrap().to_owned()
}

#[test]
fn a_wrong_command_line_is_told_as_json_to_who_asks_for_it() {
    for arguments in [&["status", "--json", "--nosuch"][..], &["mode", "--json", "fastest"]] {
        let output = braid(arguments);
        assert_eq!(code(&output), 2);
        let told: Value = serde_json::from_str(&stderr(&output)).unwrap();
        assert_eq!(told["exit_code"], 2);
        let what = told["error"].as_str().unwrap();
        assert!(what.contains(arguments[2]) && !what.contains('\n'), "{what}");
    }
    let output = braid(&["status", "--json", "--help"]);
    assert_eq!((code(&output), stderr(&output)), (0, String::new()));
}

#[test]
fn a_negative_value_is_told_as_such() {
    let output = braid(&["history", "--last", "-5"]);
    assert_eq!(code(&output), 2);
    assert!(stderr(&output).contains("-5 is not in 1..="), "{}", stderr(&output));
    let output = braid(&["link", "set", "dsl", "--cap-down", "-5Mbit"]);
    assert_eq!(code(&output), 2);
    assert!(stderr(&output).contains("values can't be negative"), "{}", stderr(&output));
    assert!(!stderr(&output).contains("-- -5"), "{}", stderr(&output));
}

#[test]
fn a_key_pair_is_made_and_its_public_half_found_again() {
    let private = stdout(&braid(&["keygen"]));
    assert_eq!(private.trim().len(), 44);
    let public = braid_with_input(&["pubkey"], &private);
    assert_eq!((code(&public), stdout(&public).trim().len()), (0, 44));
    assert_ne!(stdout(&public), private);
    // The pair of RFC 7748, section 6.1, as `wg pubkey` has it.
    let alice = braid_with_input(&["pubkey"], "dwdtCnMYpX08FsFyUbJmRd9ML4frwJkqsXf7pR25LCo=\n");
    assert_eq!(stdout(&alice), "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=\n");

    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("k");
    let path = file.to_str().unwrap();
    let made: Value =
        serde_json::from_slice(&braid(&["keygen", "--out", path, "--json"]).stdout).unwrap();
    let of_file = braid_with_input(&["pubkey"], &std::fs::read_to_string(&file).unwrap());
    assert_eq!(made["public_key"], stdout(&of_file).trim());
    assert_eq!(code(&braid(&["keygen", "--out", path])), 1, "keys are not overwritten");
    assert_eq!(code(&braid_with_input(&["pubkey"], "not a key")), 3);
}

#[test]
fn each_kind_of_failure_has_its_exit_code() {
    let directory = tempfile::tempdir().unwrap();
    let file = home(directory.path());
    let absent = directory.path().join("absent.toml");
    let absent = absent.to_str().unwrap();
    for (arguments, expected, says) in [
        (vec!["--help"], 0, ""),
        (vec!["frobnicate"], 2, "frobnicate"),
        (vec!["mode", "fast", "-c", &file], 2, "none of adaptive"),
        (vec!["link", "set", "dsl", "-c", &file], 2, "nothing to change"),
        (vec!["config", "check", absent], 3, "can't read the config"),
        (vec!["up", "-c", absent], 3, "can't read the config"),
        (vec!["home", "join", "nonsense", "-c", absent], 3, "not a join line"),
        (vec!["home", "join", "braid-join:AAAA", "-c", absent], 3, "damaged"),
        (vec!["status", "-c", &file], 4, "no tunnel is running"),
        (vec!["down", "-c", &file], 4, "no tunnel is running"),
        (vec!["reload", "-c", &file], 4, "no tunnel is running"),
        (vec!["mode", "broadcast", "--temporary", "-c", &file], 4, "no tunnel is running"),
        (vec!["ui", "-c", &file], 4, "no tunnel is running"),
        (vec!["ui", "--print", "login", "-c", &file], 2, "login"),
        (vec!["link", "remove", "fiber", "-c", &file], 1, "the links are: dsl"),
    ] {
        let output = braid(&arguments);
        assert_eq!(code(&output), expected, "{arguments:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(says), "{arguments:?}: {}", stderr(&output));
    }
    let output = braid(&["status", "--json", "-c", &file]);
    let error: Value = serde_json::from_slice(&output.stderr).unwrap();
    assert_eq!(error["exit_code"], 4);
}

#[test]
fn the_help_tells_the_exit_codes() {
    // Each command's own help: `cli::tests`.
    let help = stdout(&braid(&["--help"]));
    assert!(help.contains("Examples:") && help.contains("Exit codes:"), "{help}");
    assert!(stdout(&braid(&["lab", "run", "--help"])).contains("Exit status:"));
}

#[test]
fn a_config_is_checked_with_file_and_line() {
    let directory = tempfile::tempdir().unwrap();
    let file = home(directory.path());
    assert_eq!(code(&braid(&["config", "check", &file])), 0);
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("interface = \"lo\"", "interfaze = \"lo\"")).unwrap();
    let output = braid(&["config", "check", &file]);
    assert_eq!(code(&output), 3);
    let expected =
        format!("{file}:8: unknown key \"interfaze\" in [link]; did you mean \"interface\"?");
    assert!(stderr(&output).contains(&expected), "{}", stderr(&output));
    let output = braid(&["config", "check", "--json", &file]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let lines: Vec<_> = report["errors"].as_array().unwrap().iter().map(|e| &e["line"]).collect();
    assert_eq!((code(&output), lines.contains(&&Value::from(8))), (3, true));
}

#[test]
fn links_and_mode_are_edited_in_the_config_while_nothing_runs() {
    let directory = tempfile::tempdir().unwrap();
    let file = home(directory.path());
    let run = |arguments: &[&str]| {
        let arguments: Vec<&str> = arguments.iter().copied().chain(["-c", &file]).collect();
        let output = braid(&arguments);
        assert_eq!(code(&output), 0, "{arguments:?}: {}", stderr(&output));
        stdout(&output)
    };
    run(&["link", "add", "lte", "--interface", "wwan0", "--tier", "1", "--quota", "20GB/month"]);
    run(&["link", "set", "lte", "--standby", "true", "--cap-up", "2Mbit"]);
    run(&["mode", "overflow"]);
    assert_eq!(run(&["mode"]), "overflow\n");
    let list: Value = serde_json::from_str(&run(&["link", "list", "--json"])).unwrap();
    assert_eq!(list["links"][1]["name"], "lte");
    assert_eq!(list["links"][1]["standby"], true);
    let missing = list["links"][1]["trouble"].as_str().unwrap();
    assert!(missing.contains("no device wwan0"), "{missing}");
    assert_eq!(list["links"][1]["quota_bytes"], 20_000_000_000_u64);
    let list = run(&["link", "list"]);
    let lte = list.lines().find(|line| line.starts_with("lte")).unwrap();
    assert!(lte.contains("no device wwan0") && lte.ends_with("20GB"), "{list}");
    let checked = run(&["config", "check"]);
    assert!(checked.contains("link lte: there is no device wwan0 now"), "{checked}");
    run(&["link", "remove", "lte"]);
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains("interface = \"lo\" # the old one") && !text.contains("lte"), "{text}");

    let bad =
        braid(&["link", "add", "lte", "--interface", "wwan0", "--quota", "much", "-c", &file]);
    assert_eq!(code(&bad), 3);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), text, "a bad edit changes nothing");
}

/// Which modes go by a link's tier is said where one is set, and when one is.
#[test]
fn tiers_are_not_said_to_count_in_modes_that_use_all_links() {
    let help = stdout(&braid(&["link", "set", "--help"]));
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    let of_tier = help.split_once("--tier <TIER> ").unwrap().1.split_once(" --").unwrap().0;
    assert!(of_tier.contains("overflow") && of_tier.contains("active-backup"), "{of_tier}");
    assert!(of_tier.contains("other modes use all tiers"), "{of_tier}");

    let directory = tempfile::tempdir().unwrap();
    let file = home(directory.path());
    let set = |mode: &str| {
        assert_eq!(code(&braid(&["mode", mode, "-c", &file])), 0);
        stderr(&braid(&["link", "set", "dsl", "--tier", "1", "-c", &file]))
    };
    for mode in ["adaptive", "balance-rr", "balance-xor", "broadcast"] {
        let said = set(mode);
        assert!(said.contains(&format!("mode {mode} uses links of every tier")), "{said}");
    }
    for mode in ["overflow", "active-backup"] {
        assert!(!set(mode).contains("links of every tier"), "{mode}");
    }
}

#[test]
fn one_line_takes_a_home_into_a_concentrator() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let concentrator = path("c/braid.toml");
    let arguments = [
        "concentrator",
        "init",
        "--no-start",
        "--endpoint",
        "vpn.example.org:51900",
        "--home",
        "cabin",
        "-c",
        &concentrator,
    ];
    let init = braid(&arguments);
    assert_eq!(code(&init), 0, "{}", stderr(&init));
    let line = stdout(&init);
    assert_eq!(line.lines().count(), 1);
    let starts = |file: &str| format!("`braid up --config {file}`");
    assert!(stderr(&init).contains(&starts(&concentrator)), "{}", stderr(&init));
    assert_eq!(code(&braid(&["config", "check", &concentrator])), 0);
    assert_eq!(code(&braid(&arguments)), 1, "a config is not overwritten");

    let home = path("h/braid.toml");
    let join = |more: &[&str]| {
        let base = ["home", "join", line.trim(), "--interface", "eth7", "--no-start", "-c", &home];
        braid(&base.iter().chain(more).copied().collect::<Vec<_>>())
    };
    let dry = join(&["--dry-run"]);
    assert_eq!(code(&dry), 0, "{}", stderr(&dry));
    assert!(stdout(&dry).contains("vpn.example.org:51900"));
    assert!(!Path::new(&home).exists());
    assert_eq!(code(&join(&[])), 7, "nobody is there to say yes");
    let done = join(&["--yes"]);
    assert_eq!(code(&done), 0, "{}", stderr(&done));
    assert!(stdout(&done).contains(&starts(&home)), "{}", stdout(&done));
    assert_eq!(code(&braid(&["config", "check", &home])), 0);

    // Both ends know each other: keys, addresses, the shared secret.
    let read = |file: &str| std::fs::read_to_string(file).unwrap();
    let public = |key: &str| stdout(&braid_with_input(&["pubkey"], &read(key))).trim().to_owned();
    assert!(read(&home).contains(&public(&path("c/braid.key"))));
    assert!(read(&concentrator).contains(&public(&path("h/braid.enrol"))), "the line's key");
    assert!(!read(&concentrator).contains(&public(&path("h/braid.key"))), "known only to the home");
    assert_eq!(read(&path("h/braid.psk")), read(&path("c/cabin.psk")));
    assert!(
        read(&home).contains("\"10.77.0.2/24\"") && read(&concentrator).contains("\"10.77.0.2\"")
    );

    // Another line changes the line only, and its secret is another file.
    let before = read(&concentrator)
        .replace("allowed_ips = [\"10.77.0.2\"", "keepalive = \"25s\" # a NAT\n$0")
        .replace("$0", "allowed_ips = [\"192.168.7.0/24\", \"10.77.0.2\"");
    std::fs::write(&concentrator, &before).unwrap();
    let renewed = braid(&["concentrator", "renew", "cabin", "-c", &concentrator]);
    assert_eq!(code(&renewed), 0, "{}", stderr(&renewed));
    let after = read(&concentrator);
    let of_line = ["enrolment_key", "enrol_until", "preshared_key_file"];
    let kept = |text: &str| -> Vec<String> {
        let is_kept = |line: &&str| !of_line.iter().any(|key| line.starts_with(key));
        text.lines().filter(is_kept).map(str::to_owned).collect()
    };
    assert_eq!(kept(&after), kept(&before));
    assert!(after != before && after.contains("keepalive") && after.contains("cabin-2.psk"));
    assert!(
        !Path::new(&path("c/cabin.psk")).exists() && Path::new(&path("c/cabin-2.psk")).exists()
    );
    assert_ne!(stdout(&renewed), line);

    let second = braid(&["concentrator", "add-home", "boat", "-c", &concentrator]);
    assert_eq!(code(&second), 0, "{}", stderr(&second));
    assert!(read(&concentrator).contains("\"10.77.0.3\""));
    let again = braid(&["concentrator", "add-home", "boat", "-c", &concentrator]);
    assert_eq!(code(&again), 1, "{}", stderr(&again));
    assert_eq!(code(&braid(&["concentrator", "remove-home", "boat", "-c", &concentrator])), 0);
    assert!(!read(&concentrator).contains("boat") && !Path::new(&path("c/boat.psk")).exists());
    assert_eq!(code(&braid(&["concentrator", "remove-home", "boat", "-c", &concentrator])), 1);
}

/// What can't be used replaces nothing.
#[test]
fn a_config_of_openwrts_that_is_no_good_is_not_written() {
    let directory = tempfile::tempdir().unwrap();
    let (uci, out) = (directory.path().join("braid"), directory.path().join("braid.toml"));
    let good = home(directory.path());
    let made = stdout(&braid(&["config", "to-uci", &good]));
    let from = || {
        let (uci, out) = (uci.to_str().unwrap(), out.to_str().unwrap());
        braid(&["config", "from-uci", "--out", out, uci])
    };
    std::fs::write(&uci, made.replace("option name 'dsl'", "option name 'd s/l'")).unwrap();
    let refused = from();
    assert_eq!(code(&refused), 3, "{made}");
    assert!(!out.exists() && stderr(&refused).contains("d s/l"), "{}", stderr(&refused));
    std::fs::write(&uci, &made).unwrap();
    assert_eq!(code(&from()), 0, "{made}");
    assert!(out.exists());
}

/// There is no config yet whose lines could be named.
#[test]
fn what_is_wrong_with_a_fleet_to_be_joined_is_told_by_its_option() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("braid.toml");
    let init = |more: &[&str]| {
        let begin = ["concentrator", "init", "--config", file.to_str().unwrap(), "--no-start"];
        let name = ["--name", "vpn1", "--endpoint", "192.0.2.1:51900", "--fleet"];
        let output = braid(&[&begin[..], &name, more].concat());
        assert!(!file.exists());
        (code(&output), stderr(&output))
    };
    for (more, says) in [
        (&["etcds://192.0.2.9:2379/"][..], "needs --ca-file"),
        (&["http://192.0.2.9:2379/"], "--fleet: \"http://192.0.2.9:2379/\" is not a registry"),
        (
            &["etcd://192.0.2.9:2379/", "--etcd-user", "me", "--etcd-password-file", "/dev/null"],
            "the password would cross the network",
        ),
    ] {
        let (code, said) = init(more);
        assert!(code == 2 && said.contains(says), "{code}: {said}");
    }
    let (code, said) = init(&["etcds://192.0.2.9:2379/", "--ca-file", "/nowhere/ca.pem"]);
    assert!(code == 1 && said.contains("reading --ca-file /nowhere/ca.pem"), "{code}: {said}");
}
