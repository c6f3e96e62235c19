//! What is on a device: what `blkid`, `wipefs` and our own superblock readers recognise, combined,
//! since each of them misses something that another sees.

pub mod blkid;
pub mod wipefs;

use crate::block_device::BlockDevice;
use crate::host_root::HostRoot;
use crate::superblock;
use crate::tool::{self, Answer, ToolError};
use braid_pool::disk::{Content, Family};
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A thing that something recognised by its magic number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Signature {
    /// libblkid's name for it: `ext4`, `linux_raid_member`, `gpt`…
    pub kind: String,
    /// libblkid's `USAGE`; wipefs doesn't tell.
    pub usage: Option<String>,
    /// Its label, or the name of what it is a member of.
    pub label: Option<String>,
    /// Its UUID, or that of the whole.
    pub uuid: Option<String>,
}

/// What is on a device, and what could not be found out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Signatures {
    /// Each once.
    pub found: Vec<Signature>,
    /// What kept us from looking; then `found` may be incomplete, and [`Signatures::contents`] says
    /// so.
    pub trouble: Vec<String>,
    /// Number of partitions in its table, if there is a readable one.
    pub partitions: Option<u32>,
}

/// A healthy disk answers at once, one that has to spin up within seconds.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// Looks at devices in all ways; returns their signatures in the same order. Starting a program for
/// each takes longer than what it does, so one is asked about many where possible.
pub fn look(host: &HostRoot, devices: &[BlockDevice]) -> Vec<Signatures> {
    let paths: Vec<PathBuf> = devices.iter().map(|device| host.path(device.path())).collect();
    // If a device has no medium the programs fail, and say nothing about the others.
    let with_medium = paths.iter().zip(devices).filter(|(_, device)| device.size_bytes > 0);
    let with_medium: Vec<&Path> = with_medium.map(|(path, _)| path.as_path()).collect();
    let mut told_by_wipefs = wipefs_of_many(&with_medium).unwrap_or_default();
    let is_marked = |path: &&Path| told_by_wipefs.get(*path).is_some_and(|found| !found.is_empty());
    let (marked, unmarked): (Vec<&Path>, Vec<&Path>) =
        with_medium.iter().copied().partition(is_marked);
    let mut told_by_blkid = blkid_of_many(&[marked, unmarked].concat());
    let look = |(path, device): (&PathBuf, &BlockDevice)| {
        let mut seen = Signatures::default();
        seen.listen(told_by_blkid.remove(path.as_path()).map_or_else(|| blkid(path), Ok));
        seen.listen(told_by_wipefs.remove(path.as_path()).map_or_else(|| wipefs(path), Ok));
        seen.read_superblocks(path, device);
        seen
    };
    paths.iter().zip(devices).map(look).collect()
}

type OfEach<'a> = HashMap<&'a Path, Vec<Signature>>;

/// What blkid says about several devices, up to the first problem: those missing from the answer
/// have to be asked about one by one. It stops at the first device with nothing on it, so those are
/// best listed last.
fn blkid_of_many<'a>(paths: &[&'a Path]) -> OfEach<'a> {
    let mut of_each = HashMap::new();
    let mut rest = paths.to_vec();
    while let Some(answer) = ask_of_many("blkid", &["-p", "-o", "export"], &rest) {
        let Ok(mut told) = blkid::parse_many(&answer.out) else { break };
        rest.retain(|path| match path.to_str().and_then(|text| told.remove(text)) {
            Some(found) => of_each.insert(*path, found).is_some(),
            None => true,
        });
        if answer.status != Some(blkid::NOTHING_FOUND) || rest.is_empty() {
            break;
        }
        of_each.insert(rest.remove(0), Vec::new());
    }
    of_each
}

/// What wipefs says about several devices. `None` if each has to be asked about on its own, since
/// something is wrong with one of them.
fn wipefs_of_many<'a>(paths: &[&'a Path]) -> Option<OfEach<'a>> {
    let answer = ask_of_many("wipefs", &["-J"], paths).filter(|answer| answer.status == Some(0))?;
    let mut told = wipefs::parse_many(&answer.out)?;
    let mut of_each = HashMap::new();
    for path in paths {
        let name = path.file_name()?.to_str()?;
        of_each.insert(*path, told.remove(name).unwrap_or_default());
    }
    let names_differ = paths.iter().filter_map(|path| path.file_name()).collect::<HashSet<_>>();
    // It gives only a device's name.
    (told.is_empty() && names_differ.len() == paths.len()).then_some(of_each)
}

