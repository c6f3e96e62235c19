//! The command `nft`.

use std::io;
use std::process::Command;
use std::time::Duration;

/// For small rulesets, which take milliseconds: if the kernel blocks nft, the tunnel's routing must
/// not wait for it.
pub(super) const LIMIT: Duration = Duration::from_secs(5);
/// Maximum time per byte of a large ruleset: 0.5 µs were measured (docs/measurements/links.md,
/// "Rules for names"); a small router's processor is up to 20 times slower, and nft may get half of
/// it.
const BYTE: Duration = Duration::from_micros(20);
/// Upper bound: by then even the largest ruleset is loaded, or never will be.
const LIMIT_MOST: Duration = Duration::from_secs(90);

/// How long nft may take for a ruleset of this many bytes.
pub(super) fn limit(bytes: usize) -> Duration {
    let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
    LIMIT.saturating_add(BYTE.saturating_mul(bytes)).min(LIMIT_MOST)
}

/// Runs nft with this script.
pub(super) fn nft(script: &str) -> io::Result<()> {
    let mut command = Command::new("nft");
    command.args(["-f", "-"]);
    let outcome =
        braid_tool::run(&mut command, script.as_bytes(), limit(script.len())).map_err(missing)?;
    match outcome.status.success() {
        true => Ok(()),
        false => Err(io::Error::other(format!("nft: {}", outcome.complaint()))),
    }
}

/// Adds how to install nft, if it is missing.
pub(super) fn missing(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::NotFound => {
            io::Error::new(error.kind(), "nft is not installed (try: apt install nftables)")
        }
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_rulesets_have_longer_up_to_a_bound() {
        assert_eq!(limit(0), LIMIT);
        assert_eq!(limit(1_000_000), LIMIT + Duration::from_secs(20));
        assert!(limit(2_500_000) > Duration::from_secs(30), "10,000 rules for names");
        assert_eq!(limit(100_000_000), LIMIT_MOST);
        assert_eq!(limit(usize::MAX), LIMIT_MOST);
    }
}
