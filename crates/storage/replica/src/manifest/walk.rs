use super::{Content, Line};
use crate::error::Error;
use crate::exact_path::ExactPath;
use crate::subvolume::{ROOT_INODE, is_btrfs};
use rustix::fs::{SeekFrom, lgetxattr, llistxattr, seek};
use rustix::io::Errno;
use std::collections::HashMap;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
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

/// Reads everything below `folder`; contents are hashed by `threads` threads. `hashed` counts the
/// bytes hashed so far, for a progress display.
///
/// # Errors
/// Something can't be read, so nothing can be said about it.
pub fn read(folder: &Path, threads: usize, hashed: &AtomicU64) -> Result<Manifest, Error> {
    let mut manifest = Manifest::default();
    let top = fs::symlink_metadata(folder).map_err(|e| Error::io("looking at", folder, e))?;
    // Elsewhere any folder may have the number that a subvolume's root has there.
    let on_btrfs = File::open(folder).is_ok_and(|it| is_btrfs(&it));
    let mut hard_links = HashMap::new();
    let mut found = vec![(PathBuf::new(), top)];
    let mut at = 0;
    while let Some((path, about)) = found.get(at) {
        at += 1;
        if about.is_dir() {
            let (path, about) = (path.clone(), about.clone());
            let nested = &mut manifest.nested;
            enter(
                folder,
                &path,
                |it| is_other_subvolume(&about, it, on_btrfs),
                &mut found,
                nested,
            )?;
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
    is_nested: impl Fn(&Metadata) -> bool,
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
        if of_entry.is_dir() && is_nested(&of_entry) {
            nested.push(inside.into());
        } else {
            found.push((inside, of_entry));
        }
    }
    Ok(())
}

/// Another subvolume's root, or the empty folder in its place in a snapshot (inode 2).
fn is_other_subvolume(holder: &Metadata, inside: &Metadata, on_btrfs: bool) -> bool {
    const EMPTY_SUBVOLUME: u64 = 2;
    let is_root = || on_btrfs && matches!(inside.ino(), EMPTY_SUBVOLUME | ROOT_INODE);
    inside.dev() != holder.dev() || is_root()
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

/// Unit in which files are hashed: a piece of zeros counts the same as a hole.
const PIECE: usize = 64 << 10;
static ZEROS: [u8; PIECE] = [0; PIECE];

/// BLAKE3 of a file's contents. For a file with pieces of zeros, written or not, it covers the hash
/// of the other pieces and their positions: so a terabyte of holes needn't be read.
fn hash_file(path: &Path, hashed: &AtomicU64) -> Result<String, Error> {
    let read = || -> io::Result<String> {
        let file = File::open(path)?;
        let (mut data, mut places) = (blake3::Hasher::new(), blake3::Hasher::new());
        let (mut at, mut is_sparse, mut in_zeros) = (0, false, false);
        let mut turns = |in_zeros: &mut bool, zeros: bool, at: u64| {
            if zeros != std::mem::replace(in_zeros, zeros) {
                places.update(&at.to_le_bytes());
            }
        };
        let mut buffer = vec![0; PIECE];
        loop {
            let begins = data_behind(&file, at)? / PIECE as u64 * PIECE as u64;
            if begins > at {
                (is_sparse, _) = (true, turns(&mut in_zeros, true, at));
                at = begins;
            }
            let read = read_at(&file, &mut buffer, at)?;
            let piece = buffer.get(..read).unwrap_or_default();
            if piece.is_empty() {
                break;
            }
            hashed.fetch_add(read as u64, Ordering::Relaxed);
            let is_zero = ZEROS.starts_with(piece);
            turns(&mut in_zeros, is_zero, at);
            match is_zero {
                true => is_sparse = true,
                false => drop(data.update(piece)),
            }
            at += read as u64;
        }
        let data = data.finalize();
        Ok(match is_sparse {
            true => places.update(data.as_bytes()).finalize(),
            false => data,
        }
        .to_hex()
        .to_string())
    };
    read().map_err(|error| Error::io("reading", path, error))
}

/// Where the next data from `at` on may be; the file's end if there is none.
fn data_behind(file: &File, at: u64) -> io::Result<u64> {
    match seek(file, SeekFrom::Data(at)) {
        Ok(data) => Ok(data.max(at)),
        Err(Errno::NXIO) => Ok(file.metadata()?.len().max(at)),
        // Not supported: everything is data.
        Err(Errno::INVAL | Errno::OPNOTSUPP) => Ok(at),
        Err(error) => Err(error.into()),
    }
}

/// Reads until the buffer is full, or the file at its end.
fn read_at(file: &File, buffer: &mut [u8], at: u64) -> io::Result<usize> {
    let mut read = 0;
    while let Some(rest) = buffer.get_mut(read..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, at + read as u64) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
            Ok(0) => break,
            Ok(some) => read += some,
        }
    }
    Ok(read)
}

