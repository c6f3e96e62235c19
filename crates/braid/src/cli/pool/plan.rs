use crate::cli::failure::{Failure, FailureKind};
use crate::cli::pool::seen::examine_named;
use crate::cli::status_table::columns;
use crate::cli::{Global, JsonFlag};
use braid_disks::{AskSmart, HostRoot, Inventory};
use braid_pool::disk::{Disk, Usability};
use braid_pool::growth::Growth;
use braid_pool::ranking::{Offer, Ranking, Wish, rank};
use braid_pool::speed::{SpeedSource, Speeds};
use braid_pool::wish::{Candidate, MIN_DISK_BYTES, Use, Want};
use braid_units::ByteSize;
use clap::Args;
use std::path::{Path, PathBuf};

#[derive(Args)]
#[command(
    after_help = "Examples:\n  braid pool plan --use nas --want safety /dev/sdb /dev/sdc /dev/sdd\n  braid pool plan --use media --want speed --disk 4T:hdd --disk 4T:hdd --disk 2T:ssd\n\nSizes: T is 10^12 bytes as sellers count, TiB is 2^40. Nothing is changed."
)]
pub struct Plan {
    #[command(flatten)]
    _json: JsonFlag,
    /// What the pool is for: nas, media, vm, database, scratch
    #[arg(long = "use", value_name = "USE", default_value = "nas")]
    for_use: Use,
    /// What matters most: balanced, speed, safety, space
    #[arg(long, default_value = "balanced")]
    want: Want,
    /// A disk not bought yet, such as 4T:hdd, 500G:ssd, 2TiB:nvme (repeat for each)
    #[arg(long = "disk", value_name = "SIZE:KIND")]
    imagined: Vec<Candidate>,
    /// Speeds measured by `braid pool bench`, used instead of the model
    #[arg(long, value_name = "FILE")]
    speeds: Option<PathBuf>,
    /// Disks or partitions of this host: path, link or serial number
    #[arg(value_name = "DISK")]
    disks: Vec<String>,
}

impl Plan {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let (mut candidates, mut notes) = (Vec::new(), Vec::new());
        if !self.disks.is_empty() {
            let mut inventory = Inventory::take(&HostRoot::real(), AskSmart::No);
            examine_named(&mut inventory, &self.disks)?;
            for name in &self.disks {
                let found = inventory.find(name);
                let disk = found.map_err(|error| Failure::failed(error.to_string()))?;
                if candidates.iter().any(|other: &Candidate| other.name == disk.path) {
                    let message = format!("{name} is {}, which is named already", disk.path);
                    return Err(Failure::new(FailureKind::Usage, message));
                }
                notes.extend(note_on(disk)?);
                candidates.push(Candidate::from(disk));
            }
        }
        candidates.extend(self.imagined.iter().cloned());
        if candidates.is_empty() {
            let message = "name disks of this host, or disks not bought yet: --disk 4T:hdd";
            return Err(Failure::new(FailureKind::Usage, message));
        }
        let speeds = self.speeds.as_deref().map(read_speeds).transpose()?.unwrap_or_default();
        let wish = Wish { for_use: self.for_use, want: self.want };
        let mut ranking = rank(wish, &candidates, &speeds);
        ranking.notes.splice(0..0, notes);
        global.print(&ranking, || render(&ranking))
    }
}

/// What the user must know before this disk is used; an error if that can't be determined.
fn note_on(disk: &Disk) -> Result<Option<String>, Failure> {
    if disk.size_bytes < MIN_DISK_BYTES {
        let message = format!("{} has less than 100 MB, too little for a pool", disk.path);
        return Err(Failure::failed(message));
    }
    // Planning is possible without access to the disk; `create` refuses.
    if let Some(unseen) = disk.unseen() {
        return Ok(Some(format!("{}: {unseen}", disk.path)));
    }
    match disk.usability() {
        Usability::Free => Ok(None),
        Usability::AfterErase { why } => Ok(Some(format!(
            "{} carries {why}; `create` will not touch it without --erase {}",
            disk.path,
            disk.id()
        ))),
        Usability::No { why } => {
            Err(Failure::failed(format!("{} can't be used: {why}", disk.path)))
        }
    }
}

