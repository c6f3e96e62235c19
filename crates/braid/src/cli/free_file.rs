use std::path::{Path, PathBuf};

/// The first of `NAME.EXT`, `NAME-2.EXT` … that isn't there: keys are never
/// overwritten, whosesoever they are.
pub fn free_file(wanted: &Path) -> PathBuf {
    if !wanted.exists() {
        return wanted.to_owned();
    }
    let stem = wanted.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let extension = wanted.extension().unwrap_or_default().to_string_lossy().into_owned();
    let numbered = |number: u32| wanted.with_file_name(format!("{stem}-{number}.{extension}"));
    (2..).map(numbered).find(|file| !file.exists()).unwrap_or_else(|| wanted.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_there_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let wanted = folder.path().join("braid.key");
        for name in ["braid.key", "braid-2.key", "braid-3.key"] {
            let free = free_file(&wanted);
            assert_eq!(free, folder.path().join(name));
            std::fs::write(free, "").unwrap();
        }
    }
}
