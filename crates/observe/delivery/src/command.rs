use braid_alert::Message;
use serde::Serialize;
use std::io::Write;
use std::process::{Command, Stdio};

/// Runs `sh -c command` with the message in its environment and, as JSON, on its standard input.
/// The caller of this process kills both if it takes too long.
pub fn run(command: &str, message: &Message, body: &impl Serialize) -> Result<(), String> {
    let body = serde_json::to_string(body).map_err(|error| error.to_string())?;
    let kinds: Vec<&str> = message.events.iter().map(|event| event.kind.as_str()).collect();
    let mut child = Command::new("sh")
        .args(["-c", command])
        .env("BRAID_SEVERITY", message.severity.as_str())
        .env("BRAID_EVENTS", kinds.join(" "))
        .env("BRAID_TITLE", message.title())
        .env("BRAID_TEXT", message.text())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("sh: {error}"))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A command may ignore its input.
        let _ = writeln!(stdin, "{body}");
    }
    let status = child.wait().map_err(|error| error.to_string())?;
    match status.success() {
        true => Ok(()),
        false => Err(format!("the command ended with {status}")),
    }
}
