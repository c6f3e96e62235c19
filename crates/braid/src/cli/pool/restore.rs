use crate::cli::failure::Failure;
use crate::cli::{Global, JsonFlag};
use braid_replica::restore::{Method, Restoration};
use clap::Args;
use std::path::PathBuf;
use std::time::SystemTime;

#[derive(Args)]
#[command(after_help = "\
Examples:
  braid pool restore /data/.snapshots/home.20261121T235646Z --to /data/home-restored
  braid pool restore /data/.snapshots/home.20261121T235646Z/me/letter.txt --to /data/home/me/letter.txt
  braid pool restore /data/.snapshots/home.20261121T235646Z --to /data/home --replace

A whole snapshot is restored as a writable subvolume: instantly on its own filesystem, by copying \
on another btrfs. On other filesystems it becomes a plain copy. Nothing is ever overwritten: \
--replace moves existing files aside.")]
pub struct Restore {
    #[command(flatten)]
    _json: JsonFlag,
    /// A snapshot, or a file or folder inside one
    from: PathBuf,
    /// Where to restore it to
    #[arg(long, value_name = "PATH")]
    to: PathBuf,
    /// Move an existing file or folder aside
    #[arg(long)]
    replace: bool,
    /// Show what would be done without doing it
    #[arg(long)]
    dry_run: bool,
}

impl Restore {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let restoration =
            Restoration { from: self.from.clone(), to: self.to.clone(), replace: self.replace };
        let now = SystemTime::now();
        let restored = match self.dry_run {
            true => restoration.plan(now)?,
            false => restoration.carry_out(now)?,
        };
        global.print(&restored, || {
            let way = match restored.method {
                Method::Subvolume => "a writable subvolume",
                Method::Streams => "a writable subvolume, made of stored streams",
                Method::CopiedSubvolume => "a writable subvolume, with a copy in it",
                Method::Copy => "a copy",
            };
            let word = if self.dry_run { "would be" } else { "is" };
            let aside = match &restored.moved_aside {
                Some(aside) => format!("\nwhat was there {word} now {aside}"),
                None => String::new(),
            };
            format!("{} {word} {way}{aside}", restored.to)
        })
    }
}
