//! Notifications when no daemon of ours runs: a timer checks pools.

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

/// Messages about pools: those that couldn't be delivered wait for the next check.
pub struct PoolAlerts {
    alerts: Vec<Alert>,
    file: PathBuf,
}

/// The file in which they wait, beside the state of `braid pool watch`.
const FILE: &str = "pools.alerts.json";
const FOLDER: &str = "/var/lib/braid";
/// How long a check tries to deliver.
const DELIVERS_FOR: Duration = Duration::from_secs(120);
/// How long to wait for another check that is delivering.
const WAITS_FOR: Duration = Duration::from_secs(180);
const LOOKS_EVERY: Duration = Duration::from_millis(100);

impl PoolAlerts {
    /// In the default place of `braid pool watch`.
    pub fn usual(alerts: Vec<Alert>) -> PoolAlerts {
        PoolAlerts::in_folder(Path::new(FOLDER), alerts)
    }

    /// Kept in this folder.
    pub fn in_folder(folder: &Path, alerts: Vec<Alert>) -> PoolAlerts {
        PoolAlerts { alerts, file: folder.join(FILE) }
    }

    /// Sends these events and waiting ones; what can't be delivered keeps waiting.
    ///
    /// # Errors
    /// Waiting messages can't be saved.
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
        // A check finds all events at once, so there is nothing to wait for.
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

    /// The status of notifications.
    pub fn status(&self) -> Vec<AlertStatus> {
        let outbox = Kept::at(&self.file).read().unwrap_or_default();
        status_of(&self.alerts, |alert| outbox.waiting(alert))
    }

    /// Two checks would overwrite each other's messages.
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

/// The `[[alert]]`s of a config of any kind; empty if there is no config.
///
/// # Errors
/// What is wrong in it.
pub fn alerts_of(file: &Path) -> Result<Vec<Alert>, ConfigErrors> {
    match file.exists() {
        true => Ok(PoolsConfig::load_if_any(file)?.alerts),
        false => Ok(Vec::new()),
    }
}

/// Delivers in a separate process: see `braid alert deliver`.
pub fn by_this_program() -> Isolated {
    // Works even after the file was replaced by a newer one.
    Isolated::by("/proc/self/exe".into(), vec!["alert".into(), "deliver".into()])
}

/// This host's name, for people notified by several hosts.
pub fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match name.trim() {
        "" => "braid".to_owned(),
        name => name.to_owned(),
    }
}

/// For status, with each alert's state from `waiting`.
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
