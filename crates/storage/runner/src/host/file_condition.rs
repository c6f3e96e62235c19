//! Conditions on files, directories and mount points.

use super::probe::observe_host;
use super::{ConfigRoot, file};
use crate::system::{Answer, SystemError};
use braid_pool::fstab::decoded;
use braid_pool::step::Condition;
use std::path::Path;
use std::{fs, io};

/// The answer, or nothing for a condition on something else.
pub fn check(config: &ConfigRoot, condition: &Condition) -> Result<Option<Answer>, SystemError> {
    Ok(Some(match condition {
        Condition::NotMounted { at } => {
            Answer::when(!is_mount_point(at)?, || "something is mounted there".to_owned())
        }
        Condition::HidesNothing { at } => hides_nothing(Path::new(at))?,
        Condition::Directory { path } => {
            Answer::when(Path::new(path).is_dir(), || "there is none".to_owned())
        }
        Condition::FileHasLine { file, line } => {
            let text = read(&config.path(Path::new(file)))?;
            Answer::when(text.lines().any(|each| each == line), || "it hasn't".to_owned())
        }
        Condition::FileHolds { path, text } => {
            let holds = read(&config.path(Path::new(path)))? == *text;
            Answer::when(holds, || "it holds something else".to_owned())
        }
        Condition::KernelHas { path, value } => {
            let is = read(Path::new(path))?;
            Answer::when(is.trim() == value, || format!("it is {}", is.trim()))
        }
        Condition::KeyFile { path } => {
            let found = fs::metadata(path).is_ok_and(|found| found.is_file() && found.len() > 0);
            Answer::when(found, || "there is none".to_owned())
        }
        Condition::InitramfsFresh => {
            let stale = observe_host(config).initramfs_stale == Some(true);
            Answer::when(!stale, || "it is older than mdadm.conf".to_owned())
        }
        _ => return Ok(None),
    }))
}

fn hides_nothing(at: &Path) -> Result<Answer, SystemError> {
    let first = match fs::read_dir(at) {
        Ok(mut inside) => inside.next().transpose(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            return Ok(Answer::Fails("it is no folder".to_owned()));
        }
        Err(error) => Err(error),
    };
    match first {
        Ok(None) => Ok(Answer::Holds),
        Ok(Some(inside)) => Ok(Answer::Fails(format!(
            "there is {:?} in it, which the mount would hide: move it away, or mount elsewhere",
            inside.file_name()
        ))),
        Err(error) => Err(SystemError::Failed(format!("{}: {error}", at.display()))),
    }
}

/// Whether something is mounted at this path, in our mount namespace.
pub fn is_mount_point(at: &str) -> Result<bool, SystemError> {
    let table = read(Path::new("/proc/self/mountinfo"))?;
    // The fifth field.
    Ok(table.lines().filter_map(|line| line.split(' ').nth(4)).any(|field| decoded(field) == at))
}

fn read(path: &Path) -> Result<String, SystemError> {
    match file::read(path) {
        Ok(text) => Ok(text.unwrap_or_default()),
        Err(error) => Err(SystemError::Failed(format!("{}: {error}", path.display()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_is_a_mount_point_and_a_folder_is_not() {
        assert!(is_mount_point("/proc").unwrap());
        let folder = tempfile::tempdir().unwrap();
        assert!(!is_mount_point(folder.path().to_str().unwrap()).unwrap());
    }
}
