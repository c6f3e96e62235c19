//! `braid ui serve` for a host of [`crate::host`], and who asks it.

use crate::BRAID;
use crate::host::Host;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The page of a host, until dropped.
pub struct Served {
    child: Child,
    pub socket: PathBuf,
    port: String,
}

impl Served {
    pub fn start(host: &Host) -> Served {
        Served::with(host, &[])
    }

    /// With further arguments.
    pub fn with(host: &Host, more: &[&str]) -> Served {
        let socket = host.path("run/ui.sock");
        let mut command = Command::new(BRAID);
        command
            .args(["ui", "serve", "--no-smart", "--listen", "127.0.0.1:0", "--ui-socket"])
            .arg(&socket)
            .arg("--passwords")
            .arg(host.path("passwords"))
            .arg("--state")
            .arg(host.path("watch.json"))
            .args(more)
            .stderr(Stdio::piped());
        let mut child = host.place(&mut command).spawn().unwrap();
        let mut said = String::new();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        while !said.contains("http://") {
            assert!(stderr.read_line(&mut said).unwrap() > 0, "it ended: {said}");
        }
        std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::stderr()));
        let port = said.split("http://").nth(1).unwrap().split('/').next().unwrap().to_owned();
        let begun = Instant::now();
        while UnixStream::connect(&socket).is_err() {
            assert!(begun.elapsed() < PATIENCE, "no socket");
            std::thread::sleep(Duration::from_millis(20));
        }
        Served { child, socket, port }
    }

    pub fn get(&self, path: &str) -> String {
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        asked(UnixStream::connect(&self.socket).unwrap(), &request)
    }

    pub fn post(&self, path: &str, form: &str) -> String {
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\nConnection: close\r\n\
             Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{form}",
            form.len()
        );
        asked(UnixStream::connect(&self.socket).unwrap(), &request)
    }

    pub fn by_port(&self, path: &str) -> String {
        let host = &self.port;
        let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        asked(TcpStream::connect(host).unwrap(), &request)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const PATIENCE: Duration = Duration::from_secs(60);

/// The answer; of one that never ends its first message.
fn asked(mut stream: impl Read + Write, request: &str) -> String {
    stream.write_all(request.as_bytes()).unwrap();
    let (mut answer, mut bytes) = (Vec::new(), [0; 4096]);
    let begun = Instant::now();
    loop {
        let count = stream.read(&mut bytes).unwrap();
        answer.extend_from_slice(&bytes[..count]);
        let text = String::from_utf8_lossy(&answer);
        let streams = text.contains("text/event-stream") && text.contains("data: {");
        if count == 0 || streams || begun.elapsed() > PATIENCE {
            return text.into_owned();
        }
    }
}
