//! The machine's side: its first process, and what that reads.

use crate::error::VmError;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Runs as process 1.
const INIT: &str = include_str!("guest/init.sh");

/// What the first process finds in its folder.
pub(crate) struct Errand<'a> {
    pub(crate) argv: &'a [OsString],
    pub(crate) variables: &'a [(OsString, OsString)],
    pub(crate) working_folder: &'a Path,
    pub(crate) host_name: &'a str,
    pub(crate) writable: &'a [PathBuf],
    pub(crate) modules: &'a Path,
}

impl Errand<'_> {
    /// Writes it down in `folder`; returns the path of the first process.
    pub(crate) fn write(&self, folder: &Path) -> Result<PathBuf, VmError> {
        let write = |name: &str, bytes: &[u8]| {
            let path = folder.join(name);
            fs::write(&path, bytes)
                .map_err(VmError::io(format!("can't write {}", path.display())))?;
            Ok::<_, VmError>(path)
        };
        write("command", &self.command())?;
        write("hostname", self.host_name.as_bytes())?;
        write("modules", self.modules.as_os_str().as_bytes())?;
        let mut writable = Vec::new();
        for path in self.writable {
            writable.extend_from_slice(path.as_os_str().as_bytes());
            writable.push(b'\n');
        }
        write("writable", &writable)?;
        let init = write("init", INIT.as_bytes())?;
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(&init, executable)
            .map_err(VmError::io(format!("can't make {} executable", init.display())))?;
        Ok(init)
    }

    /// The shell script that is the command.
    fn command(&self) -> Vec<u8> {
        let mut script = Vec::new();
        for (name, value) in self.variables {
            script.extend_from_slice(b"export ");
            script.extend_from_slice(name.as_bytes());
            script.push(b'=');
            script.extend(quoted(value));
            script.push(b'\n');
        }
        script.extend_from_slice(b"cd ");
        script.extend(quoted(self.working_folder.as_os_str()));
        script.extend_from_slice(b" 2>/dev/null || cd /\nexec");
        for word in self.argv {
            script.push(b' ');
            script.extend(quoted(word));
        }
        script.push(b'\n');
        script
    }
}

/// The exit status that the first process left behind.
pub(crate) fn status(folder: &Path) -> Option<i32> {
    fs::read_to_string(folder.join("status")).ok()?.trim().parse().ok()
}

/// As one word of a POSIX shell.
fn quoted(text: &OsStr) -> Vec<u8> {
    let mut word = vec![b'\''];
    for byte in OsString::from(text).into_vec() {
        match byte {
            b'\'' => word.extend_from_slice(b"'\\''"),
            other => word.push(other),
        }
    }
    word.push(b'\'');
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_every_word_as_it_was() {
        for text in ["plain", "", "it's", "a b\n$HOME `x` \"q\" \\", "''"] {
            let mut script = b"printf %s ".to_vec();
            script.extend(quoted(OsStr::new(text)));
            let output = std::process::Command::new("sh")
                .arg("-c")
                .arg(OsString::from_vec(script))
                .output()
                .unwrap();
            assert_eq!(output.stdout, text.as_bytes());
        }
    }
}
