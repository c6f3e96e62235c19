use super::{Content, Line};
use crate::error::Error;
use crate::exact_path::ExactPath;
use crate::subvolume::ROOT_INODE;
use std::collections::HashMap;
use std::ffi::{CString, OsStr};
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// All lines of a folder, sorted by path, and what was left out.
#[derive(Debug, Default)]
pub struct Manifest {
    /// Sorted by path.
    pub lines: Vec<Line>,
    /// Subvolumes inside, which are no part of a snapshot or its stream.
    pub nested: Vec<ExactPath>,
    /// Bytes of all files.
    pub bytes: u64,
}

/// Reads everything below `folder`; contents are hashed by `threads` threads.
/// `hashed` counts the bytes that were, for whoever watches.
///
/// # Errors
/// Something can't be read: then nothing can be said about it.
pub fn read(folder: &Path, threads: usize, hashed: &AtomicU64) -> Result<Manifest, Error> {
    let mut manifest = Manifest::default();
    let top = fs::symlink_metadata(folder).map_err(|e| Error::io("looking at", folder, e))?;
    let mut hard_links = HashMap::new();
    let mut found = vec![(PathBuf::new(), top)];
    let mut at = 0;
    while let Some((path, about)) = found.get(at) {
        at += 1;
        if about.is_dir() {
            let (path, about) = (path.clone(), about.clone());
            enter(folder, &path, &about, &mut found, &mut manifest.nested)?;
        }
    }
    manifest.nested.sort();
    found.sort_by(|a, b| a.0.cmp(&b.0));
    for (path, about) in &found {
        let same_as = if about.is_dir() || about.nlink() < 2 {
            None
        } else {
            let first =
                hard_links.entry((about.dev(), about.ino())).or_insert_with(|| path.clone());
            (first != path).then(|| ExactPath::from(first.as_path()))
        };
        manifest.lines.push(line(folder, path, about, same_as)?);
        if about.is_file() {
            manifest.bytes += about.len();
        }
    }
    hash_all(folder, &mut manifest.lines, threads, hashed)?;
    Ok(manifest)
}

/// Adds what is in a folder.
fn enter(
    top: &Path,
    path: &Path,
    about: &Metadata,
    found: &mut Vec<(PathBuf, Metadata)>,
    nested: &mut Vec<ExactPath>,
) -> Result<(), Error> {
    let full = top.join(path);
    let entries = fs::read_dir(&full).map_err(|e| Error::io("reading the folder", &full, e))?;
    for entry in entries {
        let entry = entry.map_err(|e| Error::io("reading the folder", &full, e))?;
        let inside = path.join(entry.file_name());
        let at = entry.path();
        let of_entry = fs::symlink_metadata(&at).map_err(|e| Error::io("looking at", &at, e))?;
        if of_entry.is_dir() && is_other_subvolume(about, &of_entry) {
            nested.push(inside.into());
        } else {
            found.push((inside, of_entry));
        }
    }
    Ok(())
}

/// Another subvolume's root, or the empty folder that stands in its place in a
/// snapshot (inode 2).
fn is_other_subvolume(holder: &Metadata, inside: &Metadata) -> bool {
    const EMPTY_SUBVOLUME: u64 = 2;
    inside.dev() != holder.dev() || matches!(inside.ino(), EMPTY_SUBVOLUME | ROOT_INODE)
}

fn line(
    top: &Path,
    path: &Path,
    about: &Metadata,
    same_as: Option<ExactPath>,
) -> Result<Line, Error> {
    let full = top.join(path);
    let kind = about.file_type();
    let content = if kind.is_file() {
        Content::File { size: about.len(), hash: String::new() }
    } else if kind.is_dir() {
        Content::Folder
    } else if kind.is_symlink() {
        let target = fs::read_link(&full).map_err(|e| Error::io("reading the link", &full, e))?;
        Content::Symlink { target: target.into() }
    } else {
        let is_device = kind.is_block_device() || kind.is_char_device();
        Content::Node { device: if is_device { about.rdev() } else { 0 } }
    };
    Ok(Line {
        path: path.into(),
        mode: about.mode(),
        user: about.uid(),
        group: about.gid(),
        modified: (about.mtime(), about.mtime_nsec()),
        content,
        xattrs: xattrs(&full).map_err(|e| Error::io("reading the attributes of", &full, e))?,
        same_as,
    })
}

