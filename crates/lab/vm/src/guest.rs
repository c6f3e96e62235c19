//! The machine's side: its first process, and the files that it reads.

use crate::error::VmError;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// Runs as process 1.
const INIT: &str = include_str!("guest/init.sh");

/// The contents of the first process' folder.
pub(crate) struct Errand<'a> {
    pub(crate) argv: &'a [OsString],
    pub(crate) variables: &'a [(OsString, OsString)],
    pub(crate) working_folder: &'a Path,
    pub(crate) host_name: &'a str,
    pub(crate) writable: &'a [PathBuf],
    pub(crate) modules: &'a Path,
}

impl Errand<'_> {
    /// Writes them to `folder`; returns the path of the first process.
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
        write("fstab", &self.fstab(folder))?;
        devices(&folder.join("dev"))?;
        let init = write("init", INIT.as_bytes())?;
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(&init, executable)
            .map_err(VmError::io(format!("can't make {} executable", init.display())))?;
        Ok(init)
    }

    /// The mounts, in order, below the writable root.
    fn fstab(&self, folder: &Path) -> Vec<u8> {
        let mut lines =
            b"overlay /mnt/root overlay lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work\n\
            proc /mnt/root/proc proc\n\
            sys /mnt/root/sys sysfs\n\
            dev /mnt/root/dev devtmpfs\n\
            devpts /mnt/root/dev/pts devpts X-mount.mkdir,newinstance,ptmxmode=666\n\
            tmpfs /mnt/root/dev/shm tmpfs X-mount.mkdir\n\
            tmpfs /mnt/root/run tmpfs\n"
                .to_vec();
        let mut share = |folder: &Path, at: &Path| {
            let (folder, at) = (folder.as_os_str().as_bytes(), at.as_os_str().as_bytes());
            lines.extend_from_slice(b"none /mnt/root");
            lines.extend(as_field(at));
            lines.extend_from_slice(b" hostfs X-mount.mkdir,");
            lines.extend(as_field(folder));
            lines.push(b'\n');
        };
        share(folder, Path::new("/run/vm"));
        if self.modules.is_dir() {
            share(self.modules, Path::new("/lib/modules"));
        }
        for folder in self.writable {
            share(folder, folder);
        }
        lines
    }

    /// The command as a shell script.
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

/// The contents of /dev besides devices, in a folder to copy from.
fn devices(folder: &Path) -> Result<(), VmError> {
    let link = |name: &str, to: &str| symlink(to, folder.join(name));
    fs::create_dir(folder)
        .and_then(|()| link("fd", "/proc/self/fd"))
        .and_then(|()| link("stdin", "/proc/self/fd/0"))
        .and_then(|()| link("stdout", "/proc/self/fd/1"))
        .and_then(|()| link("stderr", "/proc/self/fd/2"))
        .map_err(VmError::io(format!("can't make {}", folder.display())))
}

/// Escapes a field for fstab(5).
fn as_field(text: &[u8]) -> Vec<u8> {
    let mut field = Vec::new();
    for byte in text {
        match byte {
            b' ' | b'\t' | b'\n' | b'\\' => field.extend(format!("\\{byte:03o}").bytes()),
            other => field.push(*other),
        }
    }
    field
}

/// The exit status recorded by the first process.
pub(crate) fn status(folder: &Path) -> Option<i32> {
    fs::read_to_string(folder.join("status")).ok()?.trim().parse().ok()
}

/// Quotes one word for a POSIX shell.
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
