//! A file for a bug report.

use crate::cli::failure::{Failure, FailureKind};
use braid_control::config::Host;
use braid_control::finding::Finding;
use braid_doctor::{Blackout, Facts};
use braid_linux::tool;
use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

/// Commands that describe the host's network.
const COMMANDS: [(&str, &[&str]); 6] = [
    ("ip", &["-s", "link"]),
    ("ip", &["address"]),
    ("ip", &["rule"]),
    ("ip", &["route", "show", "table", "all"]),
    ("ip", &["-6", "route", "show", "table", "all"]),
    ("nft", &["list", "ruleset"]),
];
const PATIENCE: Duration = Duration::from_secs(5);
/// How much of the log's end is included.
const MOST_LOG: usize = 64 * 1024;

/// Writes it, mode 0600. An existing file isn't overwritten.
pub fn write(file: &Path, facts: &Facts, findings: &[Finding]) -> Result<(), Failure> {
    let mut blackout = Blackout::default();
    for name in names(facts) {
        blackout.name(&name);
    }
    let text = blackout.applied(&text(facts, findings));
    braid_durable::create(file, text.as_bytes(), 0o600).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => {
            let message = format!("{} already exists; name a new file", file.display());
            Failure::new(FailureKind::Usage, message)
        }
        _ => Failure::io(&format!("writing {}", file.display()), &error),
    })
}

fn text(facts: &Facts, findings: &[Finding]) -> String {
    let mut parts = vec![part("version", env!("CARGO_PKG_VERSION"))];
    parts.push(part("kernel", &read("/proc/version")));
    parts.push(part("findings", &json(&findings)));
    parts.push(part("status", &json(&facts.status)));
    parts.push(part("events", &json(&facts.events)));
    parts.push(part("host", &format!("{:#?}", facts.host)));
    parts.push(part("config", &read(facts.config.file.to_str().unwrap_or_default())));
    for (program, arguments) in COMMANDS {
        let name = format!("{program} {}", arguments.join(" "));
        parts.push(part(&name, &said(program, arguments)));
    }
    let interface = &facts.config.interface;
    let log = interface.state_dir.join(format!("{}.log", interface.name));
    let log = read(log.to_str().unwrap_or_default());
    let from = log.len().saturating_sub(MOST_LOG);
    let from = (from..=log.len()).find(|at| log.is_char_boundary(*at)).unwrap_or(0);
    parts.push(part("log", &log[from..]));
    parts.concat()
}

fn part(name: &str, text: &str) -> String {
    format!("==== {name}\n{}\n\n", text.trim_end())
}

fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string_pretty(value).unwrap_or_else(|error| error.to_string())
}

fn read(file: &str) -> String {
    fs::read_to_string(file).unwrap_or_else(|error| format!("({error})"))
}

fn said(program: &str, arguments: &[&str]) -> String {
    tool::said(program, arguments, PATIENCE).unwrap_or_else(|error| format!("({error})"))
}

/// Names that could identify somebody; names of links stay.
fn names(facts: &Facts) -> Vec<String> {
    let config = &facts.config;
    let mut names: Vec<String> = Vec::new();
    for endpoint in config.peers.iter().flat_map(|peer| &peer.endpoints) {
        if let Host::Name(name) = &endpoint.host {
            names.push(name.clone());
        }
    }
    names.extend(config.ui.hosts.iter().cloned());
    if !config.interface.listen.is_empty() {
        names.extend(config.peers.iter().map(|peer| peer.name.as_str().to_owned()));
    }
    let host = read("/proc/sys/kernel/hostname");
    names.push(host.trim().to_owned());
    names
}
