use crate::cli::JsonFlag;
use crate::cli::failure::{Failure, FailureKind, tell};
use crate::cli::pool::bytes_line::BytesLine;
use crate::cli::pool::carry_out;
use crate::cli::progress_wanted;
use braid_backup::key::{self, Key};
use braid_backup::records::{Held, Record, Records};
use braid_backup::secrets::Secrets;
use braid_backup::target::TargetError;
use braid_backup::{Error, Target, TargetOptions, Vault, Watch, short_id};
use braid_pool::step::quoted;
use braid_pool::upkeep::{LockSpan, rate_limit};
use braid_units::{ByteSize, Rate};
use clap::Args;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How a target is reached and opened.
#[derive(Args)]
pub struct Access {
    #[command(flatten)]
    _json: JsonFlag,
    /// File with the key
    #[arg(long, value_name = "FILE", default_value = key::DEFAULT)]
    pub key: PathBuf,
    /// File with the server's credentials, as NAME=VALUE lines [default: /etc/braid/backup.env]
    #[arg(long, value_name = "FILE")]
    credentials: Option<PathBuf>,
    /// Limit the rate to and from the target
    #[arg(long, value_name = "RATE", value_parser = rate_limit)]
    limit: Option<Rate>,
    /// Try again at most this many times in a row; 0 for never
    #[arg(long, default_value_t = 20, value_name = "N")]
    retries: u32,
    /// Files sent at a time
    #[arg(long, default_value_t = 4, value_name = "N", hide_short_help = true)]
    connections: u16,
    /// Command whose standard streams are an SFTP server, instead of ssh
    #[arg(long, value_name = "COMMAND", hide_short_help = true)]
    sftp_command: Option<String>,
    /// Wait for another command that uses the target, instead of failing
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    place: carry_out::StateFolders,
}

impl Access {
    pub fn target_options(&self) -> TargetOptions {
        TargetOptions {
            limit: self.limit,
            retries: self.retries,
            connections: usize::from(self.connections),
            sftp_command: self.sftp_command.clone(),
            cache: Some(self.place.state().backups().join("cache")),
            tell,
            watch: match progress_wanted::is_wanted() {
                true => Watch::watched(),
                false => Watch::default(),
            },
            ..TargetOptions::new(Secrets::at(self.credentials.as_deref()))
        }
    }

    pub fn key(&self) -> Result<Key, Failure> {
        Ok(Key::read(&self.key)?)
    }

    /// Opens a target.
    pub fn open(&self, target: &Target) -> Result<(Vault, Watch), Failure> {
        self.open_by(target, self.target_options())
    }

    /// Opens a target for a long operation, which ends in good order when the user stops it.
    pub fn open_until_stopped(&self, target: &Target) -> Result<(Vault, Watch), Failure> {
        self.open_by(target, TargetOptions { stop: stop_flag()?, ..self.target_options() })
    }

    /// Like [`Access::open_until_stopped`], and locks what is written.
    pub fn open_locking(
        &self,
        target: &Target,
        lock: Option<LockSpan>,
    ) -> Result<(Vault, Watch), Failure> {
        self.open_by(target, TargetOptions { stop: stop_flag()?, lock, ..self.target_options() })
    }

    fn open_by(
        &self,
        target: &Target,
        mut target_options: TargetOptions,
    ) -> Result<(Vault, Watch), Failure> {
        target_options.is_known = self.had_backups(target)?;
        // This includes what forgetting rewrites.
        target_options.lock = match target_options.lock {
            None => self.records().of(target, now())?.lock.and_then(|lock| lock.span()),
            given => given,
        };
        let watch = target_options.watch.clone();
        match Vault::open(target.clone(), self.key()?, target_options) {
            Err(Error::Empty(_)) if self.had_backups(target)? => Err(gone(target)),
            other => Ok((other?, watch)),
        }
    }

    /// The key's file, whichever way it was specified.
    pub fn key_file(&self) -> PathBuf {
        std::path::absolute(&self.key).unwrap_or_else(|_| self.key.clone())
    }

