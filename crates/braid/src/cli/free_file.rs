use std::path::{Path, PathBuf};

/// The first of `NAME.EXT`, `NAME-2.EXT` … that doesn't exist, since keys are never overwritten,
/// and that isn't in `named`: whoever names a missing file may still write or remove it.
pub fn free_file(wanted: &Path, named: &[&Path]) -> PathBuf {
    let is_free = |file: &PathBuf| !file.exists() && !named.contains(&file.as_path());
    let stem = wanted.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let extension = wanted.extension().unwrap_or_default().to_string_lossy().into_owned();
    let numbered = |number: u32| wanted.with_file_name(format!("{stem}-{number}.{extension}"));
    std::iter::once(wanted.to_owned())
        .chain((2..).map(numbered))
        .find(is_free)
        .unwrap_or_else(|| wanted.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_there_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let wanted = folder.path().join("braid.key");
        for name in ["braid.key", "braid-2.key", "braid-3.key"] {
            let free = free_file(&wanted, &[]);
            assert_eq!(free, folder.path().join(name));
            std::fs::write(free, "").unwrap();
        }
    }

    #[test]
    fn a_file_that_somebody_names_is_not_free_though_it_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let wanted = folder.path().join("braid.enrol");
        let free = free_file(&wanted, &[&wanted]);
        assert_eq!(free, folder.path().join("braid-2.enrol"));
    }
}
