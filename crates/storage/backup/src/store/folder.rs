use super::{LARGEST_BYTES, Name, Store, StoreError, bounded, id_of, size_of};
use crate::throttle::{PIECE, Throttle};
use bytes::Bytes;
use rustic_core::{FileType, Id};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A folder of this computer.
pub(super) struct FolderStore {
    folder: PathBuf,
    throttle: Arc<Throttle>,
}

/// How names end of what isn't written yet (`braid_durable::replace`).
const UNFINISHED: &str = ".braid-new";

impl FolderStore {
    pub(super) fn new(folder: PathBuf, throttle: Arc<Throttle>) -> FolderStore {
        FolderStore { folder, throttle }
    }

    fn path(&self, name: &Name) -> PathBuf {
        self.folder.join(name.path())
    }
}

impl Store for FolderStore {
    fn list(&self, kind: FileType) -> Result<Vec<(Id, u32)>, StoreError> {
        // An external disk that isn't mounted is no empty repository.
        if !self.folder.is_dir() {
            return match kind {
                FileType::Config => Ok(vec![]),
                _ => Err(StoreError::Final(format!("{} is not there", self.folder.display()))),
            };
        }
        let folder = self.folder.join(kind.dirname());
        match kind {
            FileType::Config => match fs::metadata(&folder) {
                Ok(about) => Ok(vec![(Id::default(), size_of(about.len())?)]),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(vec![]),
                Err(error) => Err(said(&error)),
            },
            FileType::Pack => {
                let mut all = vec![];
                for inner in entries(&folder)?.iter().filter(|path| path.is_dir()) {
                    all.extend(files(inner)?);
                }
                Ok(all)
            }
            _ => files(&folder),
        }
    }

    fn read(&self, name: &Name, part: Option<Range<u64>>) -> Result<Bytes, StoreError> {
        let path = self.path(name);
        let file = File::open(path).map_err(|error| said(&error))?;
        let Some(part) = part else {
            let mut content = vec![];
            file.take(LARGEST_BYTES + 1).read_to_end(&mut content).map_err(|error| said(&error))?;
            self.throttle.pass(content.len());
            return bounded(content.into());
        };
        let length = usize::try_from(part.end.saturating_sub(part.start)).unwrap_or(usize::MAX);
        let mut content = vec![0; length];
        file.read_exact_at(&mut content, part.start).map_err(|error| said(&error))?;
        self.throttle.pass(length);
        Ok(content.into())
    }

    fn write(&self, name: &Name, content: &[Bytes]) -> Result<(), StoreError> {
        if !self.folder.is_dir() {
            let text = format!("{} is gone: is it still mounted?", self.folder.display());
            return Err(StoreError::Final(text));
        }
        let write = |file: &mut File| {
            for piece in content.iter().flat_map(|bytes| bytes.chunks(PIECE)) {
                self.throttle.pass(piece.len());
                file.write_all(piece)?;
            }
            Ok(())
        };
        // As restic has them: whoever may write there need not be able to change it.
        braid_durable::replace_with(&self.path(name), Some(0o400), write)
            .map(drop)
            .map_err(|error| said(&error))
    }

    fn remove(&self, name: &Name) -> Result<(), StoreError> {
        match fs::remove_file(self.path(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other.map_err(|error| said(&error)),
        }
    }

    fn create(&self) -> Result<(), StoreError> {
        for name in ["data", "index", "keys", "locks", "snapshots"] {
            fs::create_dir_all(self.folder.join(name)).map_err(|error| said(&error))?;
        }
        Ok(())
    }

    fn tidy(&self) -> Result<(), StoreError> {
        for folder in entries(&self.folder.join(FileType::Pack.dirname()))? {
            for path in entries(&folder).unwrap_or_default() {
                let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
                let of = name.strip_prefix('.').and_then(|name| name.strip_suffix(UNFINISHED));
                // Who writes it holds it.
                if of.and_then(id_of).is_some()
                    && File::open(&path).is_ok_and(|file| file.try_lock().is_ok())
                {
                    fs::remove_file(&path).map_err(|error| said(&error))?;
                }
            }
        }
        Ok(())
    }
}

fn files(folder: &Path) -> Result<Vec<(Id, u32)>, StoreError> {
    let mut all = vec![];
    for path in entries(folder)? {
        let Some(id) = path.file_name().and_then(|name| id_of(name.to_str()?)) else { continue };
        match fs::metadata(&path) {
            Ok(about) => all.push((id, size_of(about.len())?)),
            // Another program that uses the repository removed it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(said(&error)),
        }
    }
    Ok(all)
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(vec![]),
        other => other.map_err(|error| said(&error))?,
    };
    let paths = entries.map(|entry| entry.map(|entry| entry.path()));
    paths.collect::<io::Result<_>>().map_err(|error| said(&error))
}

fn said(error: &io::Error) -> StoreError {
    match error.kind() {
        io::ErrorKind::NotFound => StoreError::Absent,
        // A sector that can't be read takes nothing from the others.
        _ if error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error()) => {
            StoreError::Damaged(error.to_string())
        }
        io::ErrorKind::UnexpectedEof => StoreError::Damaged("it is too short".to_owned()),
        // What a disk couldn't read it may read another time.
        io::ErrorKind::Interrupted | io::ErrorKind::TimedOut | io::ErrorKind::ResourceBusy => {
            StoreError::Passing(error.to_string())
        }
        _ => StoreError::Final(error.to_string()),
    }
}
