use super::TopologyError;
use braid_linux::netns::NetNs;
use std::io::Write;
use std::process::{Command, Stdio};

/// Runs lines of a program's batch mode in a namespace, in one process;
/// `program` is `ip`, `ip -6` or `tc`.
///
/// # Errors
/// The failed line and the program's message.
pub(super) fn batch(ns: &NetNs, program: &str, lines: &[String]) -> Result<(), TopologyError> {
    let mut words = program.split(' ');
    let mut command = ns.command(words.next().unwrap_or(program));
    command.args(words).args(["-batch", "-"]);
    let mut script = lines.join("\n");
    script.push('\n');
    feed(command, &script).map_err(|failure| {
        let line = failure.said.find("-:").and_then(|at| {
            let digits = failure.said.get(at + 2..)?;
            let number: usize = digits.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()?;
            lines.get(number.checked_sub(1)?)
        });
        let command = match line {
            Some(line) => format!("{program} {line}"),
            None => format!("{program} -batch: {}", lines.join("; ")),
        };
        TopologyError::Command { command, said: failure.said }
    })
}

/// Loads a ruleset with `nft` in a namespace.
///
/// # Errors
/// The ruleset and nft's message.
pub(super) fn nft(ns: &NetNs, ruleset: &str) -> Result<(), TopologyError> {
    let mut command = ns.command("nft");
    command.args(["-f", "-"]);
    feed(command, ruleset).map_err(|failure| TopologyError::Command {
        command: format!("nft -f -: {}", ruleset.trim()),
        said: failure.said,
    })
}

/// Sets sysctls under `net.`, given as paths below `/proc/sys/net`.
///
/// # Errors
/// The setting that failed.
pub(super) fn sysctls(ns: &NetNs, settings: &[(&str, &str)]) -> Result<(), TopologyError> {
    ns.run(|| {
        settings.iter().try_for_each(|(name, value)| {
            std::fs::write(format!("/proc/sys/net/{name}"), value).map_err(|source| {
                TopologyError::Sysctl {
                    name: (*name).to_owned(),
                    value: (*value).to_owned(),
                    source,
                }
            })
        })
    })
    .map_err(TopologyError::Namespace)?
}

struct Failure {
    said: String,
}

fn feed(mut command: Command, input: &str) -> Result<(), Failure> {
    let program = command.get_program().to_string_lossy().into_owned();
    let hint = |error: std::io::Error| Failure {
        said: match error.kind() {
            std::io::ErrorKind::NotFound => {
                format!("{program} isn't installed (apt install iproute2 nftables)")
            }
            _ => error.to_string(),
        },
    };
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(hint)?;
    if let Some(mut stdin) = child.stdin.take() {
        // If the program gave up early, its message says why.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().map_err(hint)?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(Failure { said: if said.is_empty() { output.status.to_string() } else { said } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_has_the_failed_line_and_what_was_said() {
        let here = NetNs::new().unwrap();
        let lines = ["link show lo", "link set nosuchdevice up"].map(str::to_owned);
        let message = batch(&here, "ip", &lines).unwrap_err().to_string();
        assert!(message.contains("ip link set nosuchdevice up"), "{message}");
        assert!(message.contains("Cannot find device"), "{message}");
    }
}
