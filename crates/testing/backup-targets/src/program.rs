use crate::{KEY, SECRET};
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Whether restic is installed; says so if not.
pub fn restic_is_there() -> bool {
    let there = Command::new("restic").arg("version").output().is_ok();
    if !there {
        eprintln!("SKIPPED: no restic here (apt-get install restic)");
    }
    there
}

/// Runs restic on a repository with the key in `key`; returns its output.
///
/// # Panics
/// If it fails.
pub fn restic(
    repository: &str,
    key: &Path,
    environment: &[(&str, &str)],
    words: &[&str],
) -> String {
    let output = Command::new("restic")
        .args(["--no-cache", "-r", repository, "--password-file"])
        .arg(key)
        .args(words)
        .envs(environment.iter().copied())
        .output()
        .unwrap();
    said(&format!("restic {words:?}"), &output)
}

fn said(what: &str, output: &Output) -> String {
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(output.status.success(), "{what}: {text}");
    text
}

/// OpenSSH's SFTP server without ssh, as a shell command; `None` if it isn't installed.
pub fn sftp_server() -> Option<&'static str> {
    let path = "/usr/lib/openssh/sftp-server";
    if Path::new(path).exists() {
        return Some(path);
    }
    eprintln!("SKIPPED: no sftp-server here (apt-get install openssh-sftp-server)");
    None
}

/// Whether versitygw is installed; says so if not.
fn versitygw_is_there() -> bool {
    let there = Command::new("versitygw").arg("--version").output().is_ok();
    if !there {
        eprintln!("SKIPPED: no versitygw here (./setup test, with Go)");
    }
    there
}

/// `versitygw posix`: an S3 server with versions and object lock, independent of s3s.
pub struct VersityServer {
    /// Where it listens.
    pub address: SocketAddr,
    child: Child,
}

impl VersityServer {
    /// Serves `folder`, whose filesystem must support extended attributes; `None` if it isn't
    /// installed.
    ///
    /// # Panics
    /// If it can't be started.
    pub fn start(folder: &Path) -> Option<VersityServer> {
        if !versitygw_is_there() {
            return None;
        }
        let [objects, versions] = ["objects", "versions"].map(|name| folder.join(name));
        for folder in [&objects, &versions] {
            std::fs::create_dir_all(folder).unwrap();
        }
        let address = free_address();
        let child = Command::new("versitygw")
            .args(["--quiet", "--port", &address.to_string(), "--access", KEY, "--secret", SECRET])
            .args(["posix", "--versioning-dir"])
            .args([&versions, &objects])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let server = VersityServer { address, child };
        await_listening(address);
        Some(server)
    }
}

impl Drop for VersityServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

fn await_listening(address: SocketAddr) {
    let began = Instant::now();
    while TcpStream::connect(address).is_err() {
        assert!(began.elapsed() < Duration::from_secs(60), "nothing listens at {address}");
        thread::sleep(Duration::from_millis(50));
    }
}

/// `rclone serve restic`: a server of restic's REST protocol.
pub struct RestServer {
    /// Its address.
    pub url: String,
    child: Child,
}

impl RestServer {
    /// Serves `folder`; `None` if rclone isn't installed.
    ///
    /// # Panics
    /// If it can't be started.
    pub fn start(folder: &Path, append_only: bool) -> Option<RestServer> {
        if Command::new("rclone").arg("version").output().is_err() {
            eprintln!("SKIPPED: no rclone here (apt-get install rclone)");
            return None;
        }
        let address = free_address();
        let mut command = Command::new("rclone");
        command.args([
            "serve",
            "restic",
            "--addr",
            &address.to_string(),
            "--user",
            "me",
            "--pass",
            "a:b/c",
        ]);
        command.args(["-v", "--config", "/dev/null"]);
        if append_only {
            command.arg("--append-only");
        }
        let mut child =
            command.arg(folder).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let errors = child.stderr.take().unwrap();
        // A full pipe would stop it.
        thread::spawn(move || for _ in BufReader::new(errors).lines() {});
        let server = RestServer { url: format!("http://me:a%3Ab%2Fc@{address}/"), child };
        await_listening(address);
        Some(server)
    }
}

impl Drop for RestServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
