use std::path::{Path, PathBuf};

pub(crate) const DESCRIPTORS: &str = "/proc/self/fd";

/// The real path of what [`Held::path`](crate::beneath::Held::path) leads to; any other stays as it
/// is.
pub(crate) fn shown(path: &Path) -> PathBuf {
    let Ok(inside) = path.strip_prefix(DESCRIPTORS) else { return path.to_owned() };
    let mut parts = inside.components();
    let Some(number) = parts.next() else { return path.to_owned() };
    let mut shown = match std::fs::read_link(Path::new(DESCRIPTORS).join(number)) {
        Ok(folder) => folder,
        Err(_) => return path.to_owned(),
    };
    shown.extend(parts);
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_paths_are_shown_as_they_are() {
        for path in ["/srv/x", "x", "/proc/self/fd", "/proc/self/fd/none/x"] {
            assert_eq!(shown(Path::new(path)), Path::new(path));
        }
    }
}
