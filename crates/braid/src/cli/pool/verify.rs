use super::bytes_line::BytesLine;
use super::reach::Reach;
use crate::cli::failure::{Failure, FailureKind, tell};
use crate::cli::{Global, JsonFlag};
use braid_replica::manifest::{Aspect, Difference};
use braid_replica::replicate::Place;
use braid_replica::verify::{self, Finding};
use braid_units::ByteSize;
use clap::Args;
use serde::Serialize;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Args)]
#[command(after_help = "\
Examples:
  braid pool verify /data/.snapshots/home.20261121T235646Z nas:/backup/home.20261121T235646Z
  braid pool verify /data/.snapshots nas:/backup  # every snapshot in the folder
  braid pool verify /data/.snapshots nas:/streams  # also where streams are stored
  braid pool verify /mnt/usb/streams  # stored streams by themselves

It compares type, contents (BLAKE3), mode, owner, modification time, extended
attributes, link targets and hard links. Exit code 1 if anything differs.")]
pub struct Verify {
    #[command(flatten)]
    _json: JsonFlag,
    /// A snapshot, a folder of snapshots, or any folder, on this computer
    original: Place,
    /// Its replica, here or elsewhere; without it, ORIGINAL (here or elsewhere) holds stored
    /// streams, which are compared with their own hashes
    #[arg(value_name = "REPLICA")]
    copy: Option<Place>,
    #[command(flatten)]
    reach: Reach,
}

#[derive(Serialize)]
struct Report {
    same: bool,
    compared: Vec<Finding>,
}

impl Verify {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let hashed = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&hashed);
        let line = BytesLine::start(move || {
            let bytes = ByteSize::from_bytes(counted.load(Ordering::Relaxed));
            (format!("{bytes} read"), None)
        });
        let compared = match (&self.original, &self.copy) {
            (Place::Local(original), Some(Place::Local(copy))) if is_same(original, copy) => {
                let text = format!("{} is the original itself: name a replica", copy.display());
                return Err(Failure::new(FailureKind::Usage, text));
            }
            (Place::Local(original), Some(copy)) => {
                let connector = self.reach.connector(&[copy])?;
                verify::verify(original, copy, &connector, &hashed)
            }
            (_, Some(_)) => {
                let text = "the original is on another computer: compare there, or name it second";
                return Err(Failure::new(FailureKind::Usage, text));
            }
            (stored, None) => {
                let connector = self.reach.connector(&[stored])?;
                verify::verify_stored(stored, &connector, &hashed)
            }
        };
        line.end();
        let compared = compared?;
        let differences = compared.iter().map(|one| one.differences.len()).sum::<usize>();
        let report = Report { same: differences == 0, compared };
        global
            .print(&report, || report.compared.iter().map(text).collect::<Vec<_>>().join("\n"))?;
        match differences {
            0 => Ok(()),
            1 => Err(Failure::failed("the replica differs in one place")),
            count => Err(Failure::failed(format!("the replica differs in {count} places"))),
        }
    }
}

/// Whether both are the same folder, whatever their names.
fn is_same(original: &Path, copy: &Path) -> bool {
    let of = |path: &Path| Some(fs::metadata(path).ok()?).map(|it| (it.dev(), it.ino()));
    of(original).is_some_and(|original| of(copy) == Some(original))
}

fn text(finding: &Finding) -> String {
    for nested in &finding.nested {
        tell(&format!("{nested} is a separate subvolume: not compared"));
    }
    let bytes = ByteSize::from_bytes(finding.bytes);
    let word = if finding.differences.is_empty() { "same as" } else { "differs from" };
    let head =
        format!("{} {word} {}: {} things, {bytes}", finding.original, finding.copy, finding.files);
    let lines = finding.differences.iter().map(difference);
    std::iter::once(head).chain(lines).collect::<Vec<_>>().join("\n")
}

fn difference(difference: &Difference) -> String {
    let words: Vec<&str> = difference.what.iter().map(|aspect| word(*aspect)).collect();
    let path = match difference.path.to_string() {
        top if top.is_empty() => ".".to_owned(),
        path => path,
    };
    format!("  {path}: {}", words.join(", "))
}

fn word(aspect: Aspect) -> &'static str {
    match aspect {
        Aspect::Missing => "missing in the replica",
        Aspect::Extra => "only in the replica",
        Aspect::Kind => "other type",
        Aspect::Content => "other contents",
        Aspect::Mode => "other mode",
        Aspect::Owner => "other owner",
        Aspect::Modified => "other time",
        Aspect::Xattrs => "other attributes",
        Aspect::HardLinks => "other hard links",
    }
}
