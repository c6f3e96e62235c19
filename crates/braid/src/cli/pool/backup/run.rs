use super::access::{self, Access};
use super::lock;
use crate::cli::Global;
use crate::cli::failure::{Failure, FailureKind, print_line, tell};
use crate::cli::pool::told;
use crate::cli::pool::watch_memory::DEFAULT as DEFAULT_WATCH;
use braid_backup::records::{Locking, Source};
use braid_backup::{Backup, Error, Finished, From, Ground, Target, short_id};
use braid_pool::upkeep::LockSpan;
use braid_units::{ByteSize, format_duration};
use clap::Args;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

/// The command without a subcommand.
#[derive(Args)]
pub struct Run {
    /// The folder to back up: a btrfs subvolume from a snapshot, anything else live
    #[arg(value_name = "PATH", required = true)]
    path: Option<PathBuf>,
    /// Where to
    #[arg(value_name = "TARGET", required = true, value_parser = access::target)]
    target: Option<Target>,
    /// Take no snapshot, even if the filesystem can
    #[arg(long)]
    live: bool,
    /// Show what would be sent without sending it
    #[arg(long)]
    dry_run: bool,
    /// Lock all that the backups there need for this many days, as `braid pool backup lock`
    /// [default: as the last time]
    #[arg(long, value_name = "DAYS")]
    lock: Option<LockSpan>,
    #[command(flatten)]
    access: Access,
}

impl Run {
    pub fn run(&self, global: &Global) -> Result<ExitCode, Failure> {
        // Both are required, except with subcommands, which have their own.
        let (Some(path), Some(target)) = (&self.path, &self.target) else {
            let text = "name what to back up (PATH) and where to (TARGET)";
            return Err(Failure::new(FailureKind::Usage, text));
        };
        let (_held, records, mut record) = self.access.hold(target)?;
        let lock = self.lock.or(record.lock.as_ref().and_then(Locking::span));
        let (vault, watch) = self.access.open_locking(target, lock)?;
        if self.lock.is_some() {
            vault.check_lock()?;
        }
        let ground = Ground::prepare(path, self.live, SystemTime::now())?;
        ground.refuse_itself(target)?;
        tell_left_out(&ground);
        let resumed = record.is_cut_off();
        let began = access::now();
        if !self.dry_run {
            record.source(&ground.path).begun_s = Some(began.as_secs());
            record.key = Some(self.access.key_file());
            // The backup matters more than the record.
            if let Err(error) = records.keep(&record) {
                tell(&format!("can't record that the backup has begun: {error}"));
            }
        }
        let line = access::line(watch);
        let outcome =
            Backup { vault: &vault, ground: &ground, resumed, dry_run: self.dry_run }.run();
        line.end();
        if self.dry_run {
            let finished = outcome?;
            global.print(&finished, || would_be(&finished))?;
            return Ok(ExitCode::SUCCESS);
        }
        note(record.source(&ground.path), began, &outcome);
        // The backup exists, even if locking it fails.
        let locked = match (&outcome, lock) {
            (Ok(_), Some(span)) => Some(lock::prolong(&vault, span, &records, &mut record)),
            _ => None,
        };
        let failure = match (&outcome, &locked) {
            (Err(error), _) => Some(error.to_string()),
            (Ok(finished), Some(Err(error))) => {
                Some(incomplete(finished).unwrap_or_else(|| not_locked(error)))
            }
            (Ok(finished), _) => incomplete(finished),
        };
        let kept = records.keep(&record);
        // Whoever watches the terminal sees it anyway.
        if !std::io::stderr().is_terminal() {
            let path = ground.path.display().to_string();
            let event = told::of_backup(&path, &target.shown(), failure.as_deref());
            let folder = Path::new(DEFAULT_WATCH).parent().unwrap_or(Path::new(""));
            told::tell_events(global, folder, &[event]);
        }
        let finished = outcome.map_err(|error| ended(error, target))?;
        global.print(&finished, || text(&finished, target))?;
        self.tell_lacking(&finished, target);
        match locked {
            Some(Ok(locked)) if !global.json => print_line(&lock::text(&locked, "are"))?,
            Some(Err(error)) => return Err(Failure::failed(not_locked(&error))),
            _ => {}
        }
        access::noted(kept)?;
        Ok(match finished.left_out.unreadable_count {
            0 => ExitCode::SUCCESS,
            _ => ExitCode::FAILURE,
        })
    }

    /// Reports what couldn't be read here, and what the target had lost.
    fn tell_lacking(&self, finished: &Finished, target: &Target) {
        for line in &finished.left_out.unreadable {
            tell(line);
        }
        if finished.lost_packs > 0 {
            tell(&format!(
                "the target had lost {}: what still exists here of their contents was sent again, \
                 and older backups may lack the rest (`braid pool backup check {}`); find out what \
                 deletes files there",
                access::counted(finished.lost_packs as u64, "pack"),
                self.access.typed(target)
            ));
        }
    }
}

fn tell_left_out(ground: &Ground) {
    for inside in &ground.without {
        tell(&format!(
            "{} is a separate subvolume and left out: back it up separately",
            inside.display()
        ));
    }
}

/// Records the outcome of the backup started at `began`, since the Unix epoch.
fn note(source: &mut Source, began: Duration, outcome: &Result<Finished, Error>) {
    match outcome {
        Ok(finished) => {
            source.gap_s = source.done_s.map(|before| began.as_secs().saturating_sub(before));
            source.begun_s = None;
            source.done_s = Some(began.as_secs());
            source.snapshot.clone_from(&finished.snapshot);
            source.unreadable = finished.left_out.unreadable_count;
            source.failed = None;
        }
        Err(error) => source.failed = Some(error.to_string()),
    }
}

fn ended(error: Error, target: &Target) -> Failure {
    match error {
        Error::Interrupted => Failure::failed(format!(
            "interrupted: nothing at {target} is harmed; repeat the command to continue with what \
             has arrived"
        )),
        other => other.into(),
    }
}

fn not_locked(error: &Error) -> String {
    format!(
        "the backup is made, but not everything it needs is locked for as long as it should be: \
         {error}"
    )
}

fn incomplete(finished: &Finished) -> Option<String> {
    let count = finished.left_out.unreadable_count;
    (count > 0).then(|| format!("{} could not be read", access::counted(count as u64, "file")))
}

fn text(finished: &Finished, target: &Target) -> String {
    let [bytes, new, stored] =
        [finished.bytes, finished.new_bytes, finished.stored_bytes].map(ByteSize::from_bytes);
    let from = match &finished.from {
        From::Snapshot => "from a snapshot".to_owned(),
        From::ReadOnly => "read-only".to_owned(),
        From::Live(why) => {
            format!("live ({why}): files that changed meanwhile may be inconsistent")
        }
    };
    let id = finished.snapshot.as_deref().unwrap_or_default();
    let id = short_id(id);
    let mut text = format!(
        "{} is at {target} as {id}: {}, {bytes}, {from}; {new} of it new, stored in {stored}, in {}",
        finished.path.display(),
        access::counted(finished.files, "file"),
        format_duration(Duration::from_millis((finished.seconds * 1e3) as u64)),
    );
    if let Some(why) = incomplete(finished) {
        text.push_str(&format!("\nINCOMPLETE: {why}"));
    }
    text
}

fn would_be(finished: &Finished) -> String {
    let new = ByteSize::from_bytes(finished.new_bytes);
    format!(
        "of {} in {} {} new or changed; {new} would be sent, before they are compressed",
        access::counted(finished.files, "file"),
        finished.path.display(),
        finished.changed_files
    )
}
