mod to_disk;

use super::bytes_line::BytesLine;
use super::carry_out::Consent;
use super::reach::Reach;
use crate::cli::Global;
use crate::cli::confirm::confirm;
use crate::cli::failure::{Failure, FailureKind, print_line, tell};
use braid_replica::agent::Allowed;
use braid_replica::clone::{self, Cloned, Plan, SystemClone, mount_privately};
use braid_replica::listener;
use braid_replica::replicate::Place;
use braid_replica::source::{SendOptions, Watch};
use braid_units::{ByteSize, Rate, format_duration};
use clap::Args;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

#[derive(Args)]
#[command(after_help = "\
Examples:
  braid pool clone / --to-disk /dev/sdb --finish --dry-run
  braid pool clone / --to-disk /dev/sdb --finish --erase WD-WCC4E1
  braid pool clone / /mnt/new --beside /boot/efi /mnt/new-esp --skip @/var/lib/docker
  braid pool clone root@old:/ --to-disk /dev/sda --finish  # from another computer
  braid pool clone --serve 10.9.0.1:7000 /                 # there, without ssh
  braid pool clone tcp://10.9.0.1:7000 --to-disk /dev/sda --finish
  braid pool clone --forget / /mnt/new

With --to-disk the disk is partitioned (GPT, bootable by EFI or BIOS) and gets filesystems with \
new UUIDs; otherwise the new filesystem is an empty btrfs that you mounted anywhere. All \
subvolumes are copied and keep sharing what they share; the default
subvolume, etc/fstab and the boot loader's files then name the new filesystem.
The old system isn't changed. If interrupted, repeat the command (with --to-disk: `braid pool \
resume`). To clone to another computer, run it there, in a live system: the old one needs braid \
and root too, over ssh or with --serve.")]
pub struct Clone {
    #[command(flatten)]
    consent: Consent,
    /// Any path on the old filesystem, here or on another computer
    from: Place,
    /// Where the new filesystem is mounted, or its device
    #[arg(required_unless_present_any = ["to_disk", "serve", "forget"])]
    to: Option<PathBuf>,
    /// Make this disk a bootable copy: path, link or serial number
    #[arg(long, value_name = "DISK", conflicts_with_all = ["to", "beside", "boot_disk"])]
    to_disk: Option<String>,
    /// Destroy all data on the disk with this serial number
    #[arg(long, value_name = "SERIAL", requires = "to_disk")]
    erase: Vec<String>,
    /// Allow an unencrypted copy of an encrypted system
    #[arg(long, requires = "to_disk")]
    unencrypted: bool,
    /// The subvolume with the system, if not the default one, @ or root
    #[arg(long, value_name = "SUBVOLUME")]
    root: Option<PathBuf>,
    /// Skip this subvolume and everything below it
    #[arg(long, value_name = "SUBVOLUME")]
    skip: Vec<PathBuf>,
    /// Also copy a filesystem of another kind (the ESP, /boot): mount points or devices of the old
    /// and the new one
    #[arg(long, alias = "esp", num_args = 2, value_names = ["OLD", "NEW"])]
    beside: Vec<PathBuf>,
    /// With --finish: install GRUB for a BIOS on this disk
    #[arg(long, value_name = "DISK")]
    boot_disk: Option<PathBuf>,
    /// Run the boot steps (initramfs, boot loader, boot menu) in the new system
    #[arg(long)]
    finish: bool,
    /// Limit the copying rate
    #[arg(long, value_name = "RATE")]
    limit: Option<Rate>,
    /// Reconnect at most this many times in a row without progress; 0 for never
    #[arg(long, default_value_t = 20, value_name = "N")]
    retries: u32,
    #[command(flatten)]
    reach: Reach,
    /// Listen at this address and offer the system of FROM to tcp:// clients that have the key
    #[arg(long, value_name = "ADDRESS:PORT", conflicts_with_all = ["to", "to_disk", "forget"])]
    serve: Option<SocketAddr>,
    /// Delete what an interrupted clone left behind in FROM and TO
    #[arg(long, conflicts_with = "to_disk")]
    forget: bool,
}

