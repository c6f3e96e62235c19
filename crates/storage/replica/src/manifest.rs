//! A description of each file below a folder, so that two sides can be compared.

mod walk;

pub use walk::{Manifest, read};

use crate::exact_path::ExactPath;
use serde::{Deserialize, Serialize};

/// One file, folder, link or other thing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// Below the folder; empty for the folder itself.
    pub path: ExactPath,
    /// Type and permission bits, as `st_mode`.
    pub mode: u32,
    /// Owner.
    pub user: u32,
    /// Group.
    pub group: u32,
    /// Modified: seconds and nanoseconds.
    pub modified: (i64, i64),
    /// Properties of particular kinds of files.
    #[serde(flatten)]
    pub content: Content,
    /// BLAKE3 over all extended attributes; `None` without any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub xattrs: Option<String>,
    /// The first path of the same file, if it has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub same_as: Option<ExactPath>,
}

/// What a file holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Content {
    /// Data.
    File {
        /// Bytes.
        size: u64,
        /// BLAKE3 of them.
        hash: String,
    },
    /// Other entries, which have lines of their own.
    Folder,
    /// Leads elsewhere.
    Symlink {
        /// Where.
        target: ExactPath,
    },
    /// A device, fifo or socket.
    Node {
        /// The device's number; 0 for the others.
        device: u64,
    },
}

/// What differs at one path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Where.
    pub path: ExactPath,
    /// What.
    pub what: Vec<Aspect>,
}

/// A thing that two files may differ in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Aspect {
    /// It is not in the copy.
    Missing,
    /// It is in the copy only.
    Extra,
    /// File, folder, link, ...
    Kind,
    /// Bytes.
    Content,
    /// Permission bits.
    Mode,
    /// User or group.
    Owner,
    /// Modification time.
    Modified,
    /// Extended attributes, access control lists among them.
    Xattrs,
    /// Which names are one file.
    HardLinks,
}

/// All differences between two manifests that are sorted by path.
pub fn compare(original: &[Line], copy: &[Line]) -> Vec<Difference> {
    let mut found = vec![];
    let (mut ours, mut theirs) = (original.iter().peekable(), copy.iter().peekable());
    loop {
        let order = match (ours.peek(), theirs.peek()) {
            (None, None) => return found,
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (Some(one), Some(other)) => one.path.cmp(&other.path),
        };
        let only = |line: &Line, aspect| Difference { path: line.path.clone(), what: vec![aspect] };
        match order {
            std::cmp::Ordering::Less => {
                found.extend(ours.next().map(|line| only(line, Aspect::Missing)));
            }
            std::cmp::Ordering::Greater => {
                found.extend(theirs.next().map(|line| only(line, Aspect::Extra)));
            }
            std::cmp::Ordering::Equal => {
                if let (Some(one), Some(other)) = (ours.next(), theirs.next()) {
                    let what = aspects(one, other);
                    if !what.is_empty() {
                        found.push(Difference { path: one.path.clone(), what });
                    }
                }
            }
        }
    }
}

fn aspects(one: &Line, other: &Line) -> Vec<Aspect> {
    const KIND: u32 = libc::S_IFMT;
    if one.mode & KIND != other.mode & KIND {
        return vec![Aspect::Kind];
    }
    let differs = [
        (one.content != other.content, Aspect::Content),
        (one.mode != other.mode, Aspect::Mode),
        ((one.user, one.group) != (other.user, other.group), Aspect::Owner),
        (one.modified != other.modified, Aspect::Modified),
        (one.xattrs != other.xattrs, Aspect::Xattrs),
        (one.same_as != other.same_as, Aspect::HardLinks),
    ];
    differs.into_iter().filter(|(differs, _)| *differs).map(|(_, aspect)| aspect).collect()
}

/// As many as there are processors.
pub(crate) fn threads() -> usize {
    std::thread::available_parallelism().map_or(2, std::num::NonZero::get)
}
