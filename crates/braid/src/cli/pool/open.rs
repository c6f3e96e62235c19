use super::pool_key::PoolKey;
use super::seen::Seen;
use super::volumes::{Sorted, run};
use crate::cli::Global;
use crate::cli::failure::{Failure, tell};
use braid_disks::tool;
use braid_pool::disk::Content;
use braid_pool::luks::{LuksVolume, Unlock, crypttab};
use braid_pool::membership::{is_complete, is_taking_one};
use braid_pool::observed::{ObservedMd, ObservedPool};
use braid_pool::planner::{fstab_mount, volumes_below};
use braid_pool::step::quoted;
use clap::Args;
use serde_json::json;
use std::time::Duration;

#[derive(Args)]
#[command(
    after_help = "Examples:\n  braid pool open data\n  ssh nas braid pool open data --passphrase-file - < passphrase\n\nDisks that are open already are left alone, so the command can be repeated. A disk that has left the\npool and still has its keys isn't opened, or is locked again before it is used."
)]
pub struct Open {
    #[command(flatten)]
    key: PoolKey,
    /// Open this disk, too, although this computer has no record of it as a member; it is locked
    /// again if it isn't one
    #[arg(long, value_name = "DISK", hide_short_help = true)]
    disk: Option<String>,
}

impl Open {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let seen = self.key.seen();
        let Sorted { members: mut all, mut unknown } = self.key.sorted(&seen)?;
        if let Some(word) = &self.disk {
            let path = &seen.inventory.find(word)?.path;
            let (named, others) = unknown.into_iter().partition(|volume| volume.path == *path);
            (unknown, all) = (others, [all, named].concat());
            if !all.iter().any(|volume| volume.path == *path) {
                return Err(Failure::failed(format!(
                    "{path} is not a member of pool {0}: `braid pool doctor {0}` says more",
                    self.key.name
                )));
            }
        }
        let mut closed: Vec<LuksVolume> =
            all.iter().filter(|volume| volume.open.is_none()).cloned().collect();
        closed.retain(|volume| !opened_by_itself(volume, &seen));
        let mut failed = Vec::new();
        if !closed.is_empty() {
            let opener = self.key.opener(&seen, &closed)?;
            for volume in &closed {
                let (file, name) = (opener.file(), volume.mapping_name());
                let args = ["open", "--type", "luks", "--key-file", &file, &volume.path, &name];
                if let Err(error) = run("cryptsetup", &args) {
                    failed.push(error.to_string());
                }
            }
        }
        let mounted = self.bring_up(&mut all);
        self.hint_at(&unknown, &all);
        let count = all.len() - failed.len();
        if failed.is_empty() {
            let mounted = mounted?;
            let value = json!({ "opened": count, "mounted_at": mounted });
            return global.print(&value, || match &mounted {
                Some(at) => format!("pool {} is open, at {at}", self.key.name),
                None => {
                    format!("pool {} is open; no mount point is configured for it", self.key.name)
                }
            });
        }
        let (opened, name) = (format!("{count} of {} disks are open", all.len()), &self.key.name);
        let (opened, error) = match mounted {
            Ok(Some(at)) => (format!("{opened}, and the pool is at {at}"), String::new()),
            Ok(None) => (opened, String::new()),
            Err(error) => (opened, format!("\n{error}")),
        };
        Err(Failure::failed(format!(
            "{opened}:\n{}{error}\n`braid pool doctor {name}` says what to do",
            failed.join("\n")
        )))
    }

    /// Locks volumes with former members: disks that have left the pool, and whose keys couldn't be
    /// erased. The kernel hasn't used them yet. Removes them from `all`; returns whether there were
    /// any.
    fn lock_old_ones(&self, seen: &Seen, all: &mut Vec<LuksVolume>) -> Result<bool, Failure> {
        let unfinished = self.key.place.state().unfinished()?;
        let Some(pool) = pool_of(seen, all) else { return Ok(false) };
        // A disk that is being added isn't a member yet.
        if is_taking_one(pool) || unfinished.iter().any(|(name, _)| *name == pool.name()) {
            return Ok(false);
        }
        let before = all.len();
        let mappings = seen.host.luks.iter().filter_map(|volume| volume.open.as_ref());
        for open in mappings.filter(|open| is_old(seen, pool, &open.node)) {
            if !all.iter().any(|volume| volume.uuid == open.volume) {
                continue;
            }
            if matches!(pool, ObservedPool::Btrfs(_)) {
                // It may not know the device.
                let _ = run("btrfs", &["device", "scan", "--forget", &open.node]);
            }
            run("cryptsetup", &["close", &open.name])?;
            tell(&format!(
                "{} has left the pool, and is locked again; `braid pool doctor {}` says what to do",
                open.over, self.key.name
            ));
            all.retain(|volume| volume.uuid != open.volume);
        }
        Ok(all.len() < before)
    }

    /// Disks with the pool's label may be what it is missing.
    fn hint_at(&self, unknown: &[LuksVolume], all: &[LuksVolume]) {
        if unknown.is_empty() || pool_of(&self.key.seen(), all).is_some_and(is_complete) {
            return;
        }
        for volume in unknown {
            tell(&format!(
                "{} also has the pool's label, but this computer has no record of it: if it is a \
                 member, `braid pool open {} --disk {}`",
                volume.path,
                self.key.name,
                quoted(volume.disk.as_str())
            ));
        }
    }

    /// Assembles and mounts what was found on these disks.
    fn bring_up(&self, all: &mut Vec<LuksVolume>) -> Result<Option<String>, Failure> {
        let mut seen = self.key.seen();
        if self.lock_old_ones(&seen, all)? {
            seen = self.key.seen();
        }
        let Some(pool) = pool_of(&seen, all) else {
            return Err(Failure::failed(format!(
                "the disks are open, but there is no pool on them: `braid pool resume {}` if it \
                 was just being made",
                self.key.name
            )));
        };
        let seen = match pool {
            ObservedPool::Md(md) if !md.runs() => {
                assemble(md)?;
                let seen = self.key.seen();
                // Only now does md know which of them are up to date.
                self.lock_old_ones(&seen, all)?;
                seen
            }
            ObservedPool::Md(_) => seen,
            ObservedPool::Btrfs(_) => {
                run("btrfs", &["device", "scan"])?;
                seen
            }
        };
        let Some(pool) = pool_of(&seen, all) else { return Ok(None) };
        if let Some(mount) = pool.mounts().first() {
            return Ok(Some(mount.at.clone()));
        }
        let (device, kind, uuid) = match pool {
            ObservedPool::Btrfs(btrfs) => {
                let path = btrfs.present().find_map(|member| member.path.clone());
                (path, "btrfs".to_owned(), Some(btrfs.uuid))
            }
            ObservedPool::Md(md) => {
                let on = md.carries.as_ref();
                (
                    md.path(),
                    on.map_or_else(String::new, |on| on.kind.clone()),
                    on.and_then(|on| on.uuid),
                )
            }
        };
        let (Some(device), Some(mount)) =
            (device, uuid.and_then(|uuid| fstab_mount(&seen.host, uuid)))
        else {
            return Ok(None);
        };
        let mut options = mount_options(&mount.options);
        if let ObservedPool::Btrfs(btrfs) = pool {
            for path in btrfs.present().filter_map(|member| member.path.as_deref()) {
                options.push(format!("device={path}"));
            }
        }
        let (options, at) = (options.join(","), mount.at);
        if let ObservedPool::Btrfs(btrfs) = pool
            && btrfs.missing().next().is_some()
        {
            let name = &self.key.name;
            return Err(Failure::failed(format!(
                "pool {name} lacks a disk, so it isn't mounted automatically: `braid pool replace \
                 {name} missing NEW` mounts and repairs it; to read it before that, `mount -t \
                 btrfs -o ro,degraded,{options} {device} {at}`"
            )));
        }
        std::fs::create_dir_all(&at)
            .map_err(|error| Failure::io(&format!("making {at}"), &error))?;
        run("mount", &["-t", &kind, "-o", &options, &device, &at])?;
        Ok(Some(at))
    }
}

