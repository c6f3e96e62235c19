//! Where the host's files are: at `/`, or in a test's directory.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The directory that holds `sys`, `proc`, `dev`, `etc` and `var`: everything this crate reads is
/// below it.
#[derive(Clone, Debug)]
pub struct HostRoot(PathBuf);

/// No file read here is longer; anything beyond is cut off.
const LONGEST: u64 = 4 << 20;

impl HostRoot {
    /// The host that we run on.
    pub fn real() -> Self {
        HostRoot(PathBuf::from("/"))
    }

    /// A host whose files are in `directory`.
    pub fn at(directory: impl Into<PathBuf>) -> Self {
        HostRoot(directory.into())
    }

    /// Whether it is the host that we run on, so that its devices and tools can be asked too.
    pub fn is_real(&self) -> bool {
        self.0 == Path::new("/")
    }

    /// Where the host's `path` is: `sys/block/sda`; a leading `/` is allowed.
    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.0.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// The text of a small file without surrounding white space; `None` when it isn't there or
    /// can't be read.
    pub fn text(&self, path: impl AsRef<Path>) -> Option<String> {
        let bytes = self.bytes(path).ok()?;
        Some(String::from_utf8_lossy(&bytes).trim().to_owned())
    }

    /// The same; an empty file counts as missing.
    pub fn word(&self, path: impl AsRef<Path>) -> Option<String> {
        self.text(path).filter(|text| !text.is_empty())
    }

    /// The bytes of a small file.
    ///
    /// # Errors
    /// When the file can't be opened or read.
    pub fn bytes(&self, path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        File::open(self.path(path))?.take(LONGEST).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// The number at the start of a file, up to white space: sysfs writes `100 (local)`.
    pub fn number<T: FromStr>(&self, path: impl AsRef<Path>) -> Option<T> {
        self.text(path)?.split_whitespace().next()?.parse().ok()
    }

    /// Whether a file says `1`.
    pub fn flag(&self, path: impl AsRef<Path>) -> bool {
        self.number::<u32>(path) == Some(1)
    }

    /// Names in a directory, sorted; none when there is no such directory.
    pub fn names(&self, path: impl AsRef<Path>) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.path(path)) else { return Vec::new() };
        let mut names: Vec<String> = entries
            .filter_map(|entry| entry.ok().map(|entry| entry.file_name()))
            .filter_map(|name: OsString| name.into_string().ok())
            .collect();
        names.sort();
        names
    }

    /// Whether something is there.
    pub fn has(&self, path: impl AsRef<Path>) -> bool {
        self.path(path).exists()
    }

    /// The last part of a link's target: `sda` for `../../block/sda`.
    pub fn link_name(&self, path: impl AsRef<Path>) -> Option<String> {
        let target = fs::read_link(self.path(path)).ok()?;
        Some(target.file_name()?.to_str()?.to_owned())
    }
}
