//! Self-signed certificates that this host creates once.

use braid_carrier::Certificate;
use braid_control::config::CertificateFiles;
use std::io;
use std::path::Path;
use std::time::SystemTime;

/// Creates one for these names if there is none.
///
/// # Errors
/// It can't be created or written.
pub fn ensure(files: &CertificateFiles, names: impl FnOnce() -> Vec<String>) -> io::Result<()> {
    if files.chain.exists() && files.key.exists() {
        return Ok(());
    }
    let made = Certificate::make(&names(), SystemTime::now()).map_err(io::Error::other)?;
    std::fs::create_dir_all(files.chain.parent().unwrap_or(Path::new(".")))?;
    braid_durable::replace(&files.key, made.key.as_bytes(), Some(0o600))?;
    braid_durable::replace(&files.chain, made.chain.as_bytes(), Some(0o644))
}