/// `None` if there is at most one to ask about, or the program complained.
fn ask_of_many(program: &str, arguments: &[&str], paths: &[&Path]) -> Option<Answer> {
    if paths.len() < 2 {
        return None;
    }
    let mut words: Vec<&str> = arguments.to_vec();
    words.push("--");
    words.extend(paths.iter().map(|path| path.to_str()).collect::<Option<Vec<&str>>>()?);
    let answer = tool::ask(program, &words, ANSWER_WITHIN).ok()?;
    answer.err.trim().is_empty().then_some(answer)
}

fn blkid(path: &Path) -> Result<Vec<Signature>, String> {
    let path = path.to_string_lossy();
    let answer = tool::ask("blkid", &["-p", "-o", "export", "--", &path], ANSWER_WITHIN);
    match answer.map_err(say)? {
        answer if answer.status == Some(blkid::NOTHING_FOUND) => Ok(Vec::new()),
        // wipefs lists them all.
        answer if answer.status == Some(blkid::AMBIVALENT) => Ok(Vec::new()),
        answer if answer.status == Some(0) => blkid::parse(&answer.out).map_err(|e| e.to_string()),
        answer => Err(answer.err.trim().to_owned()),
    }
}

fn wipefs(path: &Path) -> Result<Vec<Signature>, String> {
    let path = path.to_string_lossy();
    match tool::ask("wipefs", &["-J", "--", &path], ANSWER_WITHIN).map_err(say)? {
        answer if answer.status == Some(0) => wipefs::parse(&answer.out).map_err(|e| e.to_string()),
        answer => Err(answer.err.trim().to_owned()),
    }
}

fn say(error: ToolError) -> String {
    error.to_string()
}

impl Signatures {
    fn listen(&mut self, heard: Result<Vec<Signature>, String>) {
        match heard {
            Ok(found) => found.into_iter().for_each(|signature| self.add(signature)),
            Err(why) => self.trouble.push(why),
        }
    }

    fn read_superblocks(&mut self, path: &Path, device: &BlockDevice) {
        let member = |kind: &str, name: Option<String>, uuid: braid_pool::uuid::Uuid| Signature {
            kind: kind.to_owned(),
            label: name.filter(|name| !name.is_empty()),
            uuid: Some(uuid.to_string()),
            usage: None,
        };
        match superblock::btrfs::read(path) {
            Ok(Some(found)) => self.add(member("btrfs", found.label, found.filesystem)),
            Ok(None) => {}
            Err(error) => self.trouble.push(error.to_string()),
        }
        let sector = device.logical_sector_bytes;
        self.partitions =
            superblock::partitions::count(path, device.size_bytes, sector).ok().flatten();
        if let Ok(Some(filesystem)) = superblock::bcachefs::read(path) {
            self.add(member("bcachefs", None, filesystem));
        }
        if let Ok(Some(found)) = superblock::md::read(path, device.size_bytes) {
            self.add(member("linux_raid_member", Some(found.name), found.array));
        }
    }

    /// Adds it if it is new, else fills the gaps in the existing one.
    fn add(&mut self, new: Signature) {
        let same = |old: &&mut Signature| {
            old.kind == new.kind
                && (old.uuid == new.uuid || old.uuid.is_none() || new.uuid.is_none())
        };
        match self.found.iter_mut().find(same) {
            // blkid's export format garbles non-ASCII letters, so a later label is the better one.
            Some(old) => {
                old.label = new.label.or_else(|| old.label.take());
                old.uuid = old.uuid.take().or(new.uuid);
                old.usage = old.usage.take().or(new.usage);
            }
            None => self.found.push(new),
        }
    }

    /// In the model's form; `partitions` are the nodes of those that the kernel found.
    pub fn contents(&self, partitions: &[String]) -> Vec<Content> {
        let mut contents = Vec::new();
        for signature in &self.found {
            let content = signature.content(partitions);
            if !contents.contains(&content) {
                contents.push(content);
            }
        }
        // A GPT is protected by an old-style partition table (the protective MBR).
        let is_table = |kind: &str, content: &Content| matches!(content, Content::PartitionTable { kind: of, .. } if of == kind);
        if contents.iter().any(|content| is_table("gpt", content)) {
            contents.retain(|content| !is_table("dos", content));
        }
        if !partitions.is_empty()
            && !contents.iter().any(|content| matches!(content, Content::PartitionTable { .. }))
        {
            contents.push(table("unknown", partitions, None));
        }
        for content in &mut contents {
            if let Content::PartitionTable { entries, .. } = content {
                *entries = self.partitions;
            }
        }
        if !self.trouble.is_empty() {
            contents.push(Content::Unseen { why: self.trouble.join("; ") });
        }
        contents
    }
}