/// The pool on these disks, as far as they are open.
pub fn pool_of<'a>(seen: &'a Seen, volumes: &[LuksVolume]) -> Option<&'a ObservedPool> {
    seen.pools.iter().find(|pool| {
        volumes_below(pool, &seen.host)
            .any(|below| volumes.iter().any(|volume| volume.uuid == below.uuid))
    })
}

/// Whether the contents of this mapping claim membership in the pool, but the pool doesn't have it.
fn is_old(seen: &Seen, pool: &ObservedPool, node: &str) -> bool {
    let is_its = |content: &Content| match content {
        Content::Member { uuid: Some(uuid), .. } => uuid.parse() == Ok(pool.uuid()),
        _ => false,
    };
    let disk = seen.inventory.by_path(node);
    let was_member = disk.is_some_and(|disk| disk.contents.iter().any(is_its));
    was_member && !pool.member_paths().any(|path| path == node)
}

/// The fstab options that say how, not when, to mount it.
fn mount_options(options: &str) -> Vec<String> {
    const WHEN: [&str; 6] = ["defaults", "auto", "noauto", "nofail", "_netdev", "degraded"];
    let is_how =
        |option: &&str| !option.is_empty() && !option.starts_with("x-") && !WHEN.contains(option);
    let mut kept: Vec<String> = options.split(',').filter(is_how).map(str::to_owned).collect();
    if kept.is_empty() {
        kept.push("defaults".to_owned());
    }
    kept
}

