//! How a target is accessed.

use crate::secrets::Secrets;
use crate::time_limits::TimeLimits;
use crate::watch::Watch;
use braid_pool::upkeep::LockSpan;
use braid_units::Rate;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// How a target is accessed.
#[derive(Clone)]
pub struct TargetOptions {
    /// Limit of the rate, both directions together.
    pub limit: Option<Rate>,
    /// How long servers may take.
    pub time_limits: TimeLimits,
    /// How often in a row a request is tried again.
    pub retries: u32,
    /// Pause before the first retry; it doubles with each further one.
    pub first_pause: Duration,
    /// How many packs are sent at a time, or held at a time by a restore.
    pub connections: usize,
    /// Where servers' credentials are.
    pub secrets: Secrets,
    /// What reaches an SFTP server, instead of `ssh`: a shell's command.
    pub sftp_command: Option<String>,
    /// Folder that caches lists and folders for the next time.
    pub cache: Option<PathBuf>,
    /// How long written files are locked, where the target can.
    pub lock: Option<LockSpan>,
    /// The target was reached before, so a name without an address isn't a typing error.
    pub is_known: bool,
    /// Where progress is shown.
    pub watch: Watch,
    /// Set from outside to stop: nothing new is begun, and what is under way ends soon.
    pub stop: Arc<AtomicBool>,
    /// Called with a message when something is tried again.
    pub tell: fn(&str),
}

impl TargetOptions {
    /// The usual one.
    pub fn new(secrets: Secrets) -> TargetOptions {
        TargetOptions {
            limit: None,
            time_limits: TimeLimits::default(),
            retries: 20,
            first_pause: Duration::from_secs(1),
            connections: 4,
            secrets,
            sftp_command: None,
            cache: None,
            lock: None,
            is_known: false,
            watch: Watch::default(),
            stop: Arc::default(),
            tell: |_| {},
        }
    }
}
