//! An SSH server of the test's own, that nobody else can reach.

#![allow(unsafe_code)]

use crate::{Process, free_port, text};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Ended when dropped.
pub struct Sshd {
    server: Process,
    port: u16,
    folder: PathBuf,
}

/// So long for a computer with a lot to do.
const STARTS_WITHIN: Duration = Duration::from_secs(60);

impl Sshd {
    /// Starts one with its files in `folder`, in a network of this thread's own: to be called
    /// before anything else uses the network. Says why where that isn't possible.
    pub fn start(folder: &Path) -> Result<Sshd, String> {
        let is_there = |program: &str| {
            let found = Command::new("sh").args(["-c", &format!("command -v {program}")]).output();
            found.ok().filter(|found| found.status.success()).map(|found| found.stdout)
        };
        for program in ["ssh", "ssh-keygen", "ip"] {
            is_there(program).ok_or(format!("there is no {program}"))?;
        }
        // It starts itself again and wants to know where it is; not every root has its folder in
        // PATH.
        let program = is_there("sshd")
            .map(|path| String::from_utf8_lossy(&path).trim().to_owned())
            .or_else(|| Some("/usr/sbin/sshd".to_owned()).filter(|path| Path::new(path).exists()))
            .ok_or("there is no sshd: openssh-server isn't installed")?;
        own_network()?;
        for name in ["host", "user", "stranger"] {
            let key = folder.join(name);
            let arguments = ["-q", "-t", "ed25519", "-N", "", "-f", text(&key)];
            assert!(Command::new("ssh-keygen").args(arguments).status().unwrap().success());
        }
        let port = free_port();
        let known = fs::read_to_string(folder.join("host.pub")).unwrap();
        fs::write(folder.join("known"), format!("[127.0.0.1]:{port} {known}")).unwrap();
        let lines = format!(
            "ListenAddress 127.0.0.1:{port}\nHostKey {0}/host\nAuthorizedKeysFile {0}/user.pub\n\
             StrictModes no\nUsePAM no\nPermitRootLogin yes\nPasswordAuthentication no\n\
             KbdInteractiveAuthentication no\nPidFile none\n",
            text(folder)
        );
        let config = folder.join("sshd_config");
        fs::write(&config, lines).unwrap();
        let server = Command::new(program)
            .args(["-D", "-f", text(&config)])
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("sshd: {error}"))?;
        let sshd = Sshd { server: Process(server), port, folder: folder.to_owned() };
        let until = Instant::now() + STARTS_WITHIN;
        while !sshd.answers() {
            if Instant::now() > until {
                return Err("sshd doesn't let this test in".to_owned());
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        Ok(sshd)
    }

    /// A path at the other end.
    pub fn place(&self, path: &Path) -> String {
        format!("ssh://root@127.0.0.1:{}{}", self.port, text(path))
    }

    /// The remote shell for `--rsh`, with the key of that name.
    pub fn shell(&self, key: &str) -> String {
        let folder = text(&self.folder);
        format!(
            "ssh -F none -i {folder}/{key} -oIdentitiesOnly=yes -oUserKnownHostsFile={folder}/known \
             -oGlobalKnownHostsFile=none -oBatchMode=yes -T"
        )
    }

    /// Kills what serves the connections that there are; how many that were.
    pub fn cut(&self) -> usize {
        let sessions = children(self.server.0.id());
        for session in &sessions {
            // SAFETY: no pointers. The test's own sshd started it.
            unsafe { libc::kill(*session, libc::SIGKILL) };
        }
        sessions.len()
    }

    fn answers(&self) -> bool {
        let shell = self.shell("user");
        let mut words = shell.split_whitespace();
        let answer = Command::new(words.next().unwrap())
            .args(words)
            .args(["-p", &self.port.to_string(), "root@127.0.0.1", "true"])
            .stderr(Stdio::null())
            .status();
        answer.is_ok_and(|status| status.success())
    }
}

/// A network with nothing in it but its loopback, for this thread and what it starts; and a `/run`
/// in which the server may have its folder, in the mount namespace that the test is in.
fn own_network() -> Result<(), String> {
    // SAFETY: no pointers.
    if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
        return Err(format!("no network namespace: {}", std::io::Error::last_os_error()));
    }
    let run = |program: &str, arguments: &[&str]| {
        let done = Command::new(program).args(arguments).status();
        done.is_ok_and(|status| status.success()).then_some(()).ok_or(format!("{program} failed"))
    };
    run("ip", &["link", "set", "lo", "up"])?;
    run("mount", &["-t", "tmpfs", "none", "/run"])?;
    fs::create_dir("/run/sshd").map_err(|error| format!("/run/sshd: {error}"))
}

/// The processes whose parent is `parent`.
fn children(parent: u32) -> Vec<libc::pid_t> {
    let is_child = |pid: &libc::pid_t| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        status
            .lines()
            .any(|line| line.strip_prefix("PPid:").map(str::trim) == Some(&parent.to_string()))
    };
    let all = fs::read_dir("/proc").unwrap().flatten();
    all.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(is_child).collect()
}
