//! The host's disks and pools at the start of a command.

use super::{locked, named};
use crate::cli::failure::{Failure, FailureKind};
use braid_disks::{AskSmart, HostRoot, Inventory, NoSuchDisk};
use braid_pool::disk::{Disk, DiskId, ErasePermission};
use braid_pool::observed::{ObservedHost, ObservedPool};
use braid_pool::planner::{MemberName, Refused};
use braid_runner::host::ConfigRoot;

pub struct Seen {
    pub inventory: Inventory,
    pub pools: Vec<ObservedPool>,
    pub host: ObservedHost,
}

impl Seen {
    /// Examines everything except the disks' health.
    pub fn now(config: &ConfigRoot) -> Seen {
        let root = HostRoot::real();
        let inventory = Inventory::take(&root, AskSmart::No);
        let pools = braid_disks::pools::observe(&root, &inventory);
        let host = braid_runner::host::observe_host_of(config, &inventory);
        Seen { inventory, pools, host }
    }

    /// The pool of this name or UUID.
    pub fn pool(&self, name: &str) -> Result<&ObservedPool, Failure> {
        named::one(&self.pools, name).map_err(|error| {
            let is_locked = locked::locked(&self.host).contains_key(name);
            if is_locked { locked::is_locked(name) } else { error }
        })
    }

    /// The member that the user means; for an encrypted disk, the node that the pool uses.
    pub fn member(&self, word: &str) -> MemberName {
        let disk = self.inventory.find(word).ok();
        let open = disk.and_then(|disk| {
            let volume = self.host.luks.iter().find(|volume| volume.path == disk.path)?;
            volume.open.as_ref().map(|open| open.node.clone())
        });
        MemberName(open.unwrap_or_else(|| word.to_owned()))
    }

    /// The disks that the user names, each checked for whether it is empty.
    pub fn disks(&mut self, names: &[String]) -> Result<Vec<Disk>, Failure> {
        examine_named(&mut self.inventory, names)?;
        names.iter().map(|name| Ok(self.inventory.find(name)?.clone())).collect()
    }

    /// The user's `--erase` options, each of which must name one of these disks.
    pub fn permission(&self, erase: &[String], disks: &[Disk]) -> Result<ErasePermission, Failure> {
        let permission = ErasePermission::for_disks(erase.iter().map(DiskId::new));
        match permission.of_nobody(disks).first() {
            None => Ok(permission),
            Some(id) => {
                let ids: Vec<String> = disks.iter().map(|disk| disk.id().to_string()).collect();
                let message = format!(
                    "--erase {id}: none of the named disks has this serial number; they have {}",
                    ids.join(", ")
                );
                Err(Failure::new(FailureKind::Usage, message))
            }
        }
    }
}

/// Determines whether the disks that the user names are empty.
pub fn examine_named(inventory: &mut Inventory, names: &[String]) -> Result<(), NoSuchDisk> {
    let path = |name: &String| Ok(inventory.find(name)?.path.clone());
    let paths: Vec<String> = names.iter().map(path).collect::<Result<_, NoSuchDisk>>()?;
    inventory.examine(|disk| paths.contains(&disk.path));
    Ok(())
}

impl From<NoSuchDisk> for Failure {
    fn from(error: NoSuchDisk) -> Self {
        Failure::failed(error.to_string())
    }
}

impl From<Refused> for Failure {
    fn from(refused: Refused) -> Self {
        Failure::failed(refused.to_string())
    }
}
