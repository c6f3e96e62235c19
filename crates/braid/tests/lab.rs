//! `braid lab` with its own tunnel, as a user without root calls it.

#![allow(unsafe_code)]

use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// The lab can't work on this machine.
const NO_LAB: i32 = 3;
/// `nobody`.
const USER: u32 = 65_534;
/// Far more than needed: the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(30);

const SCENARIO: &str = r#"name = "two"
duration = "2s"
[[link]]
name = "one"
down = { rate = "10Mbit", delay = "5ms" }
up = { rate = "5Mbit", delay = "5ms" }
nat = true
[[link]]
name = "two"
down = { rate = "5Mbit", delay = "10ms" }
up = { rate = "5Mbit", delay = "10ms" }
mtu = 1400
[[traffic]]
kind = "tcp"
congestion = "cubic"
[[traffic]]
kind = "ping"
"#;

#[test]
fn a_user_without_root_measures_the_tunnel() {
    let home = Home::new();
    let arguments =
        ["run", "two.toml", "--engine", "link:one", "--engine", "tunnel", "--no-baseline"];
    let files = ["--json", "out.json", "--report", "out.html"];
    let output = home.lab(&[&arguments[..], &files].concat()).output().unwrap();
    if home.skipped(&output) {
        return;
    }
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let json: Value = serde_json::from_str(&home.read("out.json")).unwrap();
    let runs = json["runs"].as_array().unwrap();
    let found: Vec<_> = runs
        .iter()
        .map(|run| (run["engine"].as_str().unwrap(), run["traffic"].as_str().unwrap()))
        .collect();
    let expected = [
        ("link:one", "tcp-down-1-cubic"),
        ("link:one", "ping"),
        ("tunnel", "tcp-down-1-cubic"),
        ("tunnel", "ping"),
    ];
    assert_eq!(found, expected);
    for run in runs {
        let measured = match run["traffic"] == "ping" {
            true => &run["ping_ms"]["p50"],
            false => &run["goodput_mbps"],
        };
        assert!(measured.as_f64().unwrap() > 0.0, "{run}");
    }
    let page = home.read("out.html");
    assert!(page.trim_end().ends_with("</html>") && !page.contains("http"), "opens offline");
    home.nothing_is_left(&["out.html", "out.json"]);
}

#[test]
fn a_killed_lab_leaves_nothing() {
    let home = Home::new();
    let long = SCENARIO.replace("\"2s\"", "\"600s\"");
    fs::write(home.path.join("two.toml"), long).unwrap();
    let arguments = ["run", "two.toml", "--engine", "tunnel", "--no-baseline"];
    let mut child = home.lab(&arguments).stdin(Stdio::null()).spawn().unwrap();
    // The lab and both ends of the tunnel.
    let give_up = Instant::now() + PATIENCE;
    while home.processes().len() < 3 {
        if let Some(status) = child.try_wait().unwrap() {
            assert_eq!(status.code(), Some(NO_LAB));
            eprintln!("SKIPPED: user namespaces are forbidden here");
            return;
        }
        assert!(Instant::now() < give_up, "both ends never started");
        std::thread::sleep(Duration::from_millis(50));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    home.nothing_is_left(&[]);
}

/// A folder of a user who is not root, with the program and a scenario in it.
struct Home {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

impl Home {
    fn new() -> Home {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_owned();
        // Where this program was built may be root's alone. Copied by another one: what this one
        // has open to write, the other test's children hold for a moment, and it can't be run then.
        let copy = Command::new("cp").arg(env!("CARGO_BIN_EXE_braid")).arg(&path).status();
        assert!(copy.unwrap().success());
        fs::write(path.join("two.toml"), SCENARIO).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
        Home { _folder: folder, path }
    }

    fn lab(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.path.join("braid"));
        command.arg("lab").args(arguments).current_dir(&self.path).env("TMPDIR", &self.path);
        command.stdout(Stdio::null());
        if is_root() {
            command.uid(USER).gid(USER);
        }
        command
    }

    fn skipped(&self, output: &Output) -> bool {
        let skipped = output.status.code() == Some(NO_LAB);
        if skipped {
            let why = String::from_utf8_lossy(&output.stderr);
            eprintln!("SKIPPED: the lab can't work here: {}", why.trim());
        }
        skipped
    }

    fn read(&self, file: &str) -> String {
        fs::read_to_string(self.path.join(file)).unwrap()
    }

    /// Neither a process nor a file, apart from those asked for.
    fn nothing_is_left(&self, files: &[&str]) {
        let give_up = Instant::now() + PATIENCE;
        while !self.processes().is_empty() {
            assert!(Instant::now() < give_up, "still there: {:?}", self.processes());
            std::thread::sleep(Duration::from_millis(20));
        }
        let mut found: Vec<String> = fs::read_dir(&self.path)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name != "braid" && name != "two.toml")
            .collect();
        found.sort();
        assert_eq!(found, files);
    }

    /// Those that were started with this folder for their temporary files.
    fn processes(&self) -> Vec<PathBuf> {
        let ours = format!("TMPDIR={}\0", self.path.display());
        let is_ours = |process: &Path| {
            let environment = fs::read(process.join("environ")).unwrap_or_default();
            String::from_utf8_lossy(&environment).contains(&ours)
        };
        let all = fs::read_dir("/proc").unwrap().filter_map(|entry| Some(entry.ok()?.path()));
        all.filter(|process| is_ours(process)).collect()
    }
}

fn is_root() -> bool {
    // SAFETY: it takes nothing and can't fail.
    unsafe { libc::geteuid() == 0 }
}
