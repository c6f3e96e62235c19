use super::mount::TopLevel;
use crate::error::Error;
use crate::exact_path::ExactPath;
pub use crate::old_system::Part;
use crate::subvolume::{self, TOP_LEVEL};
use std::path::{Path, PathBuf};

/// The folder, on both filesystems, that holds snapshots during transfer.
pub const STAGING: &str = ".braid-clone";

/// The subvolumes of a system.
pub struct Layout {
    /// All to be transferred, the top level first, parents before children.
    pub parts: Vec<Part>,
    default: u64,
}

impl Layout {
    /// Reads it, without the subvolumes `skip` and what is below them.
    ///
    /// # Errors
    /// When the subvolumes can't be listed.
    pub fn read(top: &TopLevel, skip: &[PathBuf]) -> Result<Layout, Error> {
        let io = |error| Error::io("listing the subvolumes of", top.path(), error);
        let default = subvolume::default_subvolume(top.file()).map_err(io)?;
        let top_level = Part { id: TOP_LEVEL, path: PathBuf::new().into(), read_only: false };
        let listed = subvolume::list(top.file()).map_err(io)?;
        let skipped = |path: &Path| {
            path.starts_with(STAGING) || skip.iter().any(|other| path.starts_with(other))
        };
        let others = listed.into_iter().filter(|one| !skipped(&one.path)).map(|one| Part {
            id: one.id,
            path: one.path.into(),
            read_only: one.read_only,
        });
        Ok(Layout { parts: std::iter::once(top_level).chain(others).collect(), default })
    }

    /// The subvolume that is mounted when none is named.
    pub fn default_path(&self) -> ExactPath {
        let default = self.parts.iter().find(|part| part.id == self.default);
        default.map_or_else(|| PathBuf::new().into(), |part| part.path.clone())
    }

    /// The subvolume with the system: the one that is named, or else the first of
    /// the default one (openSUSE), `@` (Ubuntu), `root` (Fedora) and the top
    /// level that has an `etc/fstab`.
    ///
    /// # Errors
    /// [`Error::Refused`] when the named one is no subvolume with an `etc/fstab`, or none is
    /// named and none of the usual ones is.
    pub fn root(&self, top: &TopLevel, named: Option<&Path>) -> Result<ExactPath, Error> {
        let has_system = |path: &Path| top.path().join(path).join("etc/fstab").exists();
        if let Some(named) = named {
            let named = named.strip_prefix("/").unwrap_or(named);
            if self.parts.iter().any(|part| part.path.as_path() == named) && has_system(named) {
                return Ok(named.into());
            }
            return Err(Error::Refused(format!(
                "{} is no subvolume with an etc/fstab",
                named.display()
            )));
        }
        let default = self.default_path();
        let usual = [default.as_path(), Path::new("@"), Path::new("root"), Path::new("")];
        let found = usual.into_iter().find(|path| {
            self.parts.iter().any(|part| part.path.as_path() == *path) && has_system(path)
        });
        found.map(ExactPath::from).ok_or_else(|| {
            Error::Refused(
                "no subvolume with an etc/fstab was found; name it with --root".to_owned(),
            )
        })
    }
}
