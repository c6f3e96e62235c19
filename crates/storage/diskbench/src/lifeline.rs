//! Programs that end when the bench does, however it ends.

use std::ffi::OsString;

/// The program that runs the others.
pub(crate) const PROGRAM: &str = "setpriv";

/// If the bench were killed before the kernel registered the request, a program would stay: it
/// starts only while its parent is the bench.
const ONLY_WHILE_IT_LIVES: &str = "[ \"$PPID\" = \"$0\" ] && exec \"$@\"";

/// The arguments of [`PROGRAM`] that make `command` get `signal` when this process ends. The
/// process finally is the command itself: each program on the way execs the next.
pub(crate) fn arguments(
    signal: &str,
    privileges: &[OsString],
    command: &[OsString],
) -> Vec<OsString> {
    let mut all = privileges.to_vec();
    all.push(format!("--pdeathsig={signal}").into());
    all.extend(["--", "sh", "-c", ONLY_WHILE_IT_LIVES].map(OsString::from));
    all.push(std::process::id().to_string().into());
    all.extend(command.iter().cloned());
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_program_runs_as_a_child_of_the_bench_and_as_nobody_elses() {
        let command = ["echo", "it runs"].map(OsString::from);
        let words = arguments("TERM", &[], &command);
        let child = Command::new(PROGRAM).args(&words).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&child.stdout), "it runs\n", "{child:?}");
        let grandchild = "\"$0\" \"$@\"; true";
        let child =
            Command::new("sh").args(["-c", grandchild, PROGRAM]).args(&words).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&child.stdout), "", "{child:?}");
    }
}
