//! Passphrases and other keys on their way to cryptsetup: never in arguments, in a file on disk, in
//! the environment or in a log.

use crate::cli::failure::{Failure, FailureKind};
use braid_disks::tool;
use braid_pool::key_text::key_meant;
use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::{self, DirBuilder, File};
use std::io::{self, IsTerminal, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, FileExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;
use zeroize::Zeroizing;

/// The folder of links to keys in memory.
const FOLDER: &str = "/run/braid/keys";

/// cryptsetup doesn't accept longer passphrases from a terminal.
const LONGEST: u64 = 512;

/// Shorter passphrases can be guessed; NIST SP 800-63B-4, 3.1.1.2 asks for 15 if nothing else
/// protects, and for at least 8.
const SHORTEST: usize = 8;

/// How long cryptsetup may take to derive a key: argon2 on a slow computer.
pub const STRETCH_LIMIT: Duration = Duration::from_secs(120);

/// The memory's name, as /proc shows it.
const MEMORY: &str = "braid-key";

/// A key or passphrase, as bytes.
pub struct Secret(Zeroizing<Vec<u8>>);

/// A secret that programs can read as a file at a stable path: a link to this process's memory,
/// which goes away with it.
pub struct Lent {
    path: PathBuf,
    memory: File,
}

impl Secret {
    /// Reads it from a file (`-` for standard input), verbatim except for a trailing newline;
    /// otherwise from the terminal.
    pub fn given(file: Option<&Path>, question: &str) -> Result<Secret, Failure> {
        match file {
            Some(file) => Secret::read(file),
            None => Secret::asked(question),
        }
    }

    /// Reads a new one; the terminal asks twice. A short one is refused.
    pub fn new_one(file: Option<&Path>) -> Result<Secret, Failure> {
        let secret = match file {
            Some(file) => Secret::read(file)?,
            None => {
                let first = Secret::asked("New passphrase: ")?;
                if Secret::asked("Repeat it: ")?.0 != first.0 {
                    let why = "the two differ: nothing was changed";
                    return Err(Failure::new(FailureKind::Declined, why));
                }
                first
            }
        };
        if secret.0.len() < SHORTEST {
            let why = format!("a passphrase needs at least {SHORTEST} characters; more is better");
            return Err(Failure::new(FailureKind::Usage, why));
        }
        Ok(secret)
    }

    /// A generated text.
    pub fn of(text: &str) -> Secret {
        Secret(Zeroizing::new(text.as_bytes().to_vec()))
    }

    /// The intended secret, if it looks like a recovery key typed from paper.
    pub fn meant(&self) -> Option<Secret> {
        Some(Secret::of(&Zeroizing::new(key_meant(std::str::from_utf8(&self.0).ok()?)?)))
    }

    fn asked(question: &str) -> Result<Secret, Failure> {
        if !io::stdin().is_terminal() {
            let why = "can't ask for the passphrase without a terminal; add --passphrase-file FILE, or - for standard input";
            return Err(Failure::new(FailureKind::Declined, why));
        }
        let text = rpassword::prompt_password(question)
            .map_err(|error| Failure::io("reading the passphrase", &error))?;
        Ok(Secret(Zeroizing::new(text.into_bytes())))
    }

    fn read(file: &Path) -> Result<Secret, Failure> {
        let io = |error: io::Error| Failure::io(&format!("reading {}", file.display()), &error);
        // Allocate the maximum: growing would leave copies in memory.
        let mut bytes = Zeroizing::new(Vec::with_capacity(LONGEST as usize + 2));
        match file == Path::new("-") {
            true => io::stdin().lock().take(LONGEST + 2).read_to_end(&mut bytes),
            false => File::open(file).map_err(io)?.take(LONGEST + 2).read_to_end(&mut bytes),
        }
        .map_err(io)?;
        if bytes.last() == Some(&b'\n') {
            bytes.pop();
        }
        if bytes.is_empty() || bytes.len() as u64 > LONGEST {
            let why = match file == Path::new("-") && bytes.is_empty() {
                true => "standard input has no passphrase, or no second one".to_owned(),
                false => format!("{}: a passphrase has 1 to {LONGEST} bytes", file.display()),
            };
            return Err(Failure::new(FailureKind::Usage, why));
        }
        Ok(Secret(bytes))
    }

    /// Lends it to programs, at the path that [`path`] returns.
    pub fn lend(&self, name: &str) -> Result<Lent, Failure> {
        let path = path(name);
        let io = |error: io::Error| Failure::io(&format!("making {}", path.display()), &error);
        let memory = memfd_create(MEMORY, MemfdFlags::CLOEXEC).map_err(|e| io(e.into()))?;
        let mut memory = File::from(memory);
        // It is created world-readable: some programs that read keys complain about that.
        memory.set_permissions(fs::Permissions::from_mode(0o600)).map_err(io)?;
        memory.write_all(&self.0).map_err(io)?;
        // Tunnels use /run/braid, too.
        fs::create_dir_all(Path::new(FOLDER).parent().unwrap_or(Path::new("/"))).map_err(io)?;
        DirBuilder::new().recursive(true).mode(0o700).create(FOLDER).map_err(io)?;
        if is_lent_now(&path) {
            return Err(Failure::failed(format!(
                "another braid is using this key of pool {}: wait until it is done",
                name.split('+').next().unwrap_or(name)
            )));
        }
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(io(error)),
            _ => {}
        }
        let target = format!("/proc/{}/fd/{}", std::process::id(), memory.as_raw_fd());
        symlink(target, &path).map_err(io)?;
        Ok(Lent { path, memory })
    }
}