    /// Refuses to replace a key that opens backups: they would be lost before anybody noticed.
    pub fn refuse_to_replace_key(&self) -> Result<(), Failure> {
        let file = self.key_file();
        let (records, _) = self.records().all()?;
        let needs_it = |record: &&Record| {
            let has_backups = record.sources.values().any(|source| source.done_s.is_some());
            let key = record.key.as_deref().unwrap_or(Path::new(key::DEFAULT));
            has_backups && key == file
        };
        match records.iter().find(needs_it) {
            None => Ok(()),
            Some(record) => Err(Failure::failed(format!(
                "the key {} is gone, and the backups at {} need it: write the line of their \
                 recovery sheet into it (mode 600); a new key is for another file (--key)",
                file.display(),
                record.target
            ))),
        }
    }

    /// Whether this computer made backups there.
    pub fn had_backups(&self, target: &Target) -> Result<bool, Failure> {
        let record = self.records().of(target, now())?;
        Ok(record.sources.values().any(|source| source.done_s.is_some()))
    }

    pub fn records(&self) -> Records {
        Records::new(self.place.state().backups())
    }

    /// A target as typed in a command, preceded by the key's file if that isn't the default.
    pub fn typed(&self, target: &Target) -> String {
        let target = quoted(&target.shown());
        match self.key == Path::new(key::DEFAULT) {
            true => target,
            false => format!("--key {} {target}", quoted(&self.key.display().to_string())),
        }
    }

    /// Locks the target against other commands, and reads what is known about it.
    pub fn hold(&self, target: &Target) -> Result<(Held, Records, Record), Failure> {
        let records = self.records();
        let held = records.hold(target, self.wait)?;
        let record = records.of(target, now())?;
        Ok((held, records, record))
    }
}

/// To be called after the result was shown: failing to record it doesn't change the result.
pub fn noted(kept: Result<(), Error>) -> Result<(), Failure> {
    kept.map_err(|error| {
        Failure::failed(format!(
            "done, but it can't be recorded for the doctor and the next run: {error}"
        ))
    })
}

/// A flag that is set when the user presses Ctrl-C or systemd stops the service. The second time
/// the process ends at once, which is harmless, too.
fn stop_flag() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for (signal, status) in [(SIGINT, 130), (SIGTERM, 143)] {
        flag::register_conditional_shutdown(signal, status, Arc::clone(&stop))
            .and_then(|_| flag::register(signal, Arc::clone(&stop)))
            .map_err(|error| Failure::io("listening for signals", &error))?;
    }
    Ok(stop)
}

/// The error if a disk isn't mounted: nothing must be created in its mount point.
pub fn gone(target: &Target) -> Failure {
    let leave = format!("braid pool backup leave {}", quoted(&target.shown()));
    Failure::failed(format!(
        "{target} holds no backups, though this computer has made some there: is its disk mounted? \
         If they are gone for good, `{leave}`, then `init` begins anew"
    ))
}

/// Adds to the error that several paths are backed up what to type for each; `command` builds that
/// from a backup and its path.
pub fn which_path(error: Error, command: impl Fn(&str, &str) -> String) -> Failure {
    let Error::Several { series, .. } = &error else { return error.into() };
    let mut text = error.to_string();
    for one in series {
        let is_of_one_host = series.iter().filter(|other| other.paths == one.paths).count() == 1;
        let backup = match is_of_one_host {
            true => "latest",
            false => short_id(&one.newest),
        };
        for path in &one.paths {
            let path = quoted(&path.display().to_string());
            text.push_str(&format!("\n  {}", command(backup, &path)));
        }
    }
    Failure::new(FailureKind::Usage, text)
}

/// Parses a target.
pub fn target(text: &str) -> Result<Target, String> {
    let target: Target = text.parse().map_err(|error: TargetError| error.to_string())?;
    target.absolute().map_err(|error| error.to_string())
}

/// The current time, since the Unix epoch.
pub fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// A progress line.
pub fn line(watch: Watch) -> BytesLine {
    BytesLine::start(move || {
        let (done, all, carried) = watch.counts();
        let [done_text, carried] = [done, carried].map(ByteSize::from_bytes);
        let share = (all > 0).then(|| done as f64 / all as f64);
        (format!("{done_text}; {carried} to or from the target"), share)
    })
}

/// `1 file`, `2 files`.
pub fn counted(count: u64, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}
