//! A host with disks, btrfs and md as far as the planner's plans go: what each command does to what
//! is observed. Long operations are done at once, but the runner can be killed before and after any
//! action and question.

mod btrfs;
mod md;

use braid_pool::disk::emptiness::{Reading, examine};
use braid_pool::disk::{Content, Disk, DiskKind, Identity};
use braid_pool::layout::MdLayout;
use braid_pool::observed::{Mount, ObservedHost, ObservedPool};
use braid_pool::step::{Action, Argv, Condition};
use braid_runner::host::{Observation, with_line, without_line};
use braid_runner::progress::Progress;
use braid_runner::simulated::Fate;
use braid_runner::system::{Answer, LeftBehind, System, SystemError};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone)]
pub struct World {
    pub disks: Vec<Disk>,
    pub pools: Vec<ObservedPool>,
    pub files: BTreeMap<String, String>,
    pub initramfs_fresh: bool,
    folders: BTreeSet<String>,
    fate: Fate,
}

/// What can be compared: what is on which disk, and the files' lines.
pub type State = (Vec<(String, Vec<String>)>, Vec<String>, BTreeMap<String, Vec<String>>);

impl World {
    /// Empty disks `/dev/sdX`.
    pub fn with_disks(letters: &str, size_bytes: u64) -> World {
        let disk = |letter: char| {
            let identity = Identity { serial: Some(format!("S{letter}")), ..Identity::default() };
            let path = format!("/dev/sd{letter}");
            let mut disk = Disk::unexamined(path, identity, size_bytes, DiskKind::Hdd);
            disk.examined(examine(size_bytes, |_| Reading::Zeroes));
            disk
        };
        World {
            disks: letters.chars().map(disk).collect(),
            pools: Vec::new(),
            files: BTreeMap::new(),
            initramfs_fresh: true,
            folders: BTreeSet::new(),
            fate: Fate::default(),
        }
    }

    pub fn with_fate(&self, fate: &Fate) -> World {
        World { fate: fate.clone(), ..self.clone() }
    }

    /// The only pool.
    pub fn pool(&self) -> &ObservedPool {
        &self.pools[0]
    }

    pub fn host(&self) -> ObservedHost {
        let file = |path: &str| self.files.get(path).cloned();
        ObservedHost {
            hostname: "alpha".into(),
            mdadm_conf: file("/etc/mdadm/mdadm.conf")
                .map(|text| ("/etc/mdadm/mdadm.conf".to_owned(), text)),
            fstab: file("/etc/fstab").unwrap_or_default(),
            initramfs_command: Some(vec!["update-initramfs".into(), "-u".into()]),
            ..ObservedHost::default()
        }
    }

    pub fn state(&self) -> State {
        let disks = self.disks.iter().map(|disk| {
            let mut contents: Vec<String> = disk.contents.iter().map(Content::to_string).collect();
            contents.sort();
            (disk.path.clone(), contents)
        });
        let lines = |text: &String| text.lines().map(str::to_owned).collect::<Vec<_>>();
        let files = self.files.iter().map(|(path, text)| (path.clone(), lines(text)));
        (
            disks.collect(),
            self.pools.iter().map(|pool| format!("{:?}", without_places(pool))).collect(),
            files.filter(|(_, lines)| !lines.is_empty()).collect(),
        )
    }

    /// The disk dies: its pool goes on without it.
    pub fn kill_disk(&mut self, index: usize) {
        let dead = self.disks.remove(index);
        match &mut self.pools[0] {
            ObservedPool::Btrfs(pool) => btrfs::lose(pool, &dead),
            ObservedPool::Md(pool) => md::lose(pool, &dead),
        }
        // Those behind it keep their places for the tests.
        self.disks.insert(index, Disk { path: "/dev/gone".into(), size_bytes: 0, ..dead });
    }

    fn alive(&self) -> Result<(), SystemError> {
        if self.fate.strikes() { Err(SystemError::Failed("killed".to_owned())) } else { Ok(()) }
    }

    fn has_line(&self, file: &str, line: &str) -> bool {
        self.files.get(file).is_some_and(|text| text.lines().any(|each| each == line))
    }

    fn edit(&mut self, file: &str, edit: impl FnOnce(&str) -> String) {
        let text = edit(self.files.get(file).map_or("", String::as_str));
        if file.ends_with("mdadm.conf") {
            self.initramfs_fresh = false;
        }
        self.files.insert(file.to_owned(), text);
    }

    fn disk_mut(&mut self, path: &str) -> Result<&mut Disk, String> {
        let found = self.disks.iter_mut().find(|disk| disk.path == path);
        found.ok_or_else(|| format!("no disk {path}"))
    }

