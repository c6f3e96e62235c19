use super::{Content, Disk, DiskId, Usability};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The right to overwrite one disk, as long as it is as it was when the plan was made. Only
/// [`Claim::stake`] creates one, which requires the user's permission unless the disk was shown to
/// be empty.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// The disk, as the user named it.
    id: DiskId,
    /// Its stable path.
    path: String,
    size_bytes: u64,
    /// What is on it and will be lost.
    contents: Vec<Content>,
}

/// The user's `--erase SERIAL…`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErasePermission(Vec<DiskId>);

/// Why a disk may not be overwritten.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClaimRefused {
    /// Something is on it, and the user didn't say to erase it.
    #[error("{disk} carries something: {why}; to lose that for good, add --erase {id}")]
    Carries {
        /// Path of the disk.
        disk: String,
        /// What is on it.
        why: String,
        /// What the user would have to write.
        id: DiskId,
    },
    /// It can't be used, whatever the user permits.
    #[error("{disk} can't be used: {why}")]
    Unusable {
        /// Path of the disk.
        disk: String,
        /// What stands against it.
        why: String,
    },
}

impl ErasePermission {
    /// Permission for these disks.
    pub fn for_disks(ids: impl IntoIterator<Item = DiskId>) -> Self {
        ErasePermission(ids.into_iter().collect())
    }

    /// Whether it covers this disk.
    pub fn covers(&self, id: &DiskId) -> bool {
        self.0.contains(id)
    }

    /// The ids that match none of `disks`: most likely mistyped.
    pub fn of_nobody<'a>(&'a self, disks: &[Disk]) -> Vec<&'a DiskId> {
        self.0.iter().filter(|id| !disks.iter().any(|disk| disk.id() == **id)).collect()
    }
}

impl Claim {
    /// Claims `disk`: it is empty, or the user permitted erasing this very one.
    ///
    /// # Errors
    /// [`ClaimRefused::Carries`] when something is on it and the permission doesn't cover it,
    /// [`ClaimRefused::Unusable`] when it can't be used at all.
    pub fn stake(disk: &Disk, permission: &ErasePermission) -> Result<Claim, ClaimRefused> {
        let id = disk.id();
        match disk.usability() {
            Usability::Free => {}
            Usability::AfterErase { .. } if permission.covers(&id) => {}
            Usability::AfterErase { why } => {
                return Err(ClaimRefused::Carries { disk: disk.path.clone(), why, id });
            }
            Usability::No { why } => {
                return Err(ClaimRefused::Unusable { disk: disk.path.clone(), why });
            }
        }
        Ok(Claim {
            id,
            path: disk.stable_path().to_owned(),
            size_bytes: disk.size_bytes,
            contents: disk.contents.clone(),
        })
    }

    /// The disk's id.
    pub fn id(&self) -> &DiskId {
        &self.id
    }

    /// The disk's stable path.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The disk's size.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// What will be lost.
    pub fn contents(&self) -> &[Content] {
        &self.contents
    }

    /// Whether `disk` as it is now (examined, if nothing is recognised on it) is still what was
    /// claimed; otherwise what changed. Meanwhile the caller holds it open with `O_EXCL`.
    ///
    /// # Errors
    /// What changed: its identity, its size or its contents; also that it wasn't examined for
    /// emptiness.
    pub fn still_holds(&self, disk: &Disk) -> Result<(), String> {
        if disk.id() != self.id {
            return Err(format!("{} is now the disk {}, not {}", self.path, disk.id(), self.id));
        }
        if disk.size_bytes != self.size_bytes {
            return Err(format!(
                "{} now has {} bytes, not {}",
                self.path, disk.size_bytes, self.size_bytes
            ));
        }
        if disk.contents != self.contents {
            let now: Vec<String> = disk.contents.iter().map(Content::to_string).collect();
            let now = if now.is_empty() { "nothing".to_owned() } else { now.join(", ") };
            return Err(format!("on {} there is now: {now}", self.path));
        }
        if !self.erases() && disk.blank.is_none() {
            return Err(format!("nobody has looked whether {} is still empty", self.path));
        }
        Ok(())
    }

    /// Whether something will be lost.
    pub fn erases(&self) -> bool {
        !self.contents.is_empty()
    }
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = braid_units::ByteSize::from_bytes(self.size_bytes);
        write!(f, "{} (serial {}, {size}): ", self.path, self.id)?;
        if self.contents.is_empty() {
            return f.write_str("empty");
        }
        let all: Vec<String> = self.contents.iter().map(Content::to_string).collect();
        write!(f, "LOSES {}", all.join(", "))
    }
}
