//! Whether a folder for replicas is on the filesystem that is meant: where a disk isn't mounted, what is below its mount
//! point takes anything and fills up.

use crate::beneath::shown;
use crate::error::Error;
use braid_pool::fstab::{self, decoded};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Makes the folder, if only it is lacking, on what is mounted there.
///
/// # Errors
/// What fstab has there isn't mounted, or the folder isn't in one that is there.
pub(crate) fn prepare(folder: &Path) -> Result<(), Error> {
    let full = resolved(folder)?;
    let [fstab, mounted] = ["/etc/fstab", "/proc/self/mountinfo"]
        .map(|file| fs::read(file).map(|text| String::from_utf8_lossy(&text).into_owned()));
    // Without these nothing is known to be lacking.
    if let (Ok(fstab), Ok(mounted)) = (fstab, mounted)
        && let Some(why) = unmounted(&full, &fstab, &mounted)
    {
        return Err(Error::Refused(why));
    }
    match fs::create_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let parent = full.parent().unwrap_or(&full).display();
            Err(Error::Refused(format!(
                "{parent} isn't there, and only the last folder of a path is made. Is what belongs there mounted? \
                 If it is: mkdir -p '{parent}'"
            )))
        }
        other => other.map_err(|error| Error::io("making the folder", folder, error)),
    }
}

/// The path without links, as far as it is there.
fn resolved(folder: &Path) -> Result<PathBuf, Error> {
    let io = |error| Error::io("finding", folder, error);
    let absolute = std::path::absolute(shown(folder)).map_err(io)?;
    for there in absolute.ancestors() {
        match fs::canonicalize(there) {
            Ok(found) => {
                let lacking = absolute.strip_prefix(there).unwrap_or(Path::new(""));
                return Ok(found.components().chain(lacking.components()).collect());
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(io(error)),
        }
    }
    Ok(absolute)
}

/// What fstab has on the way to `folder` and isn't mounted.
fn unmounted(folder: &Path, fstab: &str, mountinfo: &str) -> Option<String> {
    // Fields are parted by single blanks; the fifth is where (proc(5)).
    let mounted: Vec<String> =
        mountinfo.lines().filter_map(|line| line.split(' ').nth(4)).map(decoded).collect();
    let is_mounted = |at: &Path| mounted.iter().any(|mounted| Path::new(mounted) == at);
    let lacking = fstab::entries(fstab).find(|entry| {
        let at = Path::new(&entry.at);
        let at = fs::canonicalize(at).unwrap_or_else(|_| at.to_owned());
        at != Path::new("/") && at.is_absolute() && folder.starts_with(&at) && !is_mounted(&at)
    })?;
    Some(format!(
        "{} belongs on {}, which isn't mounted (/etc/fstab, line {}): mount '{}'",
        folder.display(),
        lacking.what,
        lacking.line,
        lacking.at
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fstab_has_on_the_way_must_be_mounted() {
        let fstab = "UUID=1 / ext4 defaults 0 1\nUUID=2 /srv/my\\040data btrfs noauto 0 0\n\
                     UUID=3 none swap sw 0 0\n/dev/x /srv/my\\040data/inner ext4 nofail 0 0";
        let lacks = |folder: &str, mounted: &str| {
            unmounted(
                Path::new(folder),
                fstab,
                &format!("1 1 8:1 / / rw - ext4 /dev/a rw{mounted}"),
            )
        };
        let outer = "\n2 1 0:2 / /srv/my\\040data rw - btrfs /dev/b rw";
        let said = lacks("/srv/my data/replicas", "").unwrap();
        assert!(said.contains("UUID=2") && said.contains("line 2"), "{said}");
        assert!(lacks("/srv/my data", "").is_some());
        assert_eq!(lacks("/srv/my data 2", ""), None);
        assert_eq!(lacks("/srv", ""), None);
        assert_eq!(lacks("/srv/my data/replicas", outer), None);
        assert!(lacks("/srv/my data/inner/x", outer).unwrap().contains("/dev/x"));
    }

    #[test]
    fn only_the_last_folder_is_made() {
        let folder = tempfile::tempdir().unwrap();
        let refused = prepare(&folder.path().join("a/b")).unwrap_err().to_string();
        assert!(refused.contains("mkdir -p") && !folder.path().join("a").exists(), "{refused}");
        prepare(&folder.path().join("a")).unwrap();
        prepare(&folder.path().join("a")).unwrap();
        assert!(folder.path().join("a").is_dir());
    }
}