    fn run(&mut self, argv: &Argv) -> Result<(), String> {
        let args: Vec<&str> = argv.args.iter().map(String::as_str).collect();
        match (argv.program.as_str(), args.as_slice()) {
            ("wipefs", [.., path]) if path.starts_with("/dev/md/") => {
                md::of(self, path)?.carries = None;
                Ok(())
            }
            ("wipefs", [.., path]) => {
                let disk = self.disk_mut(path)?;
                if disk.contents.iter().any(Content::is_in_use) {
                    return Err(format!("{path} is in use"));
                }
                disk.contents.clear();
                btrfs::forget(self, path);
                Ok(())
            }
            ("mkfs.btrfs", args) => btrfs::make(self, args),
            ("btrfs", args) => btrfs::command(self, args),
            ("mdadm", args) => md::command(self, args),
            ("mkfs.ext4" | "mkfs.xfs", args) => md::make_filesystem(self, &argv.program[5..], args),
            ("resize2fs" | "xfs_growfs", _) => Ok(()),
            ("update-initramfs", _) => {
                self.initramfs_fresh = true;
                Ok(())
            }
            ("mount", ["-t", _, "-o", options, what, at]) => self.mount(options, what, at),
            ("umount", [at]) => self.unmount(at),
            other => Err(format!("not simulated: {other:?}")),
        }
    }

    fn mount(&mut self, options: &str, what: &str, at: &str) -> Result<(), String> {
        if !self.folders.contains(at) {
            return Err(format!("no directory {at}"));
        }
        let mut mount =
            Mount { at: at.to_owned(), options: vec!["rw".to_owned()], subvolume: None };
        if options.split(',').any(|option| option == "degraded") {
            mount.options.push("degraded".to_owned());
        }
        if what.starts_with("/dev/md/") {
            let on = md::of(self, what)?.carries.as_mut().ok_or("nothing to mount")?;
            on.mounts.push(mount);
            return Ok(());
        }
        btrfs::mount(self, what, mount)
    }

    fn unmount(&mut self, at: &str) -> Result<(), String> {
        for pool in &mut self.pools {
            match pool {
                ObservedPool::Btrfs(pool) => pool.mounts.retain(|mount| mount.at != at),
                ObservedPool::Md(pool) => {
                    pool.carries.iter_mut().for_each(|on| on.mounts.retain(|m| m.at != at));
                }
            }
        }
        let is_it = |content: &Content| *content == Content::Mounted { at: at.to_owned() };
        self.disks.iter_mut().for_each(|disk| disk.contents.retain(|content| !is_it(content)));
        Ok(())
    }
}

/// Copies are equal: which of a raid1's members has which place is the same.
fn without_places(pool: &ObservedPool) -> ObservedPool {
    let mut pool = pool.clone();
    if let ObservedPool::Md(md) = &mut pool
        && md.layout == Some(MdLayout::Raid1)
    {
        md.members.iter_mut().for_each(|member| member.slot = None);
        md.members.sort_by(|a, b| a.path.cmp(&b.path));
    }
    pool
}

impl System for World {
    fn look(&mut self, condition: &Condition, left: &LeftBehind) -> Result<Answer, SystemError> {
        self.alive()?;
        let so = match condition {
            Condition::Directory { path } => self.folders.contains(path),
            Condition::FileHasLine { file, line } => self.has_line(file, line),
            Condition::InitramfsFresh => self.initramfs_fresh,
            Condition::NotMounted { at } => {
                !self.pools.iter().any(|pool| pool.mounts().iter().any(|mount| mount.at == *at))
            }
            Condition::FilesystemFillsDevice { .. } | Condition::HidesNothing { .. } => true,
            Condition::Filesystem { device, kind, uuid } => {
                let on = md::of(self, device).ok().and_then(|pool| pool.carries.clone());
                on.is_some_and(|on| on.kind == *kind && on.uuid == Some(*uuid))
            }
            of_pools => {
                let seen = Observation { disks: self.disks.clone(), pools: self.pools.clone() };
                let answer = seen.check(of_pools, left);
                return answer
                    .ok_or_else(|| SystemError::Failed(format!("not simulated: {of_pools}")));
            }
        };
        Ok(Answer::when(so, || "it is not so".to_owned()))
    }

    fn perform(
        &mut self,
        action: &Action,
        _tell: &mut dyn FnMut(&Progress),
    ) -> Result<(), SystemError> {
        self.alive()?;
        match action {
            Action::Run(argv) => {
                self.run(argv).map_err(|why| SystemError::Failed(format!("{argv}: {why}")))?;
            }
            Action::EnsureLine { file, line, instead_of } => {
                self.edit(file, |text| with_line(text, line, instead_of.as_deref()));
            }
            Action::RemoveLine { file, line } => self.edit(file, |text| without_line(text, line)),
            Action::MakeDirectory { path } => drop(self.folders.insert(path.clone())),
            Action::RemoveDirectory { path } => drop(self.folders.remove(path)),
            Action::WaitFor { until, .. } => {
                if !self.check(until, &LeftBehind::Nothing)?.holds() {
                    return Err(SystemError::Failed(format!("would wait for ever: {until}")));
                }
            }
            other => return Err(SystemError::Failed(format!("not simulated: {other}"))),
        }
        self.alive()
    }
}