/// Hashes the files' contents, the next one by whichever thread is free.
fn hash_all(
    top: &Path,
    lines: &mut [Line],
    threads: usize,
    hashed: &AtomicU64,
) -> Result<(), Error> {
    let places: Vec<usize> = lines
        .iter()
        .enumerate()
        .filter(|(_, line)| matches!(line.content, Content::File { .. }) && line.same_as.is_none())
        .map(|(index, _)| index)
        .collect();
    let next = AtomicUsize::new(0);
    let hashes = Mutex::new(HashMap::new());
    std::thread::scope(|scope| {
        let work = || -> Result<(), Error> {
            while let Some(index) = places.get(next.fetch_add(1, Ordering::Relaxed)) {
                let Some(line) = lines.get(*index) else { continue };
                let hash = hash_file(&top.join(line.path.as_path()), hashed)?;
                if let Ok(mut hashes) = hashes.lock() {
                    hashes.insert(*index, hash);
                }
            }
            Ok(())
        };
        let workers: Vec<_> = (0..threads.max(1)).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| match worker.join() {
            Ok(outcome) => outcome,
            Err(_) => Err(Error::Refused("a hashing thread died".to_owned())),
        })
    })?;
    let hashes = hashes.into_inner().unwrap_or_default();
    for (index, found) in hashes {
        if let Some(Line { content: Content::File { hash, .. }, .. }) = lines.get_mut(index) {
            *hash = found;
        }
    }
    Ok(())
}

fn hash_file(path: &Path, hashed: &AtomicU64) -> Result<String, Error> {
    let read = || -> io::Result<String> {
        let mut file = File::open(path)?;
        let mut hasher = blake3::Hasher::new();
        let mut buffer = vec![0; 256 << 10];
        loop {
            let read = match io::Read::read(&mut file, &mut buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                other => other?,
            };
            if read == 0 {
                return Ok(hasher.finalize().to_hex().to_string());
            }
            hasher.update(buffer.get(..read).unwrap_or_default());
            hashed.fetch_add(read as u64, Ordering::Relaxed);
        }
    };
    read().map_err(|error| Error::io("reading", path, error))
}

/// One hash over all attributes in the order of their names.
fn xattrs(path: &Path) -> io::Result<Option<String>> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let listed = grown(|buffer| {
        // SAFETY: a zero-terminated path; the buffer with its length.
        unsafe { libc::llistxattr(path.as_ptr(), buffer.as_mut_ptr().cast(), buffer.len()) }
    });
    let listed = match listed {
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => return Ok(None),
        other => other?,
    };
    let mut names: Vec<&[u8]> = listed.split(|byte| *byte == 0).filter(|n| !n.is_empty()).collect();
    // What the kernel keeps for itself and streams don't carry.
    names.retain(|name| !name.starts_with(b"btrfs."));
    if names.is_empty() {
        return Ok(None);
    }
    names.sort_unstable();
    let mut hasher = blake3::Hasher::new();
    for name in names {
        let c_name = CString::new(OsStr::from_bytes(name).as_bytes())?;
        let value = grown(|buffer| {
            // SAFETY: zero-terminated texts; the buffer with its length.
            unsafe {
                libc::lgetxattr(
                    path.as_ptr(),
                    c_name.as_ptr(),
                    buffer.as_mut_ptr().cast(),
                    buffer.len(),
                )
            }
        })?;
        for part in [name, &value] {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
    }
    Ok(Some(hasher.finalize().to_hex().to_string()))
}

/// Calls with a larger and larger buffer until the answer fits.
fn grown(call: impl Fn(&mut Vec<u8>) -> libc::ssize_t) -> io::Result<Vec<u8>> {
    let mut buffer = vec![0; 1024];
    loop {
        match usize::try_from(call(&mut buffer)) {
            Ok(length) => {
                buffer.truncate(length);
                return Ok(buffer);
            }
            Err(_) => {
                let error = io::Error::last_os_error();
                if error.raw_os_error() != Some(libc::ERANGE) || buffer.len() > 1 << 20 {
                    return Err(error);
                }
                buffer.resize(buffer.len() * 4, 0);
            }
        }
    }
}
