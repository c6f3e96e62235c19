use super::bytes_line::BytesLine;
use crate::cli::confirm::confirm;
use crate::cli::failure::{Failure, print_line, tell};
use crate::cli::{Global, JsonFlag};
use braid_replica::clone::{Cloned, Plan, SystemClone};
use braid_replica::source::{Manner, Watch};
use braid_units::{ByteSize, Rate};
use clap::Args;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

#[derive(Args)]
#[command(after_help = "\
Examples:
  braid pool clone / /mnt/new --dry-run
  braid pool clone / /mnt/new --esp /boot/efi /mnt/new-esp --finish
  braid pool clone / /mnt/new --skip @/var/lib/docker --yes

The new filesystem is an empty btrfs with its own UUID (`braid pool create`),
mounted anywhere. All subvolumes go over with what they share; the default
subvolume, etc/fstab and the boot loader's files then name the new filesystem.
The old system isn't changed. Interrupted, the same command goes on.")]
pub struct Clone {
    #[command(flatten)]
    _json: JsonFlag,
    /// Any path on the old filesystem
    from: PathBuf,
    /// Where the new filesystem is mounted
    to: PathBuf,
    /// The subvolume with the system, if not the default one, @ or root
    #[arg(long, value_name = "SUBVOLUME")]
    root: Option<PathBuf>,
    /// Leave this subvolume behind, and all below it
    #[arg(long, value_name = "SUBVOLUME")]
    skip: Vec<PathBuf>,
    /// Copy the EFI system partition too: where the old and the new are mounted
    #[arg(long, num_args = 2, value_names = ["OLD", "NEW"])]
    esp: Vec<PathBuf>,
    /// Run the boot steps (initramfs, boot loader, boot menu) in the new system
    #[arg(long)]
    finish: bool,
    /// Copy at most so fast
    #[arg(long, value_name = "RATE")]
    limit: Option<Rate>,
    /// Only show what would be done
    #[arg(long)]
    dry_run: bool,
    /// Don't ask
    #[arg(short, long)]
    yes: bool,
}

impl Clone {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let watch = Arc::new(Watch::default());
        let clone = SystemClone {
            from: self.from.clone(),
            to: self.to.clone(),
            root: self.root.clone(),
            skip: self.skip.clone(),
            esp: match self.esp.as_slice() {
                [old, new] => Some((old.clone(), new.clone())),
                _ => None,
            },
            manner: Manner { limit: self.limit, estimate: false, watch: Arc::clone(&watch) },
        };
        let plan = clone.plan()?;
        if self.dry_run {
            return global.print(&plan, || describe(&plan, self.finish));
        }
        if !self.yes {
            print_line(&describe(&plan, self.finish))?;
            confirm()?;
        }
        let line = BytesLine::start(move || {
            let moved = ByteSize::from_bytes(watch.moved.load(Ordering::Relaxed));
            let done = watch.done.load(Ordering::Relaxed);
            (
                format!(
                    "{done} of {} subvolumes, {moved}",
                    watch.snapshots.load(Ordering::Relaxed)
                ),
                None,
            )
        });
        let cloned = clone.carry_out();
        line.end();
        let cloned = cloned?;
        for warning in &cloned.warnings {
            tell(warning);
        }
        if self.finish {
            clone.finish(&cloned.plan)?;
        }
        global.print(&cloned, || summary(&cloned, self.finish))
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
        false => "to be run in the new system (--finish does):",
    };
    let step = |step: &braid_replica::clone::BootStep| {
        format!("  {}  # {}", step.argv.join(" "), step.says)
    };
    std::iter::once(head.to_owned())
        .chain(plan.boot.iter().map(step))
        .collect::<Vec<_>>()
        .join("\n")
}
