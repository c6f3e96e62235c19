//! A host with loop disks, on which plans are made, carried out, killed, resumed and abandoned.

#![allow(unsafe_code)]
// Each test program uses a part of it.
#![allow(dead_code)]

use braid_disks::{AskSmart, HostRoot, Inventory};
use braid_loop_disks::LoopDisk;
use braid_pool::disk::{Content, Disk, DiskId, ErasePermission};
use braid_pool::layout::{Layout, MdFilesystem};
use braid_pool::observed::{ObservedBtrfs, ObservedPool};
use braid_pool::planner::{self, Change, NewPool, Refused};
use braid_pool::step::Plan;
use braid_pool::uuid::Uuid;
use braid_runner::host::{ConfigRoot, Host, observe_host};
use braid_runner::journal::{Event, JournalError, Log, PlanJournal, Record, StateDir};
use braid_runner::{Happening, Remains, RunError};
use braid_units::ByteSize;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

pub struct Ground {
    pub disks: Vec<LoopDisk>,
    folder: tempfile::TempDir,
}

impl Ground {
    /// Disks of these sizes in MiB.
    pub fn new(sizes: &[u64]) -> Ground {
        let folder = tempfile::tempdir_in(braid_loop_disks::fast_folder()).unwrap();
        fs::create_dir_all(folder.path().join("root/etc")).unwrap();
        fs::write(folder.path().join("root/etc/fstab"), FSTAB).unwrap();
        let mut ground = Ground { disks: Vec::new(), folder };
        sizes.iter().for_each(|size| ground.plug_in_new(*size));
        ground
    }

    pub fn plug_in_new(&mut self, mib: u64) {
        let name = format!("disk{}", self.disks.len());
        let size = ByteSize::from_bytes(mib << 20);
        self.disks.push(LoopDisk::new(self.folder.path(), &name, size).unwrap());
    }

    /// As they came.
    pub fn blank_disks(&self) {
        self.disks.iter().for_each(|disk| _ = sh(&format!("blkdiscard --force {}", disk.path())));
    }

