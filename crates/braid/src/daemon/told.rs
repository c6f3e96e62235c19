//! Telling people of what happens where no daemon of ours runs: pools are looked at by a timer.

use braid_alert::{Alert, Deliver, Kept};
use braid_control::config::{ConfigErrors, PoolsConfig};
use braid_control::status::AlertStatus;
use braid_delivery::Isolated;
use braid_history::{Event, unix_now};
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// Messages about pools: those that couldn't be delivered wait for the next look.
pub struct PoolAlerts {
    alerts: Vec<Alert>,
    file: PathBuf,
}

/// Where they wait, beside what `braid pool watch` remembers.
const FILE: &str = "pools.alerts.json";
const FOLDER: &str = "/var/lib/braid";
/// A look tries to deliver for no longer.
const DELIVERS_FOR: Duration = Duration::from_secs(120);
/// Another look may be delivering.
const WAITS_FOR: Duration = Duration::from_secs(180);
const LOOKS_EVERY: Duration = Duration::from_millis(100);

impl PoolAlerts {
    /// As `braid pool watch` keeps them if nothing else is said.
    pub fn usual(alerts: Vec<Alert>) -> PoolAlerts {
        PoolAlerts::in_folder(Path::new(FOLDER), alerts)
    }

    /// Kept in this folder.
    pub fn in_folder(folder: &Path, alerts: Vec<Alert>) -> PoolAlerts {
        PoolAlerts { alerts, file: folder.join(FILE) }
    }

    /// Tells these events, and what waited; what can't be delivered now waits on.
    ///
    /// # Errors
    /// What waits can't be kept.
    pub fn tell(&self, events: &[Event], host: &str, deliver: &impl Deliver) -> io::Result<()> {
        if self.alerts.is_empty() {
            return Ok(());
        }
        let _lock = self.lock()?;
        let kept = Kept::at(&self.file);
        let mut outbox = kept.read()?;
        for event in events {
            outbox.put(&self.alerts, event, unix_now());
        }
        // A look finds at once all that there is to be told: nothing more is waited for.
        outbox.hurry(unix_now());
        kept.write(&outbox)?;
        let begun = Instant::now();
        while begun.elapsed() < DELIVERS_FOR
            && let Some((alert, message)) = outbox.next(&self.alerts, host, unix_now())
        {
            match deliver.deliver(&alert, &message) {
                Ok(()) => outbox.delivered(&alert.name, unix_now()),
                Err(why) => outbox.failed(&alert.name, why, unix_now()),
            }
            kept.write(&outbox)?;
        }
        Ok(())
    }

    /// How telling goes.
    pub fn status(&self) -> Vec<AlertStatus> {
        let outbox = Kept::at(&self.file).read().unwrap_or_default();
        status_of(&self.alerts, |alert| outbox.waiting(alert))
    }

    /// Two looks would overwrite what the other has put there.
    fn lock(&self) -> io::Result<File> {
        let path = self.file.with_extension("lock");
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path)?;
        let begun = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::Error(error)) => return Err(error),
                Err(TryLockError::WouldBlock) if begun.elapsed() > WAITS_FOR => {
                    let text = format!("{}: another process holds it", path.display());
                    return Err(io::Error::new(io::ErrorKind::TimedOut, text));
                }
                Err(TryLockError::WouldBlock) => thread::sleep(LOOKS_EVERY),
            }
        }
    }
}

/// The `[[alert]]`s of a config of any kind; none where there is no config.
///
/// # Errors
/// What is wrong in it.
pub fn alerts_of(file: &Path) -> Result<Vec<Alert>, ConfigErrors> {
    match file.exists() {
        true => Ok(PoolsConfig::load_if_any(file)?.alerts),
        false => Ok(Vec::new()),
    }
}

/// Delivers by a process of its own: see `braid alert deliver`.
pub fn by_this_program() -> Isolated {
    // Also after the file was replaced by a newer one.
    Isolated::by("/proc/self/exe".into(), vec!["alert".into(), "deliver".into()])
}

/// This host's name, for those who are told by several.
pub fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match name.trim() {
        "" => "braid".to_owned(),
        name => name.to_owned(),
    }
}

/// For status, with what `waiting` says of each.
pub fn status_of(
    alerts: &[Alert],
    waiting: impl Fn(&str) -> braid_alert::Waiting,
) -> Vec<AlertStatus> {
    let status = |alert: &Alert| {
        let waiting = waiting(&alert.name);
        AlertStatus {
            name: alert.name.clone(),
            to: alert.target.to_string(),
            waiting: waiting.events,
            delivered: waiting.delivered,
            given_up: waiting.given_up,
            trouble: waiting.trouble,
            last_delivered_unix: waiting.last_delivered,
            next_attempt_unix: waiting.next_at,
        }
    };
    alerts.iter().map(status).collect()
}
