use crate::noise::noise;
use braid_replica::manifest;
use rustix::fs::{Mode, OFlags, XattrFlags};
use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::Path;
use std::sync::atomic::AtomicU64;

/// Fills `folder` with things that are hard to copy: odd names, links of both kinds, holes,
/// attributes, access control lists, modes, owners, times, devices. One large file has `bytes`
/// bytes.
///
/// # Panics
/// If the filesystem doesn't support one of them.
pub fn fill(folder: &Path, bytes: usize) {
    fs::create_dir_all(folder.join("deep/er")).unwrap();
    fs::write(folder.join("large"), noise(bytes, 1)).unwrap();
    fs::write(folder.join("empty"), "").unwrap();
    for (number, name) in odd_names().into_iter().enumerate() {
        fs::write(folder.join(OsStr::from_bytes(&name)), format!("{number}")).unwrap();
    }
    fs::create_dir(folder.join("empty folder")).unwrap();
    fs::write(folder.join("deep/er/one"), "linked").unwrap();
    fs::hard_link(folder.join("deep/er/one"), folder.join("deep/two")).unwrap();
    fs::hard_link(folder.join("deep/er/one"), folder.join("three")).unwrap();
    symlink("deep/er/one", folder.join("to a file")).unwrap();
    symlink("nowhere at all", folder.join("to nothing")).unwrap();
    symlink(OsStr::from_bytes(b"not \xff utf-8"), folder.join("to bytes")).unwrap();
    holes(&folder.join("holes"));
    for number in 0..60 {
        let text = format!("file {number} ").repeat(number * 7);
        fs::write(folder.join(format!("deep/small-{number:03}")), text).unwrap();
    }
    let attributed = folder.join("attributed");
    fs::write(&attributed, "with attributes").unwrap();
    set_attribute(&attributed, "user.kind", b"a\0b\xff");
    set_attribute(&attributed, "user.empty", b"");
    set_attribute(&attributed, "system.posix_acl_access", &acl());
    set_attribute(&folder.join("deep"), "system.posix_acl_default", &acl());
    set_attribute(&folder.join("deep"), "user.folder", b"too");
    rustix::fs::chown(&attributed, Some(rustix::fs::Uid::from_raw(12345)), None).unwrap();
    let special = folder.join("special");
    fs::write(&special, "setuid").unwrap();
    fs::set_permissions(&special, Permissions::from_mode(0o6751)).unwrap();
    fs::set_permissions(folder.join("empty folder"), Permissions::from_mode(0o1777)).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        folder.join("fifo"),
        rustix::fs::FileType::Fifo,
        Mode::from_raw_mode(0o640),
        0,
    )
    .unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        folder.join("null"),
        rustix::fs::FileType::CharacterDevice,
        Mode::from_raw_mode(0o666),
        rustix::fs::makedev(1, 3),
    )
    .unwrap();
    fs::set_permissions(folder, Permissions::from_mode(0o2750)).unwrap();
}

/// Changes some of these files.
///
/// # Panics
/// If they don't exist.
pub fn change(folder: &Path) {
    let large = File::options().write(true).open(folder.join("large")).unwrap();
    large.write_all_at(b"changed in its middle", 100_000).unwrap();
    fs::write(folder.join("deep/new"), noise(50_000, 2)).unwrap();
    fs::remove_file(folder.join("deep/small-001")).unwrap();
    fs::rename(folder.join("deep/small-002"), folder.join("deep/moved")).unwrap();
    fs::write(folder.join("three"), "linked, changed").unwrap();
}

/// How a copy differs from its original, in anything that a backup must preserve.
///
/// # Panics
/// If one of them can't be read.
pub fn differences(original: &Path, copy: &Path) -> Vec<String> {
    let [original, copy] =
        [original, copy].map(|folder| manifest::read(folder, 2, &AtomicU64::new(0)).unwrap().lines);
    manifest::compare(&original, &copy).iter().map(|one| format!("{one:?}")).collect()
}

fn odd_names() -> Vec<Vec<u8>> {
    let mut names: Vec<Vec<u8>> = [
        " leading and trailing ",
        "-rf",
        "new\nline",
        "tab\tand\rreturn",
        "back\\slash",
        "\"quoted\"",
        "*?[a]{b}",
        "#;$`!",
        "ünïcödé",
        "…",
        "\u{feff}bom",
        "cafe\u{301}",
        "\u{1}\u{7f}",
        "...",
        "😀",
    ]
    .iter()
    .map(|name| name.as_bytes().to_vec())
    .collect();
    names.push(b"latin \xe9 and \xff\xfe".to_vec());
    names.push(vec![b'x'; 255]);
    names
}

fn holes(path: &Path) {
    let mut file = File::create(path).unwrap();
    file.write_all(b"begin").unwrap();
    file.seek(SeekFrom::Start(20 << 20)).unwrap();
    file.write_all(b"middle").unwrap();
    file.set_len(40 << 20).unwrap();
}

/// An access control list with an entry for an additional user, in the kernel's form
/// (`posix_acl_xattr.h`).
fn acl() -> Vec<u8> {
    let mut bytes = 2_u32.to_le_bytes().to_vec();
    let none = u32::MAX;
    for (tag, permissions, id) in [
        (0x01_u16, 6_u16, none),
        (0x02, 4, 54321),
        (0x04, 4, none),
        (0x10, 6, none),
        (0x20, 0, none),
    ] {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(permissions.to_le_bytes());
        bytes.extend(id.to_le_bytes());
    }
    bytes
}

fn set_attribute(path: &Path, name: &str, value: &[u8]) {
    let file = rustix::fs::open(path, OFlags::RDONLY, Mode::empty()).unwrap();
    rustix::fs::fsetxattr(&file, name, value, XattrFlags::empty())
        .unwrap_or_else(|error| panic!("{name} of {}: {error}", path.display()));
}
