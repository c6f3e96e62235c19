//! A host's files as they were recorded, laid out in a temporary directory.

use braid_disks::HostRoot;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

pub struct Recorded {
    directory: TempDir,
    pub host: HostRoot,
}

impl Recorded {
    pub fn empty() -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir_all(directory.path().join("dev")).unwrap();
        let host = HostRoot::at(directory.path());
        Recorded { directory, host }
    }

    /// Of `fixtures/md/NAME.tree`: lines `F path<tab>text` and `L path<tab>target`, below /sys.
    pub fn md(tree: &str) -> Self {
        let recorded = Recorded::empty();
        let text = fs::read_to_string(fixture(&format!("{tree}.tree"))).unwrap();
        for line in text.lines() {
            let (kind, rest) = line.split_at(2);
            let (path, value) = rest.split_once('\t').unwrap();
            let path = recorded.directory.path().join("sys").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            match kind {
                "F " => fs::write(path, value.replace("\\n", "\n") + "\n").unwrap(),
                "L " => symlink(value, path).unwrap(),
                _ => panic!("{line}"),
            }
        }
        recorded
    }

    /// Makes `/dev/NAME`: zeroes but for what fixtures put at some places.
    pub fn device(&self, name: &str, size_bytes: u64, parts: &[(u64, &str)]) -> PathBuf {
        let path = self.directory.path().join("dev").join(name);
        let file = File::create(&path).unwrap();
        file.set_len(size_bytes).unwrap();
        for (at, part) in parts {
            file.write_all_at(&fs::read(fixture(part)).unwrap(), *at).unwrap();
        }
        path
    }
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/md").join(name)
}
