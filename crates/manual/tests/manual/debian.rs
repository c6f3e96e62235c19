//! HAProxy's manuals and their conversion by haproxy-dconv, as Debian has them: fetched by apt
//! into the target folder, not installed. Without apt or a network tests are skipped, with a word.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

/// What is fetched by one test needs not be by another.
static FETCHING: Mutex<()> = Mutex::new(());

/// The unpacked packages `haproxy` and `haproxy-doc`.
pub struct Haproxy {
    root: PathBuf,
}

impl Haproxy {
    /// Of the release that apt knows anyway.
    pub fn of_this_release() -> Option<Haproxy> {
        fetched("this-release", &["haproxy", "haproxy-doc"], &[])
    }

    /// Of another release of Debian, by a configuration of apt's that only this test has.
    pub fn of(release: &str) -> Option<Haproxy> {
        let state = folder().join(format!("apt-{release}"));
        let options = options(&state, release)?;
        fetched(release, &["haproxy"], &options)
    }

    /// One of the manuals: `configuration`, `management`, `intro`.
    pub fn manual(&self, name: &str) -> PathBuf {
        self.root.join(format!("usr/share/doc/haproxy/{name}.txt.gz"))
    }

    /// What haproxy-dconv made of it.
    pub fn dconv(&self, name: &str) -> String {
        let file = self.root.join(format!("usr/share/doc/haproxy/html/{name}.html"));
        fs::read_to_string(file).unwrap()
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("haproxy")
}

fn fetched(name: &str, packages: &[&str], options: &[String]) -> Option<Haproxy> {
    let _one = FETCHING.lock().unwrap();
    let root = folder().join(name);
    if !root.exists() {
        let made = fetch(&root, packages, options);
        if made.is_none() {
            eprintln!("SKIPPED: apt can't fetch {} of {name}", packages.join(" and "));
        }
        made?;
    }
    Some(Haproxy { root })
}

fn fetch(root: &Path, packages: &[&str], options: &[String]) -> Option<()> {
    fs::create_dir_all(folder()).unwrap();
    let work = tempfile::tempdir_in(folder()).unwrap();
    if !options.is_empty() {
        run(Command::new("apt-get").args(options).args(["-qq", "update"]))?;
    }
    let mut download = Command::new("apt-get");
    run(download.args(options).args(["-qq", "download"]).args(packages).current_dir(&work))?;
    let unpacked = work.path().join("unpacked");
    for entry in fs::read_dir(&work).unwrap() {
        let package = entry.unwrap().path();
        if package.extension().is_some_and(|ending| ending == "deb") {
            run(Command::new("dpkg-deb").arg("-x").arg(package).arg(&unpacked))?;
        }
    }
    fs::rename(unpacked, root).ok()
}

/// apt with sources and state of its own; its keys are Debian's.
fn options(state: &Path, release: &str) -> Option<Vec<String>> {
    let keys = "/usr/share/keyrings/debian-archive-keyring.gpg";
    if !Path::new(keys).exists() {
        eprintln!("SKIPPED: without {keys} apt can't check {release}");
        return None;
    }
    fs::create_dir_all(state.join("lists/partial")).unwrap();
    let sources = state.join("sources.list");
    let line = format!("deb [signed-by={keys}] http://deb.debian.org/debian {release} main\n");
    fs::write(&sources, line).unwrap();
    let state = state.display();
    Some(
        [
            format!("Dir::Etc::SourceList={state}/sources.list"),
            "Dir::Etc::SourceParts=/nonexistent".into(),
            format!("Dir::State::Lists={state}/lists"),
            format!("Dir::Cache={state}"),
            "APT::Get::List-Cleanup=0".into(),
            "Acquire::Languages=none".into(),
        ]
        .map(|option| format!("-o{option}"))
        .to_vec(),
    )
}

fn run(command: &mut Command) -> Option<()> {
    command.output().ok().filter(|output| output.status.success()).map(drop)
}