impl Clone {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        if let Some(address) = self.serve {
            let Place::Local(path) = &self.from else {
                return Err(Failure::new(
                    FailureKind::Usage,
                    "--serve offers a system on this computer: FROM must be a local path",
                ));
            };
            let (allowed, key) = (Allowed::System(path.clone()), self.reach.key_to_serve_with()?);
            return Ok(listener::serve(
                address,
                &allowed,
                &key,
                &self.consent.place.register(),
                tell,
            )?);
        }
        mount_privately()?;
        if self.forget {
            return self.forget(global);
        }
        if let Some(disk) = &self.to_disk {
            return to_disk::run(self, disk, global);
        }
        let Some(to) = &self.to else {
            return Err(Failure::new(FailureKind::Usage, "name the destination (TO)"));
        };
        let watch = Arc::new(Watch::default());
        let clone = self.system_clone(to.clone(), Arc::clone(&watch))?;
        let plan = clone.plan()?;
        if self.consent.dry_run() {
            return global.print(&plan, || describe(&plan, self.finish));
        }
        self.consent.confirmed(|| {
            print_line(&describe(&plan, self.finish))?;
            confirm()
        })?;
        let line = BytesLine::start(move || {
            let moved = ByteSize::from_bytes(watch.moved.load(Ordering::Relaxed));
            let (done, all) = (&watch.done, &watch.snapshots);
            let (done, all) = (done.load(Ordering::Relaxed), all.load(Ordering::Relaxed));
            (format!("{done} of {all} subvolumes, {moved}"), None)
        });
        let cloned = clone.carry_out(|error, pause| {
            tell(&format!("{error}; trying again in {}", format_duration(pause)));
        });
        line.end();
        let cloned = cloned?;
        for warning in &cloned.warnings {
            tell(warning);
        }
        global.print(&cloned, || summary(&cloned, self.finish))
    }

    fn forget(&self, global: &Global) -> Result<(), Failure> {
        let connector = self.reach.connector(&[&self.from])?;
        let forget =
            |carry_out| clone::forget(&self.from, self.to.as_deref(), &connector, carry_out);
        let found = forget(false)?;
        let text = |word: &str| {
            let lines = found.deleted.iter().map(|path| format!("{word} {path}"));
            let staged = [format!("{word} the snapshots that are on their way")];
            lines.chain(staged).collect::<Vec<_>>().join("\n")
        };
        if self.consent.dry_run() {
            return global.print(&found, || text("would delete"));
        }
        self.consent.confirmed(|| {
            print_line(&text("delete"))?;
            confirm()
        })?;
        global.print(&forget(true)?, || text("deleted"))
    }

    fn system_clone(&self, to: PathBuf, watch: Arc<Watch>) -> Result<SystemClone, Failure> {
        let pair = |pair: &[PathBuf]| match pair {
            [old, new] => Some((old.clone(), new.clone())),
            _ => None,
        };
        Ok(SystemClone {
            from: self.from.clone(),
            connector: self.reach.connector(&[&self.from])?,
            retries: self.retries,
            to,
            root: self.root.clone(),
            skip: self.skip.clone(),
            beside: self.beside.chunks(2).filter_map(pair).collect(),
            boot_disk: self.boot_disk.clone(),
            finish: self.finish,
            options: SendOptions { limit: self.limit, watch, ..SendOptions::default() },
        })
    }
}

fn describe(plan: &Plan, finish: bool) -> String {
    let mut lines = vec![format!("filesystem {} -> {}", plan.from, plan.to)];
    lines.extend(plan.parts.iter().map(|part| {
        let path = part.path.to_string();
        let shown = if path.is_empty() { "(top level)" } else { &path };
        let role = match (part.path == plan.root, part.path == plan.default, part.read_only) {
            (true, _, _) => "  the system: fstab and boot files are rewritten here",
            (_, true, _) => "  default subvolume",
            (_, _, true) => "  read-only",
            _ => "",
        };
        format!("  {shown}{role}")
    }));
    lines.push(steps(plan, finish));
    lines.join("\n")
}

fn summary(cloned: &Cloned, finished: bool) -> String {
    let mut lines = vec![format!(
        "{} subvolumes, {} sent",
        cloned.plan.parts.len(),
        ByteSize::from_bytes(cloned.stream_bytes)
    )];
    lines.extend(cloned.rewritten.iter().map(|path| format!("  rewritten: {path}")));
    if !finished {
        lines.push(steps(&cloned.plan, false));
    }
    lines.join("\n")
}

fn steps(plan: &Plan, will_run: bool) -> String {
    if plan.boot.is_empty() {
        return "no boot tools were found in the system: nothing to run in it".to_owned();
    }
    let head = match will_run {
        true => "then, in the new system:",
        false => "to be run in the new system (--finish does it):",
    };
    let step = |step: &braid_replica::clone::BootStep| {
        format!("  {}  # {}", step.argv.join(" "), step.says)
    };
    std::iter::once(head.to_owned())
        .chain(plan.boot.iter().map(step))
        .collect::<Vec<_>>()
        .join("\n")
}
