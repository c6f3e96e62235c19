use crate::cli::failure::{Failure, tell};
use crate::cli::status_table::columns;
use crate::cli::{Global, JsonFlag};
use braid_disks::{AskSmart, HostRoot, Inventory};
use braid_pool::disk::{Disk, DiskId, Health, Usability};
use braid_units::ByteSize;
use clap::Args;
use serde::Serialize;

#[derive(Args)]
#[command(
    after_help = "Examples:\n  braid pool disks\n  braid pool disks --json | jq -r '.disks[] | select(.usability.usable == \"free\") | .path'"
)]
pub struct Disks {
    #[command(flatten)]
    _json: JsonFlag,
    /// Skip the disks' own health reports (SMART), which take a while
    #[arg(long)]
    no_smart: bool,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Listing<'a> {
    disks: Vec<Entry<'a>>,
    /// What couldn't be determined.
    notes: &'a [String],
}

#[derive(Serialize)]
struct Entry<'a> {
    /// The value to give to `--erase`.
    id: DiskId,
    #[serde(flatten)]
    disk: &'a Disk,
    usability: Usability,
}

impl Disks {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let ask_smart = if self.no_smart { AskSmart::No } else { AskSmart::Yes };
        let mut inventory = Inventory::take(&HostRoot::real(), ask_smart);
        inventory.examine(|_| true);
        if !global.json {
            inventory.notes.iter().for_each(|note| tell(note));
        }
        let entry = |disk| Entry { id: Disk::id(disk), usability: Disk::usability(disk), disk };
        let listing =
            Listing { disks: inventory.disks.iter().map(entry).collect(), notes: &inventory.notes };
        global.print(&listing, || table(&inventory.disks))
    }
}

const HEAD: [&str; 7] = ["DISK", "SIZE", "KIND", "MODEL", "SERIAL OR ID", "HEALTH", "USE"];

fn table(disks: &[Disk]) -> String {
    if disks.is_empty() {
        return "no disks".to_owned();
    }
    let mut rows = vec![HEAD.map(str::to_owned).to_vec()];
    rows.extend(disks.iter().map(row));
    columns(&rows).join("\n")
}

fn row(disk: &Disk) -> Vec<String> {
    let is_part = disk.partition.is_some();
    let of_whole = |text: String| if is_part { String::new() } else { text };
    vec![
        format!("{}{}", if is_part { "  " } else { "" }, disk.path),
        ByteSize::from_bytes(disk.size_bytes).to_string(),
        of_whole(disk.kind.to_string()),
        of_whole(disk.identity.model.clone().unwrap_or_else(|| "-".to_owned())),
        disk.id().to_string(),
        of_whole(health(&disk.health)),
        usability(&disk.usability()),
    ]
}

fn health(health: &Health) -> String {
    match health {
        Health::Good => "good".to_owned(),
        Health::Doubtful { why } => format!("doubtful: {why}"),
        Health::Failing { why } => format!("FAILING: {why}"),
        Health::Unknown => "-".to_owned(),
    }
}

fn usability(usability: &Usability) -> String {
    match usability {
        Usability::Free => "free".to_owned(),
        Usability::AfterErase { why } => format!("only with --erase: {why}"),
        Usability::No { why } => format!("no: {why}"),
    }
}