fn assemble(md: &ObservedMd) -> Result<(), Failure> {
    let node = md.path().unwrap_or_else(|| format!("/dev/md/{}", md.short_name()));
    if md.device.is_some() {
        // It was assembled but not started, at a boot that saw only some of its disks.
        run("mdadm", &["--stop", &node])?;
    }
    let uuid = format!("--uuid={}", md.uuid.in_mdadm_form());
    let mut args = vec!["--assemble", &node, &uuid];
    let survives = md.layout.map_or(0, |layout| layout.losses_survived(md.wants_disks));
    if (1..=survives).contains(&md.degraded) {
        args.push("--run");
    }
    run("mdadm", &args)
}

/// How long a TPM or a server may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(90);

/// Whether the TPM or a server opens it; if not, the passphrase is asked for.
fn opened_by_itself(volume: &LuksVolume, seen: &Seen) -> bool {
    let line = crypttab(&seen.host.crypttab).find(|line| line.volume == Some(volume.uuid));
    let name = volume.mapping_name();
    let answer = match line.map(|line| line.unlock()) {
        Some(Unlock::Tpm2) => {
            let args = ["open", "--type", "luks2", "--token-only", &volume.path, &name];
            tool::ask("cryptsetup", &args, ANSWER_WITHIN)
        }
        Some(Unlock::Tang { .. }) => {
            let args = ["luks", "unlock", "-d", &volume.path, "-n", &name];
            tool::ask("clevis", &args, ANSWER_WITHIN)
        }
        _ => return false,
    };
    match answer {
        Ok(answer) if answer.status == Some(0) => true,
        Ok(answer) => {
            tell(&format!("{} can't be opened automatically: {}", volume.path, answer.err.trim()));
            false
        }
        Err(error) => {
            tell(&format!("{} can't be opened automatically: {error}", volume.path));
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_mounted_as_fstab_says_but_for_when() {
        let options = "noatime,nofail,noauto,compress=zstd:3,x-systemd.device-timeout=1,subvol=@a";
        assert_eq!(mount_options(options), ["noatime", "compress=zstd:3", "subvol=@a"]);
        assert_eq!(mount_options("defaults,nofail"), ["defaults"]);
    }
}
