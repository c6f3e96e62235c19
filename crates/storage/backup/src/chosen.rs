//! Which backup is meant: `latest` is that of one computer and one path, since whoever backs up
//! two folders to a target has lost both when only the newer one comes back.

use std::path::{Path, PathBuf};

/// The newest of what one computer backs up from one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Series {
    /// The computer.
    pub host: String,
    /// What it backs up.
    pub paths: Vec<PathBuf>,
    /// The newest backup's id.
    pub newest: String,
}

impl Series {
    pub(crate) fn has(&self, host: &str, paths: &[PathBuf]) -> bool {
        self.host == host && self.paths == paths
    }

    /// How deep the place is that holds this path, if one does.
    fn depth_above(&self, path: &Path) -> Option<usize> {
        let above = self.paths.iter().filter(|backed_up| path.starts_with(backed_up));
        above.map(|backed_up| backed_up.components().count()).max()
    }

    fn is_below(&self, path: &Path) -> bool {
        self.paths.iter().any(|backed_up| backed_up.starts_with(path))
    }
}

/// What is backed up at a target, in the order of the paths. Of the backups, oldest first, each is
/// given as the newest of its series so far.
pub(crate) fn series(backups: impl IntoIterator<Item = Series>) -> Vec<Series> {
    let mut all: Vec<Series> = vec![];
    for one in backups {
        match all.iter_mut().find(|series| series.has(&one.host, &one.paths)) {
            Some(series) => series.newest = one.newest,
            None => all.push(one),
        }
    }
    all.sort_by(|a, b| (&a.paths, &a.host).cmp(&(&b.paths, &b.host)));
    all
}

/// Those that hold this path: the nearest above it, as subvolumes inside are backed up by
/// themselves; where none is above it, those below. All, without a path.
pub(crate) fn holding(all: Vec<Series>, path: Option<&Path>) -> Vec<Series> {
    let Some(path) = path.filter(|path| path.components().count() > 1) else { return all };
    let deepest = all.iter().filter_map(|series| series.depth_above(path)).max();
    let is_meant = |series: &Series| match deepest {
        Some(_) => series.depth_above(path) == deepest,
        None => series.is_below(path),
    };
    all.into_iter().filter(is_meant).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn backup(id: &str, host: &str, path: &str) -> Series {
        let (host, newest) = (host.to_owned(), id.to_owned());
        Series { host, paths: vec![PathBuf::from(path)], newest }
    }

    fn meant(path: Option<&str>) -> Vec<String> {
        let backups = [
            backup("1", "nas", "/srv/data/h2"),
            backup("2", "nas", "/srv/data"),
            backup("3", "nas", "/srv/data/h2"),
            backup("4", "nas", "/srv/big"),
            backup("5", "den", "/home"),
            backup("6", "nas", "/home"),
        ];
        let holding = holding(series(backups), path.map(Path::new));
        holding.into_iter().map(|series| series.newest).collect()
    }

    #[test]
    fn the_latest_is_that_of_the_place_nearest_above_a_path() {
        assert_eq!(meant(Some("/srv/data/h2/a")), ["3"]);
        assert_eq!(meant(Some("/srv/data/h2/")), ["3"]);
        assert_eq!(meant(Some("/srv/data/h22")), ["2"]);
        assert_eq!(meant(Some("/srv/big")), ["4"]);
        assert_eq!(meant(Some("/nowhere")), [""; 0]);
    }

    #[test]
    fn where_several_are_meant_all_are_told() {
        assert_eq!(meant(None), ["5", "6", "4", "2", "3"]);
        assert_eq!(meant(Some("/")).len(), 5);
        // Of two computers.
        assert_eq!(meant(Some("/home/me")), ["5", "6"]);
        // None is above it.
        assert_eq!(meant(Some("/srv")), ["4", "2", "3"]);
    }
}
