//! How a target is spoken to.

use crate::secrets::Secrets;
use crate::watch::Watch;
use braid_pool::upkeep::LockSpan;
use braid_units::Rate;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// How a target is spoken to.
#[derive(Clone)]
pub struct TargetOptions {
    /// At most so fast, both ways together.
    pub limit: Option<Rate>,
    /// So often in a row something is tried again.
    pub retries: u32,
    /// So long before the first time; twice as long before each further one.
    pub first_pause: Duration,
    /// So many packs are sent at a time.
    pub connections: usize,
    /// Where servers' credentials are.
    pub secrets: Secrets,
    /// What reaches an SFTP server, instead of `ssh`: a shell's command.
    pub sftp_command: Option<String>,
    /// Where lists and folders that came are kept for the next time.
    pub cache: Option<PathBuf>,
    /// What is written is locked for so long, where the target can.
    pub lock: Option<LockSpan>,
    /// The target was reached before: a name without an address isn't mistyped.
    pub is_known: bool,
    /// Who watches.
    pub watch: Watch,
    /// Set from elsewhere: nothing else is begun, and what is under way ends soon.
    pub stop: Arc<AtomicBool>,
    /// Who is told, in words, that something is tried again.
    pub tell: fn(&str),
}

impl TargetOptions {
    /// The usual one.
    pub fn new(secrets: Secrets) -> TargetOptions {
        TargetOptions {
            limit: None,
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
