use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Whether Debian's package `restic` is installed; says so if not.
pub fn restic_is_there() -> bool {
    let there = Command::new("restic").arg("version").output().is_ok();
    if !there {
        eprintln!("SKIPPED: no restic here (apt-get install restic)");
    }
    there
}

/// Runs it on a repository, with the key in `key`; what it said.
///
/// # Panics
/// It fails.
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

/// The server of OpenSSH's SFTP without its ssh, as a shell's command; nothing where it isn't
/// installed.
pub fn sftp_server() -> Option<&'static str> {
    let path = "/usr/lib/openssh/sftp-server";
    if Path::new(path).exists() {
        return Some(path);
    }
    eprintln!("SKIPPED: no sftp-server here (apt-get install openssh-sftp-server)");
    None
}

/// `rclone serve restic`: a server of restic's REST protocol.
pub struct RestServer {
    /// Where it is.
    pub url: String,
    child: Child,
}

impl RestServer {
    /// Serves `folder`; nothing where rclone isn't installed.
    ///
    /// # Panics
    /// It can't be started.
    pub fn start(folder: &Path, append_only: bool) -> Option<RestServer> {
        if Command::new("rclone").arg("version").output().is_err() {
            eprintln!("SKIPPED: no rclone here (apt-get install rclone)");
            return None;
        }
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let address = format!("127.0.0.1:{port}");
        let mut command = Command::new("rclone");
        command.args(["serve", "restic", "--addr", &address, "--user", "me", "--pass", "a:b/c"]);
        command.args(["-v", "--config", "/dev/null"]);
        if append_only {
            command.arg("--append-only");
        }
        let mut child =
            command.arg(folder).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let errors = child.stderr.take().unwrap();
        // What nobody reads would stop it.
        thread::spawn(move || for _ in BufReader::new(errors).lines() {});
        let server = RestServer { url: format!("http://me:a%3Ab%2Fc@{address}/"), child };
        let began = Instant::now();
        while std::net::TcpStream::connect(&address).is_err() {
            assert!(began.elapsed() < Duration::from_secs(60), "rclone doesn't listen");
            thread::sleep(Duration::from_millis(50));
        }
        Some(server)
    }
}

impl Drop for RestServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
