use crate::run;
use rustix::fs::{XattrFlags, removexattr, setxattr};
use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::Path;

/// Creates files of every kind that a filesystem supports, one of `big` bytes; their contents
/// depend on `seed`.
///
/// # Panics
/// If that isn't possible.
pub fn fill(folder: &Path, seed: u64, big: usize) {
    let mut random = fastrand::Rng::with_seed(seed);
    let inside = folder.join("a folder").join("deeper");
    fs::create_dir_all(&inside).unwrap();
    fs::write(folder.join("big"), bytes(&mut random, big)).unwrap();
    for number in 0..40 {
        let length = random.usize(0..20_000);
        fs::write(inside.join(format!("file {number}")), bytes(&mut random, length)).unwrap();
    }
    fs::write(folder.join("zeroes"), vec![0; 3 << 20]).unwrap();
    fs::write(folder.join("empty"), b"").unwrap();
    symlink("../nowhere", inside.join("link")).unwrap();
    fs::hard_link(folder.join("big"), inside.join("hard link")).unwrap();
    let sparse = fs::File::create(folder.join("sparse")).unwrap();
    sparse.set_len(50 << 20).unwrap();
    sparse.write_all_at(b"island", 20 << 20).unwrap();
    let full = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    run("mkfifo", &[&full("fifo")]);
    run("mknod", &[&full("device"), "c", "1", "3"]);
    run("cp", &["--reflink=always", &full("zeroes"), &full("shared")]);
    run("chown", &["-h", "1234:5678", inside.join("link").to_str().unwrap()]);
    set_xattr(&folder.join("empty"), Some(b"blue"));
    fs::set_permissions(folder.join("empty"), fs::Permissions::from_mode(0o4751)).unwrap();
    fs::write(folder.join("naïve \u{1F600} 'name' \n"), b"x").unwrap();
}

/// Changes what [`fill`] created in every way, `big` bytes of its big file; may be repeated with
/// another seed.
///
/// # Panics
/// If that isn't possible.
pub fn change(folder: &Path, seed: u64, big: usize) {
    let mut random = fastrand::Rng::with_seed(seed);
    let inside = folder.join("a folder").join("deeper");
    let part = bytes(&mut random, big);
    let file = fs::File::options().write(true).open(folder.join("big")).unwrap();
    file.write_all_at(&part, 4096 * random.u64(0..100)).unwrap();
    fs::rename(inside.join("file 1"), folder.join(format!("moved {seed}"))).unwrap();
    fs::write(inside.join("file 1"), bytes(&mut random, 9_000)).unwrap();
    let becomes_folder = inside.join(format!("file {}", seed + 1));
    fs::remove_file(&becomes_folder).unwrap();
    fs::create_dir(&becomes_folder).unwrap();
    fs::write(becomes_folder.join("within"), bytes(&mut random, 70_000)).unwrap();
    fs::rename(folder.join("a folder"), folder.join("another folder")).unwrap();
    fs::create_dir(folder.join("a folder")).unwrap();
    fs::rename(folder.join("another folder").join("deeper"), inside).unwrap();
    fs::File::options().write(true).open(folder.join("zeroes")).unwrap().set_len(12_345).unwrap();
    if seed == 1 {
        set_xattr(&folder.join("empty"), None);
    }
    run("chown", &["77:88", folder.join("empty").to_str().unwrap()]);
}

fn set_xattr(path: &Path, value: Option<&[u8]>) {
    let name = "user.colour";
    match value {
        Some(value) => setxattr(path, name, value, XattrFlags::empty()),
        None => removexattr(path, name),
    }
    .unwrap();
}

fn bytes(random: &mut fastrand::Rng, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    random.fill(&mut bytes);
    bytes
}