    pub fn mount_point(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    pub fn fstab(&self) -> String {
        fs::read_to_string(self.folder.path().join("root/etc/fstab")).unwrap()
    }

    /// As a command sees it that is to take it.
    pub fn disk(&self, index: usize) -> Disk {
        let mut inventory = inventory();
        inventory.examine(|disk| disk.path == self.disks[index].path());
        inventory.find(self.disks[index].path()).unwrap().clone()
    }

    pub fn contents(&self, index: usize) -> Vec<Content> {
        inventory().find(self.disks[index].path()).unwrap().contents.clone()
    }

    pub fn create_plan(&self, layout: &str, disks: &[usize]) -> Result<Plan, Refused> {
        self.create_plan_erasing(layout, disks, &[])
    }

    pub fn create_plan_erasing(
        &self,
        layout: &str,
        disks: &[usize],
        erase: &[DiskId],
    ) -> Result<Plan, Refused> {
        let layout: Layout = layout.parse().unwrap();
        let new = NewPool {
            name: "data".parse().unwrap(),
            layout,
            filesystem: MdFilesystem::Ext4,
            disks: disks.iter().map(|index| self.disk(*index)).collect(),
            erase: ErasePermission::for_disks(erase.iter().cloned()),
            mount_at: self.mount_point().to_str().unwrap().to_owned(),
            options: "max_inline=1024".parse().unwrap(),
            array: random_uuid(),
            filesystem_uuid: random_uuid(),
            accept_unstable: false,
        };
        planner::create(&new, &observe_host(&self.config()))
    }

    pub fn change_plan(&self, change: &Change) -> Result<Plan, Refused> {
        let pool = ObservedPool::Btrfs(self.btrfs());
        let mount_at = self.mount_point();
        planner::change(&pool, change, mount_at.to_str(), &observe_host(&self.config()))
    }

    pub fn create(&self, layout: &str, disks: &[usize]) {
        self.run(self.create_plan(layout, disks).unwrap()).unwrap();
    }

    pub fn change(&self, change: &Change) {
        self.run(self.change_plan(change).unwrap()).unwrap();
    }

    /// Says for each step whether it was `done` or `kept`.
    pub fn run(&self, plan: Plan) -> Result<Vec<String>, RunError> {
        self.go_on(self.state().begin("data", plan)?)
    }

    pub fn resume(&self) -> Result<Vec<String>, RunError> {
        self.go_on(self.state().reopen("data")?)
    }

    fn go_on(&self, mut journal: PlanJournal) -> Result<Vec<String>, RunError> {
        let mut went = Vec::new();
        let mut host = self.host(&journal);
        braid_runner::run(&mut journal, &mut host, &mut |happening| match happening {
            Happening::Done(_) => went.push("done".to_owned()),
            Happening::Kept(_) => went.push("kept".to_owned()),
            _ => {}
        })?;
        Ok(went)
    }

    pub fn abandon(&self) -> Result<Vec<Remains>, RunError> {
        let mut journal = self.state().reopen("data")?;
        let mut host = self.host(&journal);
        braid_runner::abandon(&mut journal, &mut host, &mut |_| {})
    }

    /// Begins the plan in a process that is killed (kill -9) when so many moments around its
    /// journal have passed, or as soon as a long operation is under way; says whether it was.
    pub fn run_killed(&self, plan: &Plan, death: Death) -> bool {
        // SAFETY: the child runs only our own code, which needs no thread but this one, and ends
        // without running anybody's destructors.
        let child = unsafe { libc::fork() };
        assert!(child >= 0, "fork");
        if child == 0 {
            if let Ok(journal) = self.state().begin("data", plan.clone()) {
                let mut host = self.host(&journal);
                let mut log = Mortal { journal, death };
                let _ = braid_runner::run(&mut log, &mut host, &mut |happening| {
                    if matches!(happening, Happening::Goes(..)) && death == Death::WhenUnderWay {
                        die();
                    }
                });
            }
            // SAFETY: ends this process, which is a copy.
            unsafe { libc::_exit(0) };
        }
        let mut status = 0;
        // SAFETY: `status` lives through the call.
        unsafe { libc::waitpid(child, &mut status, 0) };
        libc::WIFSIGNALED(status)
    }

    /// The pool of the ground's first disk that carries one.
    pub fn btrfs(&self) -> ObservedBtrfs {
        let inventory = inventory();
        let ours: Vec<&str> = self.disks.iter().map(LoopDisk::path).collect();
        let is_ours = |btrfs: &ObservedBtrfs| {
            btrfs
                .members
                .iter()
                .any(|member| member.path.as_deref().is_some_and(|path| ours.contains(&path)))
        };
        let mut all = braid_disks::btrfs::observe(&HostRoot::real(), &inventory).into_iter();
        all.find(is_ours).expect("there is a pool")
    }

    pub fn is_mounted(&self) -> bool {
        let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
        table.contains(self.mount_point().to_str().unwrap())
    }

    pub fn unmount(&self) {
        sh(&format!("umount {}", self.mount_point().display()));
    }

    pub fn config(&self) -> ConfigRoot {
        ConfigRoot::at(self.folder.path().join("root"))
    }

    pub fn state(&self) -> StateDir {
        StateDir::new(self.folder.path().join("state"))
    }

    fn host(&self, journal: &PlanJournal) -> Host {
        let output = journal.folder().join("output.log");
        Host::new(self.config(), output, Arc::new(AtomicBool::new(false)))
    }

    /// The host is as it was before any plan.
    pub fn assert_untouched(&self, what: &str) {
        assert!(!self.is_mounted(), "{what}: mounted");
        assert!(!self.mount_point().exists(), "{what}: the mount point is there");
        assert_eq!(self.fstab(), FSTAB, "{what}");
        for index in 0..self.disks.len() {
            assert_eq!(self.contents(index), [], "{what}: disk {index}");
        }
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        // What is mounted would keep the loops, and the folder can't be removed with it.
        let _ = Command::new("umount").arg("--quiet").arg(self.mount_point()).output();
    }
}

/// When a process is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Death {
    /// After so many moments: one before and one after each line of the journal.
    AtMoment(u32),
    /// As soon as progress is told.
    WhenUnderWay,
}

/// A journal whose writer is killed.
struct Mortal {
    journal: PlanJournal,
    death: Death,
}

impl Mortal {
    fn moment(&mut self) {
        match &mut self.death {
            Death::AtMoment(0) => die(),
            Death::AtMoment(left) => *left -= 1,
            Death::WhenUnderWay => {}
        }
    }
}

impl Log for Mortal {
    fn record(&self) -> &Record {
        self.journal.record()
    }

    fn write(&mut self, event: Event) -> Result<(), JournalError> {
        self.moment();
        self.journal.write(event)?;
        self.moment();
        Ok(())
    }
}

fn die() {
    // SAFETY: kills this very process.
    unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
}

/// Runs a shell command that must work; its output.
pub fn sh(command: &str) -> String {
    let output = Command::new("sh").args(["-c", command]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "`{command}`: {}: {said}", output.status);
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

pub fn random_uuid() -> Uuid {
    fs::read_to_string("/proc/sys/kernel/random/uuid").unwrap().trim().parse().unwrap()
}

fn inventory() -> Inventory {
    Inventory::take(&HostRoot::real(), AskSmart::No)
}

const FSTAB: &str = "# the test's\nUUID=0 / ext4 defaults 0 1\n";
