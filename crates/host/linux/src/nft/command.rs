//! The command `nft`.

use crate::tool;
use std::io;
use std::process::Command;
use std::time::Duration;

/// It takes milliseconds, seconds with rulesets of hundred thousands; one that the
/// kernel keeps waiting must not keep the tunnel waiting.
pub(super) const LIMIT: Duration = Duration::from_secs(5);

/// Has it read this.
pub(super) fn nft(script: &str) -> io::Result<()> {
    let mut command = Command::new("nft");
    command.args(["-f", "-"]);
    let outcome = tool::run(&mut command, script.as_bytes(), LIMIT).map_err(missing)?;
    match outcome.status.success() {
        true => Ok(()),
        false => Err(io::Error::other(format!("nft: {}", outcome.complaint()))),
    }
}

/// Says how to get it, where it isn't there.
pub(super) fn missing(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::NotFound => {
            io::Error::new(error.kind(), "nft is not installed (try: apt install nftables)")
        }
        _ => error,
    }
}
