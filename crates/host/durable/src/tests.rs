use super::*;
use std::os::unix::fs::symlink;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

fn names(folder: &Path) -> Vec<OsString> {
    let mut names: Vec<_> = fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name()).collect();
    names.sort();
    names
}

#[test]
fn a_file_is_replaced_and_keeps_its_mode_unless_another_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("deep/er/file");
    replace(&file, b"one", Some(0o600)).unwrap();
    replace(&file, b"two", None).unwrap();
    assert_eq!((fs::read(&file).unwrap().as_slice(), mode(&file)), (b"two".as_slice(), 0o600));
    replace(&file, b"three", Some(0o640)).unwrap();
    assert_eq!(mode(&file), 0o640);
    assert_eq!(names(file.parent().unwrap()), ["file"], "nothing is left beside it");
}

#[test]
fn a_symbolic_link_stays_and_its_target_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let (target, link) = (folder.path().join("target"), folder.path().join("link"));
    fs::write(&target, "old").unwrap();
    symlink(&target, &link).unwrap();
    replace(&link, b"new", None).unwrap();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(fs::read(&target).unwrap(), b"new");
}

#[test]
fn in_a_folder_of_others_a_symbolic_link_is_replaced_and_its_target_stays() {
    let folder = tempfile::tempdir().unwrap();
    let (target, link) = (folder.path().join("target"), folder.path().join("link"));
    fs::write(&target, "theirs").unwrap();
    symlink(&target, &link).unwrap();
    replace_unfollowed(&link, b"ours").unwrap();
    assert!(fs::symlink_metadata(&link).unwrap().is_file());
    assert_eq!(fs::read(&target).unwrap(), b"theirs");
    symlink(&target, folder.path().join(".link.braid-new")).unwrap();
    assert!(replace_unfollowed(&link, b"more").is_err());
    assert_eq!(fs::read(&target).unwrap(), b"theirs");
}

#[test]
fn what_fails_leaves_the_file_as_it_was_and_nothing_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    replace(&file, b"old", None).unwrap();
    let full = replace_with(&file, None, |out| {
        out.write_all(b"half")?;
        Err(io::ErrorKind::StorageFull.into())
    });
    assert_eq!(full.unwrap_err().kind(), io::ErrorKind::StorageFull);
    assert_eq!(fs::read(&file).unwrap(), b"old");
    assert_eq!(names(folder.path()), ["file"]);
}

#[test]
fn what_a_crash_left_beside_it_is_taken_over() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(folder.path().join(".file.braid-new"), "longer than what comes").unwrap();
    replace(&file, b"new", None).unwrap();
    assert_eq!(fs::read(&file).unwrap(), b"new");
}

#[test]
fn writers_of_one_file_take_turns() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    let texts = [vec![b'a'; 100_000], vec![b'b'; 10]];
    std::thread::scope(|scope| {
        for text in &texts {
            let file = &file;
            scope.spawn(move || (0..50).for_each(|_| replace(file, text, None).unwrap()));
        }
        for _ in 0..200 {
            let Ok(now) = fs::read(&file) else { continue };
            assert!(texts.contains(&now), "{} bytes", now.len());
        }
    });
}

#[test]
fn a_new_file_has_just_its_mode_and_takes_nobodys_place() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("key");
    create(&file, b"secret", 0o600).unwrap();
    assert_eq!(mode(&file), 0o600);
    assert_eq!(create(&file, b"x", 0o600).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    assert_eq!(fs::read(&file).unwrap(), b"secret");
    remove(&file).unwrap();
    remove(&file).unwrap();
    assert!(!file.exists());
}
