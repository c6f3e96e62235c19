//! The lab's command line as a separate program: exit status, written files, nothing left behind.
//! This test has no harness, since the lab must start with a single thread: with arguments it is
//! the program, without it is the test.

#![allow(unsafe_code)]

use braid_lab::LabArgs;
use braid_lab::report::Results;
use clap::Parser;
use std::path::Path;
use std::process::{Command, ExitCode, Output, Stdio};
use std::time::{Duration, Instant};

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    lab: LabArgs,
}

const SCENARIO: &str = r#"name = "short"
duration = "1s"
[[link]]
name = "one"
down = { rate = "20Mbit", delay = "5ms" }
nat = true
[[link]]
name = "two"
down = { rate = "10Mbit", delay = "10ms" }
[[traffic]]
kind = "tcp"
"#;

fn main() -> ExitCode {
    let asked = std::env::args().nth(1);
    if asked.as_deref() == Some("--lab") {
        let cli = Cli::parse_from(std::env::args_os().skip(1));
        return braid_lab::execute(cli.lab.command);
    }
    if asked.as_deref() == Some("--list") {
        // For cargo-nextest and IDEs.
        println!("command_line: test");
        return ExitCode::SUCCESS;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    mistakes_are_status_2(folder.path());
    a_run_writes_its_files_and_is_status_0(folder.path());
    what_cannot_be_measured_is_status_1(folder.path());
    engines_are_compared_in_one_report(folder.path());
    a_vm_gives_its_commands_status(folder.path());
    a_signal_ends_it_and_leaves_nothing(folder.path());
    println!("command_line: ok");
    ExitCode::SUCCESS
}

fn lab(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("the test's own path"));
    command.arg("--lab").args(arguments).current_dir(folder).env("TMPDIR", folder);
    command
}

fn output(folder: &Path, arguments: &[&str]) -> Output {
    lab(folder, arguments).output().expect("the lab starts")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn mistakes_are_status_2(folder: &Path) {
    let broken = folder.join("broken.toml");
    std::fs::write(&broken, SCENARIO.replace("20Mbit", "20")).unwrap();
    std::fs::write(folder.join("short.toml"), SCENARIO).unwrap();
    let late = SCENARIO.replace("\"1s\"", "\"9s\"") + "start = \"5s\"\n";
    std::fs::write(folder.join("late.toml"), late).unwrap();
    for (arguments, expected) in [
        (&["run", "broken.toml"][..], "broken.toml:5: link[1].down.rate"),
        (&["run", "absent.toml"], "can't read the scenario"),
        (&["run", "short.toml", "--engine", "warp"], "there is no engine \"warp\""),
        (&["run", "short.toml", "--engine", "link:three"], "there is no link \"three\""),
        (&["run", "short.toml", "--engine", "tunnel:fast"], "the tunnel has no mode"),
        (&["run", "short.toml", "--engine", "external:absent.toml"], "can't read the engine"),
        (&["run", "short.toml", "--engine", "external:broken.toml"], "broken.toml:1: server"),
        (&["run", "short.toml", "--json", "no/such/folder.json"], "can't write there"),
        (&["run", "short.toml", "--keep-logs", "short.toml"], "can't write there"),
        (&["run", "late.toml", "--seconds", "1"], "nothing runs within 1s"),
        (&["run", "short.toml", "--repeat", "0"], "repeat"),
        (&["scenarios", "seven-3g"], "no shipped scenario"),
        (&["compare", "--suite", "wan", "--only", "sunny"], "there is no case \"sunny\""),
        (&["compare", "--suite", "wan", "--engine", "warp"], "there is no engine \"warp\""),
        (&["compare", "--suite", "wan", "--engine", "link:x"], "there is no link \"x\""),
        (&["vm", "-d", "10", "--", "true"], "no unit"),
    ] {
        let output = output(folder, arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(expected), "{arguments:?}: {}", stderr(&output));
    }
    let listed = output(folder, &["scenarios"]);
    assert!(listed.status.success());
    assert!(String::from_utf8_lossy(&listed.stdout).contains("six-3g"));
}

fn a_run_writes_its_files_and_is_status_0(folder: &Path) {
    let output = output(
        folder,
        &["run", "short.toml", "--engine", "each", "--repeat", "2", "--json", "out.json"],
    );
    assert!(output.status.success(), "{}", stderr(&output));
    let text = std::fs::read_to_string(folder.join("out.json")).unwrap();
    let results: Results = serde_json::from_str(&text).unwrap();
    let engines: Vec<(&str, u32)> =
        results.runs.iter().map(|run| (run.engine.as_str(), run.repetition)).collect();
    assert_eq!(engines, [("link:one", 1), ("link:two", 1), ("link:one", 2), ("link:two", 2)]);
}

fn what_cannot_be_measured_is_status_1(folder: &Path) {
    let engine = "server = \"10.1.1.1\"\n[home]\nsetup = [\"echo no luck; exit 3\"]\n";
    std::fs::write(folder.join("engine.toml"), engine).unwrap();
    let arguments = ["run", "short.toml", "--no-baseline", "--engine"];
    let output = output(folder, &[&arguments[..], &["external:engine.toml"]].concat());
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("no luck"), "{}", stderr(&output));
}

