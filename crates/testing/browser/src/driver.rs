//! chromedriver: a child process that speaks HTTP and JSON on the loopback interface.

use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;
use ureq::Agent;

/// Timeout; loading a page takes less even on a busy machine.
const LONGEST: Duration = Duration::from_secs(120);

pub struct Driver {
    process: Child,
    profile: TempDir,
    agent: Agent,
    base: String,
}

impl Driver {
    pub fn start() -> Driver {
        let profile = tempfile::tempdir().expect("a folder for the profile");
        let mut process = Command::new("chromedriver")
            .arg("--port=0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("chromedriver starts");
        let output = process.stdout.take().expect("it was piped");
        let mut lines = BufReader::new(output).lines().map_while(Result::ok);
        // "ChromeDriver was started successfully on port 40123."
        let port = lines.find_map(|line| {
            let (_, port) = line.split_once("successfully on port ")?;
            port.trim_end_matches('.').parse::<u16>().ok()
        });
        let port = port.expect("chromedriver says its port");
        // It keeps writing, and must not block.
        std::thread::spawn(move || lines.for_each(drop));
        let config = Agent::config_builder()
            .timeout_global(Some(LONGEST))
            .http_status_as_error(false)
            .build();
        let base = format!("http://127.0.0.1:{port}");
        Driver { process, profile, agent: config.into(), base }
    }

    /// The browser's profile folder, empty at first.
    pub fn profile(&self) -> &Path {
        self.profile.path()
    }

    pub fn get(&self, path: &str) -> Value {
        let answer = self.agent.get(format!("{}{path}", self.base)).call();
        value(path, answer.expect("chromedriver answers").body_mut().read_json())
    }

    pub fn post(&self, path: &str, body: &Value) -> Value {
        let answer = self.agent.post(format!("{}{path}", self.base)).send_json(body);
        let mut answer = answer.expect("chromedriver answers");
        // Screenshots exceed ureq's default limit.
        let read = answer.body_mut().with_config().limit(256 << 20).read_json();
        value(path, read)
    }

    /// The outcome doesn't matter.
    pub fn delete(&self, path: &str) {
        let _ = self.agent.delete(format!("{}{path}", self.base)).call();
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn value(path: &str, answer: Result<Value, ureq::Error>) -> Value {
    let mut answer = answer.expect("chromedriver answers in JSON");
    let value = answer["value"].take();
    let error =
        value.get("error").and_then(Value::as_str).filter(|_| value.get("stacktrace").is_some());
    if let Some(error) = error {
        panic!("{path}: {error}: {}", value["message"].as_str().unwrap_or_default());
    }
    value
}
