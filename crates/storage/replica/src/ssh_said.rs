//! ssh(1)'s error messages: it has only one exit code for all failures.

/// Whether trying again may help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SshFailure {
    /// It doesn't.
    Lasting,
    /// The host's name has no address: mistyped, or no name server that knows it answers.
    Nameless,
    /// It may.
    Passing,
}

/// Messages after which trying again doesn't help. ssh isn't localised.
const LASTING: [&str; 8] = [
    "Permission denied (",
    "Host key verification failed",
    "Too many authentication failures",
    "Unable to negotiate with",
    "Bad configuration option",
    "Bad owner or permissions",
    "No ECDSA host key is known",
    "REMOTE HOST IDENTIFICATION HAS CHANGED",
];
/// Whatever the reason: a router that has just booted can't resolve names yet, either.
const NAMELESS: &str = "Could not resolve hostname";

/// Classifies its standard error.
pub fn ssh_failure(said: &str) -> SshFailure {
    if LASTING.iter().any(|text| said.contains(text)) {
        SshFailure::Lasting
    } else if said.contains(NAMELESS) {
        SshFailure::Nameless
    } else {
        SshFailure::Passing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lasts_is_told_from_what_passes() {
        for (said, expected) in [
            ("me@nas: Permission denied (publickey).", SshFailure::Lasting),
            (
                "ssh: Could not resolve hostname nas: Name or service not known",
                SshFailure::Nameless,
            ),
            (
                "ssh: Could not resolve hostname nas: Temporary failure in name resolution",
                SshFailure::Nameless,
            ),
            ("ssh: connect to host nas port 22: Connection refused", SshFailure::Passing),
            ("", SshFailure::Passing),
        ] {
            assert_eq!(ssh_failure(said), expected, "{said}");
        }
    }
}
