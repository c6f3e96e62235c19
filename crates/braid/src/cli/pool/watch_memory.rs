//! The file in which `braid pool watch` keeps what it knows between two looks.

use crate::cli::failure::{Failure, FailureKind};
use braid_pool::watch::Memory;
use std::fs;
use std::io;
use std::path::Path;

/// Where it is if nothing else is said.
pub const DEFAULT: &str = "/var/lib/braid/watch.json";

/// Reads it; when there is none, nothing is known.
pub fn read(file: &Path) -> Result<Memory, Failure> {
    let text = match fs::read(file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Memory::default()),
        Err(error) => return Err(Failure::io(&format!("reading {}", file.display()), &error)),
    };
    serde_json::from_slice(&text).map_err(|error| {
        let message = format!("{}: {error}; delete it to begin anew", file.display());
        Failure::new(FailureKind::Failed, message)
    })
}

/// Writes it.
pub fn write(file: &Path, memory: &Memory) -> Result<(), Failure> {
    let text = serde_json::to_string(memory).map_err(|e| Failure::failed(e.to_string()))?;
    replace(file, &text)
}

/// Writes a file so that others see the old text or the new one, and nothing between.
pub fn replace(file: &Path, text: &str) -> Result<(), Failure> {
    braid_durable::replace(file, text.as_bytes(), None)
        .map_err(|error| Failure::io(&format!("writing {}", file.display()), &error))
}
