//! Taking disks as members: claims, and the conditions before they are written to.

use super::Refused;
use crate::disk::{Claim, Disk, ErasePermission};
use crate::luks::Encryption;
use crate::step::Condition;

/// A disk that may be taken, with the steps that empty it.
pub(super) struct NewMember {
    pub(super) claim: Claim,
    /// The node, for messages.
    pub(super) path: String,
    pub(super) physical_disk: String,
    /// It is encrypted first.
    pub(super) encrypt: Option<Encryption>,
}

impl NewMember {
    /// The path that programs are given: the disk's, or its mapping's.
    pub(super) fn device(&self) -> String {
        let mapped = self.encrypt.as_ref().map(Encryption::device);
        mapped.unwrap_or_else(|| self.claim.path().to_owned())
    }

    /// The size that the pool gets.
    pub(super) fn size_bytes(&self) -> u64 {
        let disk = self.claim.size_bytes();
        self.encrypt.as_ref().map_or(disk, |encrypt| encrypt.size_bytes(disk))
    }

    /// What must hold before an existing pool writes to it.
    pub(super) fn ready(&self) -> Condition {
        self.ready_for(false)
    }

    /// What must hold before a pool is made of it.
    pub(super) fn ready_anew(&self) -> Condition {
        self.ready_for(true)
    }

    fn ready_for(&self, anew: bool) -> Condition {
        let encrypt = self.encrypt.as_ref();
        encrypt.map_or_else(|| ready(&self.claim), |encrypt| mapping_ready(encrypt, anew))
    }
}

/// Claims all of `disks`.
pub(super) fn stake(disks: &[Disk], erase: &ErasePermission) -> Result<Vec<NewMember>, Refused> {
    check_distinct(disks)?;
    disks.iter().map(|disk| stake_one(disk, erase)).collect()
}

/// Claims one disk.
pub(super) fn stake_one(disk: &Disk, erase: &ErasePermission) -> Result<NewMember, Refused> {
    Ok(NewMember {
        claim: Claim::stake(disk, erase)?,
        path: disk.path.clone(),
        physical_disk: disk.physical_disk().to_owned(),
        encrypt: disk.encrypt.clone(),
    })
}

/// Checks that no two are on the same physical disk.
pub(super) fn check_distinct(disks: &[Disk]) -> Result<(), Refused> {
    for (index, second) in disks.iter().enumerate() {
        let same = |first: &&Disk| {
            first.physical_disk() == second.physical_disk() || first.id() == second.id()
        };
        if let Some(first) = disks.iter().take(index).find(same) {
            return Err(Refused::SameDisk {
                first: first.path.clone(),
                second: second.path.clone(),
            });
        }
    }
    Ok(())
}

/// What must hold before a claimed disk is written to.
pub(super) fn ready(claim: &Claim) -> Condition {
    if claim.erases() {
        Condition::Empty { disk: claim.id().clone() }
    } else {
        Condition::AsClaimed(claim.clone())
    }
}

/// What must hold for a member's mapping before the pool, which is new if `anew`, writes to it.
fn mapping_ready(wish: &Encryption, anew: bool) -> Condition {
    Condition::OpenAndEmpty { name: wish.mapping(), uuid: wish.uuid, anew }
}
