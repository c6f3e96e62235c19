use crate::Target;
use std::path::{Path, PathBuf};

/// Why there are no seeds.
#[derive(Debug)]
pub struct SeedError {
    /// The folder.
    pub folder: PathBuf,
    /// What is wrong with it; `None` when it is empty.
    pub source: Option<std::io::Error>,
}

impl std::fmt::Display for SeedError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let folder = self.folder.display();
        match &self.source {
            Some(source) => write!(f, "{folder}: can't read the seeds: {source}"),
            None => write!(f, "{folder}: there are no seeds; put some well-formed inputs there"),
        }
    }
}

impl std::error::Error for SeedError {}

/// The folder of a target's seeds in this source tree.
pub fn seeds_folder(target: &Target) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/corpus-seeds").join(target.name)
}

/// The seeds in a folder, in the order of their names.
///
/// # Errors
/// [`SeedError`] if it can't be read or is empty.
pub fn seeds(folder: &Path) -> Result<Vec<Vec<u8>>, SeedError> {
    let failed = |source| SeedError { folder: folder.into(), source: Some(source) };
    let mut files = std::fs::read_dir(folder)
        .map_err(failed)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<Vec<_>, _>>()
        .map_err(failed)?;
    files.sort();
    let seeds: Vec<_> =
        files.iter().map(std::fs::read).collect::<Result<_, _>>().map_err(failed)?;
    if seeds.is_empty() {
        return Err(SeedError { folder: folder.into(), source: None });
    }
    Ok(seeds)
}
