use crate::parts;
use braid_units::ByteSize;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempPath;

/// A file used as a disk, by one machine at a time (the kernel locks it). What a machine wrote is
/// visible to the next, even if the power was cut; what it held in memory is lost.
#[derive(Clone, Debug)]
pub struct DiskImage {
    path: PathBuf,
    _removed_with_the_last: Option<Arc<TempPath>>,
}

impl DiskImage {
    /// A new, empty, sparse file that is kept.
    ///
    /// # Errors
    /// The file exists, or can't be created.
    pub fn create(path: &Path, size: ByteSize) -> io::Result<Self> {
        File::create_new(path)?.set_len(size.bytes())?;
        Self::existing(path)
    }

    /// An existing file.
    ///
    /// # Errors
    /// It doesn't exist.
    pub fn existing(path: &Path) -> io::Result<Self> {
        Ok(DiskImage { path: path.canonicalize()?, _removed_with_the_last: None })
    }

    /// A new, empty, sparse file that is removed with the last clone of this. It is in memory if
    /// there is room.
    ///
    /// # Errors
    /// It can't be created.
    pub fn temporary(size: ByteSize) -> io::Result<Self> {
        let folder = parts::memory_folder(size);
        let file = tempfile::Builder::new().prefix("braid-vm-disk-").tempfile_in(folder)?;
        file.as_file().set_len(size.bytes())?;
        let path = file.into_temp_path();
        Ok(DiskImage { path: path.to_path_buf(), _removed_with_the_last: Some(Arc::new(path)) })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}
