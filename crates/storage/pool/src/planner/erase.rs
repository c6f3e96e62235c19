//! Taking disks: claims, and the steps that erase what the user permitted to erase.

use super::Refused;
use crate::disk::{Claim, Content, Disk, ErasePermission};
use crate::step::{Action, Argv, Condition, Step, Undo};

/// A disk that may be taken, with the steps that empty it.
pub(super) struct NewMember {
    pub(super) claim: Claim,
    /// The node, for messages.
    pub(super) path: String,
    pub(super) physical_disk: String,
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
    })
}

/// No two of them on one physical disk.
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

/// Steps that empty those disks that carry something; none for the others.
pub(super) fn steps(claims: &[Claim]) -> Vec<Step> {
    claims.iter().filter(|claim| claim.erases()).map(erase).collect()
}

/// What must hold before a claimed disk is written to.
pub(super) fn ready(claim: &Claim) -> Condition {
    if claim.erases() {
        Condition::Empty { disk: claim.id().clone() }
    } else {
        Condition::AsClaimed(claim.clone())
    }
}

/// Takes away every signature on a disk that this plan wrote to.
pub(super) fn wipe(path: &str) -> Action {
    Action::Run(Argv::new("wipefs", ["--all", "--quiet", path]))
}

fn erase(claim: &Claim) -> Step {
    let what: Vec<String> = claim.contents().iter().map(Content::to_string).collect();
    Step {
        name: format!("erase {}", claim.id()),
        says: format!("erase disk {} for good: {}", claim.id(), what.join(", ")),
        before: vec![Condition::AsClaimed(claim.clone())],
        action: wipe(claim.path()),
        after: vec![Condition::Empty { disk: claim.id().clone() }],
        undo: Undo::Never(format!("what was on disk {} is erased", claim.id())),
    }
}
