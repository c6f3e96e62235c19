use super::super::failure::Failure;
use braid_control::config::write_secret;
use std::io;
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// Files with secrets that a config will name.
pub struct Secrets<'a, const N: usize>(pub [(&'a PathBuf, Zeroizing<String>); N]);

impl<const N: usize> Secrets<'_, N> {
    /// Writes all of them, or none.
    pub fn write(&self) -> Result<(), Failure> {
        let write = |(file, secret): &(&PathBuf, Zeroizing<String>)| {
            write_secret(file, secret).map_err(writing(file))
        };
        let written = self.0.iter().try_for_each(write);
        if written.is_err() {
            self.remove();
        }
        written
    }

    /// They are useless without the config. Errors are ignored: the first error is the one to
    /// report.
    pub fn remove(&self) {
        for (file, _) in &self.0 {
            let _ = braid_durable::remove(file);
        }
    }
}

pub(super) fn writing(path: &Path) -> impl FnOnce(io::Error) -> Failure {
    let doing = format!("writing {}", path.display());
    move |error| Failure::io(&doing, &error)
}