fn read_speeds(file: &Path) -> Result<Speeds, Failure> {
    let name = file.display();
    let text = std::fs::read_to_string(file)
        .map_err(|error| Failure::io(&format!("reading {name}"), &error))?;
    let wrong = |line: usize, what: String| {
        let message = format!("{name}:{line}: {what}; `braid pool bench` writes such files");
        Failure::new(FailureKind::Config, message)
    };
    let speeds: Speeds =
        serde_json::from_str(&text).map_err(|error| wrong(error.line(), error.to_string()))?;
    speeds.check().map_err(|error| wrong(1, error.to_string()))?;
    Ok(speeds)
}

const HEAD: [&str; 12] = [
    "LAYOUT",
    "USABLE",
    "FILL",
    "UNUSED PER DISK",
    "LOSSES",
    "READ 1",
    "READ MANY",
    "WRITE",
    "RANDOM R/W",
    "REBUILD",
    "GROWS",
    "SPEEDS",
];

fn render(ranking: &Ranking) -> String {
    let mut rows = vec![HEAD.map(str::to_owned).to_vec()];
    rows.extend(ranking.layouts.iter().map(row));
    let mut lines = columns(&rows);
    lines.push(String::new());
    lines.push(
        "USABLE: before metadata; FILL: what large files get. LOSSES: disks that may fail, data/metadata (+ what else may be survived). Speeds per second."
            .to_owned(),
    );
    lines.push(String::new());
    lines.extend(ranking.layouts.iter().map(|offer| format!("{}: {}", offer.layout, offer.why)));
    for one in &ranking.impossible {
        lines.push(format!("{}: not possible, {}", one.layout, one.why));
    }
    if !ranking.notes.is_empty() {
        lines.push(String::new());
        lines.extend(ranking.notes.iter().map(|note| format!("note: {note}")));
    }
    lines.join("\n")
}

fn row(offer: &Offer) -> Vec<String> {
    let bytes = |bytes: u64| ByteSize::from_bytes(bytes).to_string();
    let unused: Vec<String> = offer
        .wasted_bytes
        .iter()
        .map(|wasted| if *wasted == 0 { "0".to_owned() } else { bytes(*wasted) })
        .collect();
    let speed = &offer.speed;
    vec![
        offer.layout.to_string(),
        bytes(offer.usable_bytes),
        bytes(offer.fill_bytes),
        if offer.wasted_bytes.iter().all(|wasted| *wasted == 0) {
            "-".to_owned()
        } else {
            unused.join(" ")
        },
        losses(offer),
        bytes(speed.read_one),
        bytes(speed.read_many),
        bytes(speed.write),
        format!("{}/{}", count(speed.random_read), count(speed.random_write)),
        speed.rebuild_seconds.map_or("-".to_owned(), hours),
        match offer.growth {
            Growth::AnyDisk => "any disk",
            Growth::Reshape => "reshape",
            Growth::CopiesOnly => "copies only",
            Growth::Never => "never",
        }
        .to_owned(),
        match speed.speeds_from {
            SpeedSource::Model => "model",
            SpeedSource::ModelOfMeasuredDisks => "model of measured disks",
            SpeedSource::Measured => "measured",
        }
        .to_owned(),
    ]
}

fn losses(offer: &Offer) -> String {
    let sure = format!("{}/{}", offer.losses_survived, offer.metadata_losses_survived);
    match offer.losses_maybe_survived.saturating_sub(offer.losses_survived) {
        0 => sure,
        more => format!("{sure} (+{more})"),
    }
}

fn count(per_second: u64) -> String {
    match per_second {
        n if n >= 10_000 => format!("{}k", n / 1000),
        n => n.to_string(),
    }
}

fn hours(seconds: u64) -> String {
    match seconds {
        s if s >= 36_000 => format!("{}h", s / 3600),
        s if s >= 3600 => format!("{:.1}h", s as f64 / 3600.0),
        s => format!("{}min", s.div_ceil(60)),
    }
}