/// One hash over all attributes in the order of their names.
fn xattrs(path: &Path) -> io::Result<Option<String>> {
    let listed = match grown(|buffer| llistxattr(path, buffer)) {
        Err(Errno::OPNOTSUPP) => return Ok(None),
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
        let value = grown(|buffer| lgetxattr(path, name, buffer))?;
        for part in [name, &value] {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
    }
    Ok(Some(hasher.finalize().to_hex().to_string()))
}

/// Calls with a larger and larger buffer until the answer fits.
fn grown(call: impl Fn(&mut [u8]) -> Result<usize, Errno>) -> Result<Vec<u8>, Errno> {
    let mut buffer = vec![0; 1024];
    loop {
        match call(&mut buffer) {
            Ok(length) => {
                buffer.truncate(length);
                return Ok(buffer);
            }
            Err(Errno::RANGE) if buffer.len() <= 1 << 20 => buffer.resize(buffer.len() * 4, 0),
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of this size with these bytes at these places, and how many bytes were read to hash
    /// it.
    fn hash(size: u64, written: &[(u64, &[u8])]) -> (String, u64) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let file = File::create(&path).unwrap();
        file.set_len(size).unwrap();
        for (at, bytes) in written {
            file.write_all_at(bytes, *at).unwrap();
        }
        let hashed = AtomicU64::new(0);
        (hash_file(&path, &hashed).unwrap(), hashed.into_inner())
    }

    #[test]
    fn a_file_of_data_has_its_bytes_hash() {
        for length in [0, 1, PIECE, PIECE + 1, 3 * PIECE + 7] {
            let bytes: Vec<u8> = (0..length).map(|at| (at % 251) as u8 + 1).collect();
            let expected = blake3::hash(&bytes).to_hex().to_string();
            assert_eq!(hash(length as u64, &[(0, &bytes)]).0, expected, "{length} bytes");
        }
    }

    #[test]
    fn a_hole_is_the_same_as_zeros_and_is_not_read() {
        let zeros = vec![0; 5 * PIECE];
        for size in [5 * PIECE as u64, 5 * PIECE as u64 + 100] {
            for data in [0, PIECE as u64 - 3, 2 * PIECE as u64, size - 5] {
                let sparse = hash(size, &[(data, b"data!")]).0;
                let full =
                    hash(size, &[(0, &zeros), (size - 100, &zeros[..100]), (data, b"data!")]).0;
                assert_eq!(sparse, full, "data at {data} of {size}");
                let moved = hash(size, &[(data / 2 + 1, b"data!")]).0;
                assert_ne!(sparse, moved, "data at {data} of {size}");
            }
        }
        // The same data in a row, parted elsewhere.
        let (one, two) = (vec![1; PIECE], vec![1; 2 * PIECE]);
        let piece = |number: u64| number * PIECE as u64;
        let hash_of = |written: &[(u64, &[u8])]| hash(piece(9), written).0;
        assert_ne!(
            hash_of(&[(0, &one), (piece(4), &two)]),
            hash_of(&[(0, &two), (piece(5), &one)])
        );

        let (_, read) = hash(1 << 40, &[(123, b"x"), ((1 << 40) - 1, b"y")]);
        assert!(read <= 3 * PIECE as u64, "{read} bytes of a sparse terabyte");
    }
}
