use super::carry_out::Place;
use super::seen::Seen;
use super::volumes::{self, Opener, run};
use crate::cli::failure::{Failure, tell};
use crate::cli::{Global, JsonFlag};
use braid_disks::tool;
use braid_pool::luks::{LuksVolume, Unlock, crypttab};
use braid_pool::observed::{ObservedMd, ObservedPool};
use braid_pool::planner::{fstab_mount, volumes_below};
use clap::Args;
use serde_json::json;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Args)]
#[command(
    after_help = "Examples:\n  braid pool open data\n  ssh nas braid pool open data --passphrase-file - < passphrase\n\nWhat is open already is left alone, so it can be given again."
)]
pub struct Open {
    #[command(flatten)]
    _json: JsonFlag,
    /// The pool's name
    name: String,
    /// Read the passphrase from this file (- for standard input) instead of asking
    #[arg(long, value_name = "FILE")]
    passphrase_file: Option<PathBuf>,
    /// The key file, if not the one that /etc/crypttab names
    #[arg(long, value_name = "FILE", conflicts_with = "passphrase_file")]
    key_file: Option<PathBuf>,
    #[command(flatten)]
    place: Place,
}

impl Open {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let seen = Seen::now(&self.place.config());
        let all = volumes::of_pool(&seen, &self.name)?;
        let mut closed: Vec<LuksVolume> =
            all.iter().filter(|volume| volume.open.is_none()).cloned().collect();
        closed.retain(|volume| !opened_by_itself(volume, &seen));
        let mut failed = Vec::new();
        if !closed.is_empty() {
            let (key, passphrase) = (self.key_file.as_deref(), self.passphrase_file.as_deref());
            let opener = Opener::find(&seen, &self.name, &closed, key, passphrase)?;
            for volume in &closed {
                let (file, name) = (opener.file(), volume.mapping_name());
                let args = ["open", "--type", "luks", "--key-file", &file, &volume.path, &name];
                if let Err(error) = run("cryptsetup", &args) {
                    failed.push(error.to_string());
                }
            }
        }
        let mounted = self.bring_up();
        let count = all.len() - failed.len();
        if failed.is_empty() {
            let mounted = mounted?;
            let value = json!({ "opened": count, "mounted_at": mounted });
            return global.print(&value, || match &mounted {
                Some(at) => format!("pool {} is open, at {at}", self.name),
                None => format!("pool {} is open; nothing says where to mount it", self.name),
            });
        }
        let (opened, name) = (format!("{count} of {} disks are open", all.len()), &self.name);
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

    /// Assembles and mounts what has come to light.
    fn bring_up(&self) -> Result<Option<String>, Failure> {
        let seen = Seen::now(&self.place.config());
        let Some(pool) = of_volumes(&seen, &self.name) else {
            return Err(Failure::failed(format!(
                "the disks are open, and there is no pool on them: `braid pool resume {}` if it was just being made",
                self.name
            )));
        };
        let seen = match pool {
            ObservedPool::Md(md) if !md.runs() => {
                assemble(md)?;
                Seen::now(&self.place.config())
            }
            ObservedPool::Md(_) => seen,
            ObservedPool::Btrfs(_) => {
                run("btrfs", &["device", "scan"])?;
                seen
            }
        };
        let Some(pool) = of_volumes(&seen, &self.name) else { return Ok(None) };
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
            let name = &self.name;
            return Err(Failure::failed(format!(
                "pool {name} lacks a disk, and isn't mounted so by itself: `braid pool replace {name} missing NEW` mounts and mends it; to read it before that, `mount -t btrfs -o ro,degraded,{options} {device} {at}`"
            )));
        }
        std::fs::create_dir_all(&at)
            .map_err(|error| Failure::io(&format!("making {at}"), &error))?;
        run("mount", &["-t", &kind, "-o", &options, &device, &at])?;
        Ok(Some(at))
    }
}

/// Those of fstab's options that say how, not when, it is mounted.
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
        // Assembled without running, by a boot that saw some of its disks.
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

/// The pool on the disks that are open.
pub fn of_volumes<'a>(seen: &'a Seen, name: &str) -> Option<&'a ObservedPool> {
    seen.pools.iter().find(|pool| {
        volumes_below(pool, &seen.host).any(|volume| volume.pool.as_deref() == Some(name))
    })
}

/// How long a TPM or a server may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);

/// Whether the TPM or a server opens it. If they don't, the passphrase is asked for.
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
            tell(&format!("{} isn't opened without you: {}", volume.path, answer.err.trim()));
            false
        }
        Err(error) => {
            tell(&format!("{} isn't opened without you: {error}", volume.path));
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
