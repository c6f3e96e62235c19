//! Rules in `DOCKER-USER`, the chain for users' rules that Docker evaluates before its own. They
//! are needed because Docker forwards only its own traffic.

use braid_engines::{Family, iptables};
use std::io;
use std::process::Command;
use std::time::Duration;

/// The chain's name.
const CHAIN: &str = "DOCKER-USER";

/// Puts a rule first.
pub(super) fn set(family: Family, rule: &str) -> io::Result<()> {
    match run(family, "-I", rule)? {
        None => Ok(()),
        Some(said) => Err(io::Error::other(said)),
    }
}

/// Whether the rule is there.
pub(super) fn is_set(family: Family, rule: &str) -> io::Result<bool> {
    Ok(run(family, "-C", rule)?.is_none())
}

/// Removes the rule, if it exists.
pub(super) fn unset(family: Family, rule: &str) -> io::Result<()> {
    match is_set(family, rule) {
        Ok(true) => match run(family, "-D", rule)? {
            Some(said) if is_set(family, rule)? => Err(io::Error::other(said)),
            _ => Ok(()),
        },
        Ok(false) => Ok(()),
        // If iptables was removed, so was Docker.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Longer than it waits for other programs.
const LIMIT: Duration = Duration::from_secs(8);

/// Runs iptables; the error has its output.
fn run(family: Family, action: &str, rule: &str) -> io::Result<Option<String>> {
    let mut command = Command::new(iptables(family));
    // Waits for other programs that change rules at the same time.
    command.args(["-w", "5", action, CHAIN]).args(rule.split(' '));
    let outcome = braid_tool::run(&mut command, b"", LIMIT)?;
    Ok((!outcome.status.success()).then(|| outcome.complaint()))
}
