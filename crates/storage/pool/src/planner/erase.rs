//! The steps that erase what the user permitted to erase.

use super::encrypt;
use super::member::NewMember;
use crate::disk::{Claim, Content};
use crate::step::{Action, Argv, Condition, Step, Undo};

/// Steps that empty those disks that carry something, and encrypt those to be encrypted.
pub(super) fn prepared<'a>(members: impl IntoIterator<Item = &'a NewMember> + Clone) -> Vec<Step> {
    let claims: Vec<Claim> =
        members.clone().into_iter().map(|member| member.claim.clone()).collect();
    let mut steps = steps(&claims);
    steps.extend(encrypt::steps(members));
    steps
}

/// Steps that empty those disks that carry something; none for the others. Unrecognised data has no
/// signature to remove: what is made there overwrites it.
pub(super) fn steps(claims: &[Claim]) -> Vec<Step> {
    let has_signature = |claim: &&Claim| !claim.contents().iter().all(Content::is_unknown);
    claims.iter().filter(has_signature).map(erase).collect()
}

/// Removes every signature on a disk that this plan wrote to.
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
