use crate::cli::failure::{Failure, tell};
use crate::cli::status_table::columns;
use crate::cli::{Global, JsonFlag};
use braid_replica::exact_path::ExactPath;
use braid_replica::snapshot::{self, Present};
use braid_replica::timestamp;
use clap::Args;
use serde::Serialize;
use std::path::PathBuf;
use std::time::SystemTime;

#[derive(Args)]
#[command(after_help = "\
Examples:
  braid pool snapshot --into /data/.snapshots /data/home '/data/my photos'
  braid pool snapshot --into /data/.snapshots --list

Several subvolumes are taken one after the other: each snapshot is of one
instant, but not all of the same. Keep data that belongs together (a database and its log) in one \
subvolume.")]
pub struct Snapshot {
    #[command(flatten)]
    _json: JsonFlag,
    /// The folder for the snapshots, on the same filesystem
    #[arg(long, value_name = "FOLDER")]
    into: PathBuf,
    /// List the snapshots in the folder instead
    #[arg(long, conflicts_with_all = ["subvolumes", "dry_run"])]
    list: bool,
    /// Show what would be taken without taking it
    #[arg(long)]
    dry_run: bool,
    /// The subvolumes
    #[arg(required_unless_present = "list", value_name = "SUBVOLUME")]
    subvolumes: Vec<PathBuf>,
}

#[derive(Serialize)]
struct Report {
    taken: bool,
    snapshots: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    subvolume: ExactPath,
    snapshot: ExactPath,
}

#[derive(Serialize)]
struct Listing {
    snapshots: Vec<Present>,
}

impl Snapshot {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        if self.list {
            let listing = Listing { snapshots: snapshot::list(&self.into)? };
            return global.print(&listing, || table(&listing.snapshots));
        }
        let intended = snapshot::intend(&self.subvolumes, &self.into, SystemTime::now())?;
        if !self.into.exists() {
            // A mistyped name would be a place where nobody looks.
            let word = if self.dry_run { "would be" } else { "is" };
            let folder = ExactPath::from(self.into.as_path());
            tell(&format!("{folder} doesn't exist yet: it {word} made"));
        }
        if !self.dry_run {
            snapshot::take(&intended, &self.into)?;
        }
        let row = |one: &snapshot::Intended| Row {
            subvolume: one.subvolume.clone().into(),
            snapshot: one.snapshot.clone().into(),
        };
        let report = Report { taken: !self.dry_run, snapshots: intended.iter().map(row).collect() };
        if intended.len() > 1 && !global.json {
            tell("each snapshot is of one instant, but not all of the same");
        }
        global.print(&report, || {
            let line = |row: &Row| format!("{} -> {}", row.subvolume, row.snapshot);
            report.snapshots.iter().map(line).collect::<Vec<_>>().join("\n")
        })
    }
}

/// What is known here; a target may also have older snapshots than its newest.
fn replicas(one: &Present) -> String {
    let is_one = one.received_uuid.map(|_| "is one".to_owned());
    let known: Vec<String> = is_one.into_iter().chain(one.replicas.iter().cloned()).collect();
    if known.is_empty() { "-".to_owned() } else { known.join(", ") }
}

fn table(snapshots: &[Present]) -> String {
    if snapshots.is_empty() {
        return "no snapshots".to_owned();
    }
    let mut rows = vec![["NAME", "TAKEN", "REPLICAS"].map(str::to_owned).to_vec()];
    rows.extend(snapshots.iter().map(|one| {
        vec![
            one.name.to_string(),
            timestamp::shown(SystemTime::UNIX_EPOCH + one.taken),
            replicas(one),
        ]
    }));
    columns(&rows).join("\n")
}