impl Lent {
    /// The path where programs read it.
    pub fn text(&self) -> String {
        self.path.display().to_string()
    }

    /// Whether the other is the same secret.
    pub fn is_same(&self, other: &Lent) -> Result<bool, Failure> {
        let bytes = |lent: &Lent| {
            let mut bytes = Zeroizing::new(vec![0; LONGEST as usize + 2]);
            let read = lent.memory.read_at(&mut bytes, 0)?;
            bytes.truncate(read);
            Ok(bytes)
        };
        let io = |error: io::Error| Failure::io("reading a passphrase in memory", &error);
        Ok(bytes(self).map_err(io)? == bytes(other).map_err(io)?)
    }

    /// Whether it opens the LUKS volume on this device.
    pub fn opens(&self, device: &str) -> Result<bool, Failure> {
        opens(&self.text(), device)
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        // A leftover link would lead nowhere.
        let _ = fs::remove_file(&self.path);
    }
}

/// Whether the link leads to a key in the memory of a running process.
fn is_lent_now(link: &Path) -> bool {
    let memory = fs::read_link(link).and_then(fs::read_link);
    memory.is_ok_and(|memory| memory.to_string_lossy().starts_with(&format!("/memfd:{MEMORY}")))
}

/// The path at which a secret of this name is lent.
pub fn path(name: &str) -> PathBuf {
    Path::new(FOLDER).join(name)
}

/// Whether the path is a lent secret's rather than a key file's.
pub fn is_lent(path: &str) -> bool {
    Path::new(path).starts_with(FOLDER)
}

/// Whether the key in this file opens the LUKS volume on this device.
pub fn opens(key_file: &str, device: &str) -> Result<bool, Failure> {
    let arguments = ["open", "--test-passphrase", "--key-file", key_file, device];
    let answer = tool::ask("cryptsetup", &arguments, STRETCH_LIMIT)
        .map_err(|error| Failure::failed(missing(&error)))?;
    Ok(answer.status == Some(0))
}

/// What to do about a missing program.
pub fn missing(error: &tool::ToolError) -> String {
    match error {
        tool::ToolError::Missing(_) => format!("{error}: `apt install cryptsetup`"),
        _ => error.to_string(),
    }
}
