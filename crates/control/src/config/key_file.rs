use super::SecretError;
use std::ops::Deref;
use std::path::{Path, PathBuf};

/// A file with a secret, and where the config names it, for errors. The place is ignored in
/// comparisons.
#[derive(Clone, Debug)]
pub struct KeyFile {
    path: PathBuf,
    /// Line, from 1; 0 if no line names it.
    line: usize,
    key: &'static str,
}

/// A secret that a config names can't be read.
#[derive(Debug, thiserror::Error)]
#[error("{}{}: {key}: {error}", config.display(), at(*line))]
pub struct KeyFileError {
    /// The config.
    pub config: PathBuf,
    /// The line that names the file, from 1; 0 if none does.
    pub line: usize,
    /// Such as `interface.private_key_file`.
    pub key: &'static str,
    /// Why.
    pub error: SecretError,
}

fn at(line: usize) -> String {
    if line > 0 { format!(":{line}") } else { String::new() }
}

impl KeyFile {
    /// A file named by this key in this line.
    pub(super) fn named(path: PathBuf, line: usize, key: &'static str) -> KeyFile {
        KeyFile { path, line, key }
    }

    /// A file that no config names.
    pub fn unnamed(path: PathBuf) -> KeyFile {
        KeyFile { path, line: 0, key: "its key" }
    }

    pub(super) fn path_mut(&mut self) -> &mut PathBuf {
        &mut self.path
    }

    /// The error that it can't be read, for this config.
    pub fn failed(&self, config: &Path, error: SecretError) -> KeyFileError {
        KeyFileError { config: config.to_owned(), line: self.line, key: self.key, error }
    }
}

impl Deref for KeyFile {
    type Target = Path;
    fn deref(&self) -> &Path {
        &self.path
    }
}

impl AsRef<Path> for KeyFile {
    fn as_ref(&self) -> &Path {
        &self.path
    }
}

impl PartialEq for KeyFile {
    fn eq(&self, other: &KeyFile) -> bool {
        self.path == other.path
    }
}
