//! Where the crates of the workspace and their sources are.

use std::fs;
use std::path::{Path, PathBuf};

/// The repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The folders of all crates of the workspace.
pub fn crates() -> Vec<PathBuf> {
    let is_crate = |path: &PathBuf| path.join("Cargo.toml").exists();
    let below = |folder: &Path| -> Vec<PathBuf> {
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
    };
    let top = below(&root().join("crates"));
    let (mut crates, groups): (Vec<_>, Vec<_>) = top.into_iter().partition(is_crate);
    crates.extend(groups.iter().flat_map(|group| below(group)).filter(is_crate));
    crates
}

/// Of Rust.
pub fn sources_below(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources_below(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push(path);
        }
    }
}
