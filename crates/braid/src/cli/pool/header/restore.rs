use crate::cli::Global;
use crate::cli::confirm::confirm;
use crate::cli::failure::{Failure, tell};
use crate::cli::pool::carry_out::Consent;
use crate::cli::pool::encrypt::headers;
use crate::cli::pool::seen::Seen;
use crate::cli::pool::volumes::{run, usage};
use braid_disks::superblock::luks::{self, LuksSuper};
use braid_pool::disk::{Content, Disk};
use braid_pool::luks::pool_of_label;
use clap::Args;
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};

#[derive(Args)]
#[command(
    after_help = "Examples:\n  braid pool header restore data /dev/sdb\n  braid pool header restore data /dev/sdb --from /media/stick/3f2a91bc-….luks\n\nThe disk then has the keys that it had when the backup was made. A disk with anything else on it than the damaged header is refused."
)]
pub struct Restore {
    #[command(flatten)]
    consent: Consent,
    /// The pool's name
    name: String,
    /// The disk whose header is damaged: path, link or serial number
    disk: String,
    /// The backup, if not the one that Braid keeps
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
}

impl Restore {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let seen = Seen::now(&self.consent.place.config());
        let disk = seen.inventory.find(&self.disk)?;
        let (file, kept) = self.backup(&seen, disk)?;
        if let Some(label) = kept.label.as_deref().and_then(pool_of_label)
            && label != self.name
        {
            return Err(usage(format!("{} belongs to pool {label}", file.display())));
        }
        check(&seen, disk, &kept)?;
        let (path, from) = (disk.path.clone(), file.display().to_string());
        let what = format!("overwrite the LUKS header of {path} (16 MiB) with {from}");
        if self.consent.dry_run() {
            return global.print(&json!({ "disk": path, "from": from, "done": false }), || what);
        }
        self.consent.confirmed(|| {
            tell(&what);
            confirm()
        })?;
        let args = ["luksHeaderRestore", "--batch-mode", "--header-backup-file", &from, &path];
        run("cryptsetup", &args)?;
        let now = luks::read(Path::new(&path)).ok().flatten();
        if now.is_none_or(|now| now.fingerprint != kept.fingerprint) {
            return Err(Failure::failed(format!("the header on {path} still differs from {from}")));
        }
        global.print(&json!({ "disk": path, "from": from, "done": true }), || {
            format!("the header of {path} is restored: `braid pool open {}` opens it", self.name)
        })
    }

    /// The backup of this disk's header, found by what is left of the header or by what the kernel
    /// has open; otherwise the only backup whose volume is on no disk.
    fn backup(&self, seen: &Seen, disk: &Disk) -> Result<(PathBuf, LuksSuper), Failure> {
        if let Some(file) = &self.from {
            return Ok((file.clone(), read(file)?));
        }
        let folder = PathBuf::from(headers(&self.consent.place, &self.name)?);
        let left = seen.host.luks.iter().find(|volume| volume.path == disk.path);
        let mut found = Vec::new();
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let file = entry.path();
            if file.extension().is_none_or(|kind| kind != "luks") {
                continue;
            }
            let kept = read(&file)?;
            let is_it = match left {
                Some(volume) => volume.uuid == kept.uuid,
                None => !seen.host.luks.iter().any(|volume| volume.uuid == kept.uuid),
            };
            if is_it {
                found.push((file, kept));
            }
        }
        let mut found = found.into_iter();
        match (found.next(), found.next()) {
            (Some(one), None) => Ok(one),
            (None, _) => Err(Failure::failed(format!(
                "{} has no backup of this disk's header; name one with --from",
                folder.display()
            ))),
            (Some(_), Some(_)) => Err(usage(format!(
                "several backups in {} match no disk here: name the right one with --from",
                folder.display()
            ))),
        }
    }
}

fn read(file: &Path) -> Result<LuksSuper, Failure> {
    let found = luks::read(file)
        .map_err(|error| Failure::io(&format!("reading {}", file.display()), &error))?;
    found.ok_or_else(|| Failure::failed(format!("{} is no LUKS header", file.display())))
}

/// Checks that the disk contains nothing except the damaged header's volume, and that it is in use
/// only by the volume that the backup belongs to.
fn check(seen: &Seen, disk: &Disk, kept: &LuksSuper) -> Result<(), Failure> {
    let open = seen.inventory.disks.iter().filter_map(|each| each.mapping.as_ref());
    let is_open_by_it = open.clone().any(|open| open.over == disk.path && open.volume == kept.uuid);
    let is_its = |content: &&Content| match content {
        Content::Filesystem { kind, uuid: Some(uuid), .. } => {
            kind == "crypto_LUKS" && uuid.parse() == Ok(kept.uuid)
        }
        Content::Unknown { .. } => true,
        content => content.is_in_use() && is_open_by_it,
    };
    match disk.contents.iter().find(|content| !is_its(content)) {
        None => Ok(()),
        Some(other) => Err(Failure::failed(format!(
            "{} contains something other than that header: {other}",
            disk.path
        ))),
    }
}
