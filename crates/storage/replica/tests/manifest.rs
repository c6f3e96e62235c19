//! A manifest has all that is in a folder.

use braid_loop_disks::{in_private_mounts, run};
use braid_replica::manifest;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;

/// On btrfs a subvolume's root has number 256, and the folder in its place in a snapshot 2.
#[test]
fn elsewhere_a_folder_may_have_a_subvolume_s_number() {
    let name = "elsewhere_a_folder_may_have_a_subvolume_s_number";
    in_private_mounts(name, || {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_str().unwrap();
        // Its numbers begin anew with each.
        run("mount", &["-t", "tmpfs", "tmpfs", path]);
        let folders: Vec<_> = (0..300).map(|it| folder.path().join(it.to_string())).collect();
        folders.iter().for_each(|it| fs::create_dir(it).unwrap());
        let number = |it: &PathBuf| fs::metadata(it).unwrap().ino();
        let manifest = manifest::read(folder.path(), 1, &AtomicU64::new(0)).unwrap();
        let has_256 = folders.iter().any(|it| number(it) == 256);
        run("umount", &[path]);
        assert!(has_256);
        assert_eq!((manifest.lines.len(), manifest.nested.len()), (301, 0));
    });
}
