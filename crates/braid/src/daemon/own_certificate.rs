//! Certificates that this host makes for itself, once.

use braid_carrier::Certificate;
use braid_control::config::CertificateFiles;
use std::io;
use std::path::Path;
use std::time::SystemTime;

/// Makes one for these names where there is none.
///
/// # Errors
/// It can't be made or written.
pub fn ensure(files: &CertificateFiles, names: impl FnOnce() -> Vec<String>) -> io::Result<()> {
    if files.chain.exists() && files.key.exists() {
        return Ok(());
    }
    let made = Certificate::make(&names(), SystemTime::now()).map_err(io::Error::other)?;
    std::fs::create_dir_all(files.chain.parent().unwrap_or(Path::new(".")))?;
    braid_durable::replace(&files.key, made.key.as_bytes(), Some(0o600))?;
    braid_durable::replace(&files.chain, made.chain.as_bytes(), Some(0o644))
}
