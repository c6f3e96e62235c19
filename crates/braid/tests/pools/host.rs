//! A host with disks: a folder with the config's and the journal's files, loop devices, and `braid`
//! that knows of them.

use crate::BRAID;
use braid_loop_disks::{LoopDisk, fast_folder, run};
use braid_units::ByteSize;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Gone with all its mounts when dropped.
pub struct Host {
    pub folder: tempfile::TempDir,
}

impl Host {
    pub fn new() -> Host {
        let folder = tempfile::tempdir_in(fast_folder()).unwrap();
        for made in ["root/etc", "bin", "data"] {
            fs::create_dir_all(folder.path().join(made)).unwrap();
        }
        // What programs remember there is the host's. And a mount point that another test removes
        // would be unmounted here.
        run("mount", &["-t", "tmpfs", "braid-test", "/run"]);
        let host = Host { folder };
        fs::write(host.fstab(), "# empty\n").unwrap();
        host
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn fstab(&self) -> PathBuf {
        self.path("root/etc/fstab")
    }

    /// A disk of 400 MiB.
    pub fn disk(&self, name: &str) -> LoopDisk {
        self.disk_of(name, mib(400))
    }

    pub fn disk_of(&self, name: &str, size: ByteSize) -> LoopDisk {
        LoopDisk::new(self.folder.path(), name, size).unwrap()
    }

    /// A program that is found before the real one.
    pub fn program(&self, name: &str, text: &str) {
        let path = self.path("bin").join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Makes the pool `data`, mounted at `data`.
    pub fn create(&self, layout: &str, disks: &[&LoopDisk]) {
        let mut args = vec!["create", "data", "--layout", layout, "--yes"];
        args.extend(disks.iter().map(|disk| disk.path()));
        self.works(&args);
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(BRAID);
        command.arg("pool").args(args);
        if args[0] == "create" {
            command.arg("--mount").arg(self.path("data"));
        }
        self.place(&mut command);
        command
    }

    pub fn braid(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    pub fn works(&self, args: &[&str]) -> String {
        let output = self.braid(args);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{args:?}: {}: {said}", output.status);
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    pub fn fails(&self, args: &[&str], code: i32, says: &[&str]) {
        let output = self.braid(args);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
        for word in says {
            assert!(said.contains(word), "{args:?}: {word:?} isn't in: {said}");
        }
    }

    /// A shell's command in the folder, with the same `braid`.
    pub fn sh(&self, command: &str) -> String {
        let mut shell = Command::new("sh");
        self.place(shell.args(["-c", command]).current_dir(self.folder.path()));
        let output = shell.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "`{command}`: {}: {said}", output.status);
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// Of all files of the pool `data`, read from the disks and not from memory.
    pub fn sums(&self) -> String {
        self.sh("echo 3 > /proc/sys/vm/drop_caches");
        self.sh("cd data; sha256sum *")
    }

    /// What the doctor finds about the pool, but for what every new small pool has.
    pub fn findings(&self) -> Vec<Value> {
        let doctor = self.braid(&["doctor", "data", "--json", "--no-smart"]);
        let report: Value = serde_json::from_slice(&doctor.stdout).unwrap();
        let findings = report["findings"].as_array().unwrap().clone();
        let new = ["scrub-overdue", "low-unallocated", "old-btrfs-progs"];
        findings.into_iter().filter(|finding| !new.iter().any(|n| finding["code"] == **n)).collect()
    }

    /// Does what the doctor says against the finding of this code that names `about`.
    pub fn mend(&self, code: &str, about: &str) {
        let findings = self.findings();
        let found = findings.iter().find(|finding| {
            finding["code"] == code && finding["what"].as_str().unwrap().contains(about)
        });
        let found = found.unwrap_or_else(|| panic!("no {code} of {about} in {findings:?}"));
        let mend = found["mend"].as_str().unwrap();
        println!("mending: {mend}");
        // Who says yes is the test.
        let yes = ["convert", "replace", "add", "rebalance"].map(|verb| format!("pool {verb} "));
        let asks = yes.iter().any(|verb| mend.contains(verb.as_str()));
        self.sh(&if asks { format!("{mend} --yes") } else { mend.to_owned() });
    }

    pub fn place<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        let braid = Path::new(BRAID).parent().unwrap().display();
        let path = std::env::var("PATH").unwrap_or_default();
        let bin = self.path("bin");
        command
            .env("PATH", format!("{}:{braid}:{path}:/usr/sbin:/sbin", bin.display()))
            .env("BRAID_POOL_STATE_DIR", self.path("state"))
            .env("BRAID_POOL_CONFIG_ROOT", self.path("root"))
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let below = self.folder.path().display().to_string();
        let places = mounts.lines().filter_map(|line| line.split(' ').nth(1));
        for place in places.filter(|place| place.starts_with(&below)) {
            let _ = Command::new("umount").arg("--quiet").arg(place).output();
        }
    }
}

/// How a loop device is known: by the file behind it.
pub fn serial(disk: &LoopDisk) -> String {
    format!("loop:{}", disk.file().display())
}

pub fn mib(count: u64) -> ByteSize {
    ByteSize::from_bytes(count << 20)
}