fn table(kind: &str, partitions: &[String], uuid: Option<String>) -> Content {
    Content::PartitionTable {
        kind: kind.to_owned(),
        partitions: partitions.to_vec(),
        entries: None,
        uuid,
    }
}

impl Signature {
    fn content(&self, partitions: &[String]) -> Content {
        let (label, uuid) = (self.label.clone(), self.uuid.clone());
        match Meaning::of(&self.kind, self.usage.as_deref()) {
            Meaning::Table(kind) => table(kind, partitions, uuid),
            Meaning::Swap => Content::Swap { label },
            Meaning::Member(family) => Content::Member { family, name: label, uuid },
            Meaning::Filesystem => Content::Filesystem { kind: self.kind.clone(), label, uuid },
        }
    }
}

/// What libblkid's names mean to us.
enum Meaning<'a> {
    Table(&'a str),
    Swap,
    Member(Family),
    Filesystem,
}

impl<'a> Meaning<'a> {
    fn of(kind: &'a str, usage: Option<&str>) -> Meaning<'a> {
        match kind {
            "PMBR" | "dos" => Meaning::Table("dos"),
            _ if usage == Some(blkid::PARTITION_TABLE) => Meaning::Table(kind),
            "gpt" | "mac" | "sun" | "sgi" | "bsd" | "atari" | "minix-pt" | "solaris"
            | "unixware" => Meaning::Table(kind),
            "swap" | "swsuspend" | "swap_suspend" => Meaning::Swap,
            "btrfs" => Meaning::Member(Family::Btrfs),
            "linux_raid_member" => Meaning::Member(Family::Md),
            "LVM2_member" | "LVM1_member" | "LVM2_snapshot" | "DM_snapshot_cow"
            | "DM_integrity" => Meaning::Member(Family::Lvm),
            "zfs_member" => Meaning::Member(Family::Zfs),
            "bcachefs" => Meaning::Member(Family::Bcachefs),
            "bcache" | "drbd" | "stratis" | "ceph_bluestore" | "VMFS_volume_member"
            | "cs_fvault2" => Meaning::Member(Family::Other),
            _ if kind.ends_with("_raid_member") || usage == Some("raid") => {
                Meaning::Member(Family::Other)
            }
            _ => Meaning::Filesystem,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contents(kinds: &[(&str, Option<&str>)], partitions: &[String]) -> Vec<Content> {
        let signature = |(kind, usage): &(&str, Option<&str>)| Signature {
            kind: (*kind).to_owned(),
            usage: usage.map(str::to_owned),
            ..Signature::default()
        };
        let mut seen = Signatures::default();
        kinds.iter().map(signature).for_each(|signature| seen.add(signature));
        seen.contents(partitions)
    }

    #[test]
    fn members_of_other_managers_are_recognised() {
        for (kind, usage, expected) in [
            ("LVM2_member", Some("raid"), Family::Lvm),
            ("zfs_member", Some("filesystem"), Family::Zfs),
            ("bcachefs", Some("filesystem"), Family::Bcachefs),
            ("isw_raid_member", None, Family::Other),
            ("something_new", Some("raid"), Family::Other),
        ] {
            let found = contents(&[(kind, usage)], &[]);
            let expected = Content::Member { family: expected, name: None, uuid: None };
            assert_eq!(found, [expected], "{kind}");
        }
        let luks = contents(&[("crypto_LUKS", Some("crypto"))], &[]);
        assert!(matches!(&luks[..], [Content::Filesystem { kind, .. }] if kind == "crypto_LUKS"));
    }

    #[test]
    fn a_gpt_with_its_guard_is_one_table() {
        let partitions = ["/dev/sda1".to_owned()];
        let found = contents(
            &[("gpt", Some(blkid::PARTITION_TABLE)), ("gpt", None), ("PMBR", None)],
            &partitions,
        );
        assert_eq!(found, [table("gpt", &partitions, None)]);
    }

    #[test]
    fn partitions_that_the_kernel_sees_make_a_table_whatever_the_tools_say() {
        let partitions = ["/dev/sda1".to_owned()];
        assert_eq!(contents(&[], &partitions), [table("unknown", &partitions, None)]);
    }

    #[test]
    fn the_same_thing_told_twice_is_one() {
        let mut seen = Signatures::default();
        let of = |label: Option<&str>, uuid: Option<&str>| Signature {
            kind: "ext4".to_owned(),
            usage: None,
            label: label.map(str::to_owned),
            uuid: uuid.map(str::to_owned),
        };
        seen.add(of(Some("M-CM-)"), Some("1")));
        seen.add(of(Some("é"), Some("1")));
        seen.add(of(None, None));
        assert_eq!(seen.found, [of(Some("é"), Some("1"))]);
    }
}