fn engines_are_compared_in_one_report(folder: &Path) {
    let arguments = ["compare", "--suite", "wan", "--only", "lossy", "--seconds", "1"];
    let engines = ["--engine", "mptcp", "--engine", "round-robin"];
    let files = ["--markdown", "c.md", "--report", "c.html", "--json", "c.json"];
    let output = output(folder, &[&arguments[..], &engines, &files].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let text = std::fs::read_to_string(folder.join("c.md")).unwrap();
    assert!(text.contains("| engine | tcp-down-1-cubic | tcp-down-8-cubic |"), "{text}");
    for row in ["| *all links, each alone* |", "| mptcp |", "| round-robin |"] {
        let line = text.lines().find(|line| line.starts_with(row)).expect(row);
        assert!(!line.contains('–'), "{line}");
    }
    let page = std::fs::read_to_string(folder.join("c.html")).unwrap();
    assert!(page.contains("<td>mptcp</td>") && page.trim_end().ends_with("</html>"));
    let json = std::fs::read_to_string(folder.join("c.json")).unwrap();
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(value["cases"][0]["runs"].as_array().unwrap().len(), 4);
    for file in ["c.md", "c.html", "c.json"] {
        std::fs::remove_file(folder.join(file)).unwrap();
    }
}

fn a_vm_gives_its_commands_status(folder: &Path) {
    if let Err(missing) = braid_vm::Vm::find() {
        println!("skipped: {missing}");
        return;
    }
    let output = output(folder, &["vm", "-d", "10MB", "--", "sh", "-c", "ls $VM_DISKS; exit 5"]);
    assert_eq!(output.status.code(), Some(5), "{}", stderr(&output));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "/dev/ubda\n");
}

fn a_signal_ends_it_and_leaves_nothing(folder: &Path) {
    let long = SCENARIO.replace("\"1s\"", "\"60s\"");
    std::fs::write(folder.join("long.toml"), long).unwrap();
    // Waits forever before anything is measured, ignoring signals.
    let stubborn = "name = \"stubborn\"\nserver = \"10.99.0.1\"\n[home]\nup = \"true\"\n\
                    [concentrator]\nup = \"true\"\nsetup = [\"trap '' TERM INT; sleep 600 & wait\"]\n";
    std::fs::write(folder.join("stubborn.toml"), stubborn).unwrap();
    let objects = "[[traffic]]\nkind = \"web\"\n[[traffic]]\nkind = \"pages\"\nflows = 3\n";
    let web =
        SCENARIO.replace("\"1s\"", "\"60s\"").replace("[[traffic]]\nkind = \"tcp\"\n", objects);
    std::fs::write(folder.join("web.toml"), web).unwrap();
    let before = entries(folder);
    let alone = ["run", "long.toml", "--no-baseline", "--engine", "link:one"];
    let waits = ["run", "long.toml", "--no-baseline", "--engine", "external:stubborn.toml"];
    let multipath = ["run", "web.toml", "--no-baseline", "--engine", "mptcp"];
    for (arguments, signal, status) in [
        (&alone[..], libc::SIGINT, Some(130)),
        (&alone, libc::SIGTERM, Some(130)),
        (&alone, libc::SIGKILL, None),
        (&waits, libc::SIGTERM, Some(130)),
        (&multipath, libc::SIGTERM, Some(130)),
        // The links alone are measured first.
        (&["run", "web.toml", "--engine", "ecmp"], libc::SIGINT, Some(130)),
        (&["compare", "--suite", "wan", "--seconds", "60"], libc::SIGTERM, Some(130)),
        (&["calibrate"], libc::SIGINT, Some(130)),
    ] {
        let mut child = lab(folder, arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the lab starts");
        std::thread::sleep(Duration::from_millis(1_500));
        assert_eq!(child.try_wait().unwrap(), None, "it runs");
        // SAFETY: kill takes no pointers; the child is not reaped yet.
        unsafe { libc::kill(child.id() as libc::pid_t, signal) };
        let asked = Instant::now();
        let code = child.wait().unwrap().code();
        assert_eq!(code, status, "{arguments:?}");
        // It takes 2 s; a busy machine may need more.
        let within = Duration::from_secs(10);
        assert!(asked.elapsed() < within, "{arguments:?}: it ended by itself only");
        assert_eq!(entries(folder), before, "something was left behind");
    }
}

fn entries(folder: &Path) -> Vec<std::ffi::OsString> {
    let mut names: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    names
}
