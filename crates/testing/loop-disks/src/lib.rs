//! Disks for tests: loop devices over sparse files, used in the test's own mount namespace, where
//! Braid sees no others: neither the host's disks and pools nor those of other tests.

#![forbid(unsafe_code)]

mod btrfs;
mod files;

pub use btrfs::Btrfs;
pub use files::{change, fill};

use braid_units::ByteSize;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Set in the process inside the mount namespace: the test's own folder in memory.
const INSIDE: &str = "BRAID_TEST_IN_PRIVATE_MOUNTS";
/// Makes Braid see only loop devices over files below these folders (`braid_disks::scope`).
const SEEN: &str = "BRAID_ONLY_LOOPS_BELOW";

/// Runs `body` in a process with private mounts, so that nothing stays busy, which sees only disks
/// below [`fast_folder`] and the folder for temporary files; both belong to it alone. The test
/// `name` (its whole path, as `module::test`) restarts itself there. If that isn't possible it says
/// so and does nothing.
///
/// # Panics
/// If the test fails.
pub fn in_private_mounts(name: &str, body: impl FnOnce()) {
    if std::env::var_os(INSIDE).is_some() {
        return body();
    }
    if !rustix::process::geteuid().is_root() || !Path::new("/dev/loop-control").exists() {
        println!("{name}: skipped: needs root and loop devices");
        return;
    }
    let this_program = std::env::current_exe().expect("a test knows its own program");
    let own = |parent: PathBuf| tempfile::tempdir_in(parent).expect("there is room for a folder");
    let (fast, large) = (own(fast_folder()), own(std::env::temp_dir()));
    // Servers run as other users, and have their temporary files there, as in /tmp.
    std::fs::set_permissions(large.path(), std::fs::Permissions::from_mode(0o1777))
        .expect("the folder is ours");
    let seen = format!("{}:{}", fast.path().display(), large.path().display());
    let status = Command::new("unshare")
        .args(["--mount", "--propagation", "private"])
        .arg(this_program)
        .args([name, "--exact", "--nocapture", "--test-threads=1"])
        .env(INSIDE, fast.path())
        .env("TMPDIR", large.path())
        .env(SEEN, seen)
        .status()
        .expect("unshare can be started");
    assert!(status.success(), "{name} failed in its mount namespace: {status}");
}

/// Another test that looks at all disks keeps each open for less than this.
const LOOKED_AT: Duration = Duration::from_secs(5);
/// The error of mount(8) for a device that is open exclusively.
const BUSY: &str = "already mounted or mount point busy";

/// Runs a program. A mount is retried while another process looks at the device.
///
/// # Panics
/// If it fails, with its output.
pub fn run(program: &str, arguments: &[&str]) {
    let deadline = Instant::now() + LOOKED_AT;
    loop {
        let output = Command::new(program).args(arguments).output().unwrap();
        if output.status.success() {
            return;
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let again = program == "mount" && said.contains(BUSY) && Instant::now() < deadline;
        assert!(again, "{program} {arguments:?}: {said}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The best folder for the disks' files: in memory, if there is one.
pub fn fast_folder() -> PathBuf {
    if let Some(own) = std::env::var_os(INSIDE) {
        return own.into();
    }
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() }
}

/// A loop device, detached when dropped.
#[derive(Debug)]
pub struct LoopDisk {
    file: PathBuf,
    device: String,
}

impl LoopDisk {
    /// A disk of this size filled with zeroes, in a sparse file of this name in the folder.
    ///
    /// # Errors
    /// When the file can't be created, or `losetup` fails or finds no free loop device.
    pub fn new(folder: &Path, name: &str, size: ByteSize) -> io::Result<LoopDisk> {
        let file = folder.join(name);
        File::create(&file)?.set_len(size.bytes())?;
        Ok(LoopDisk { device: attach(&file)?, file })
    }

    /// Its node: `/dev/loop3`.
    pub fn path(&self) -> &str {
        &self.device
    }

    /// The file with its contents.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Creates two partitions, one of `first` bytes (whole MiB) and one of the rest: `/dev/loop3p1`
    /// and `/dev/loop3p2`. The kernel is told by `partx`, since it may not support partition
    /// tables.
    ///
    /// # Errors
    /// When the file's size can't be read, the device can't be written, or `partx` can't be
    /// started.
    pub fn partition(&self, first: ByteSize) -> io::Result<[String; 2]> {
        const SECTOR: u64 = 512;
        let whole = std::fs::metadata(&self.file)?.len() / SECTOR;
        let (start, middle) = (2048, 2048 + first.bytes() / SECTOR);
        // The master boot record: entries from byte 446 on (type, first sector, sectors), 55 AA.
        let mut record = [0; 512];
        for (at, from, to) in [(446, start, middle), (462, middle, whole)] {
            record[at + 4] = 0x83;
            record[at + 8..at + 12].copy_from_slice(&(from as u32).to_le_bytes());
            record[at + 12..at + 16].copy_from_slice(&((to - from) as u32).to_le_bytes());
        }
        record[510..].copy_from_slice(&[0x55, 0xaa]);
        std::fs::OpenOptions::new().write(true).open(&self.device)?.write_all(&record)?;
        // They may exist already.
        let _ = Command::new("partx").args(["--add", &self.device]).output()?;
        Ok([1, 2].map(|number| format!("{}p{number}", self.device)))
    }

    /// Unplugs the disk; its contents stay. It mustn't be in use: otherwise it disappears only when
    /// it no longer is.
    pub fn unplug(self) -> PathBuf {
        self.file.clone()
    }

    /// Plugs in a disk with the contents of this file; its node may differ from before.
    ///
    /// # Errors
    /// When `losetup` fails or finds no free loop device.
    pub fn plug_in(file: &Path) -> io::Result<LoopDisk> {
        Ok(LoopDisk { device: attach(file)?, file: file.to_owned() })
    }
}

impl Drop for LoopDisk {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = Command::new("partx").args(["--delete", &self.device]).output();
        let _ = losetup(&["--detach", &self.device]);
    }
}

fn attach(file: &Path) -> io::Result<String> {
    let mut last = io::Error::other("no loop device is free");
    // Another process may take the free device that losetup found.
    for _ in 0..20 {
        match losetup(&["--find", "--show", "--partscan", &file.to_string_lossy()]) {
            Ok(device) => return Ok(device),
            Err(error) => last = error,
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    Err(last)
}

fn losetup(arguments: &[&str]) -> io::Result<String> {
    let output = Command::new("losetup").args(arguments).output()?;
    if !output.status.success() {
        return Err(io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_survive_unplugging() {
        in_private_mounts("tests::bytes_survive_unplugging", || {
            let folder = tempfile::tempdir().unwrap();
            let disk = LoopDisk::new(folder.path(), "disk", ByteSize::from_bytes(1 << 20)).unwrap();
            std::fs::write(disk.path(), b"hello").unwrap();
            let file = disk.unplug();
            let disk = LoopDisk::plug_in(&file).unwrap();
            let bytes = std::fs::read(disk.path()).unwrap();
            assert_eq!((bytes.len(), &bytes[..5]), (1 << 20, b"hello".as_slice()));
        });
    }
}
