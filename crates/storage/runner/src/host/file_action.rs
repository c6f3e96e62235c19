//! Actions on files and directories.

use super::ConfigRoot;
use crate::system::SystemError;
use braid_pool::key_text::{KEY_BYTES, key_text};
use braid_pool::luks::HEADER_BYTES;
use braid_pool::step::Action;
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use zeroize::Zeroizing;

/// Performs it. Running programs and waiting are done elsewhere: [`super::Host`].
pub fn perform(config: &ConfigRoot, action: &Action) -> Result<(), SystemError> {
    let (path, done) = match action {
        Action::WriteFile { path, text, mode } => {
            let at = config.path(Path::new(path));
            (path, braid_durable::replace(&at, text.as_bytes(), Some(*mode)))
        }
        Action::RemoveFile { path } => (path, braid_durable::remove(&config.path(Path::new(path)))),
        Action::EnsureLine { file, line, instead_of } => {
            let edit = |text: &str| with_line(text, line, instead_of.as_deref());
            (file, edit_file(&config.path(Path::new(file)), edit))
        }
        Action::RemoveLine { file, line } => {
            let edit = |text: &str| without_line(text, line);
            (file, edit_file(&config.path(Path::new(file)), edit))
        }
        Action::MakeDirectory { path } => (path, fs::create_dir_all(path)),
        Action::RemoveDirectory { path } => (path, remove_empty_folder(Path::new(path))),
        Action::MakeKeyFile { path } => (path, make_key_file(Path::new(path))),
        Action::RemoveKeys { path } => (path, braid_durable::remove(Path::new(path))),
        Action::BackUpHeader { device, file } => {
            (file, back_up_header(Path::new(device), Path::new(file)))
        }
        Action::SetKernel { path, value } => (path, fs::write(path, value)),
        Action::Run(_) | Action::WaitFor { .. } => return Ok(()),
    };
    done.map_err(|error| SystemError::Failed(format!("{path}: {error}")))
}

/// An existing one stays: it may open something else. Written without a newline, so that the key
/// typed from paper opens the same volumes.
fn make_key_file(path: &Path) -> io::Result<()> {
    if fs::metadata(path).is_ok_and(|found| found.len() > 0) {
        return Ok(());
    }
    make_private_folder(path)?;
    let mut bytes = Zeroizing::new([0; KEY_BYTES]);
    getrandom::fill(&mut *bytes).map_err(io::Error::other)?;
    let text = Zeroizing::new(key_text(&bytes));
    braid_durable::replace(path, text.as_bytes(), Some(0o400))
}

/// The first bytes of a LUKS2 volume are what `cryptsetup luksHeaderBackup` would copy, which
/// replaces no file.
///
/// # Errors
/// The device can't be read, or the file not be written.
pub fn back_up_header(device: &Path, file: &Path) -> io::Result<()> {
    let mut header = Vec::new();
    fs::File::open(device)?.take(HEADER_BYTES).read_to_end(&mut header)?;
    make_private_folder(file)?;
    braid_durable::replace(file, &header, Some(0o400))
}

/// Makes the file's folder if needed, accessible to its owner only; those above, such as
/// `/etc/braid`, get ordinary permissions.
fn make_private_folder(file: &Path) -> io::Result<()> {
    let Some(folder) = file.parent() else { return Ok(()) };
    if let Some(above) = folder.parent() {
        fs::create_dir_all(above)?;
    }
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// The text with the line added: in place of the first line that contains `instead_of`, or at the
/// end.
pub fn with_line(text: &str, line: &str, instead_of: Option<&str>) -> String {
    let gives_way = |each: &str| instead_of.is_some_and(|part| each.contains(part));
    let mut lines: Vec<&str> = Vec::new();
    let mut placed = text.lines().any(|each| each == line && !gives_way(each));
    for each in text.lines() {
        if !gives_way(each) {
            lines.push(each);
        } else if !placed {
            lines.push(line);
            placed = true;
        }
    }
    if !placed {
        lines.push(line);
    }
    joined(&lines)
}

/// The text without this line.
pub fn without_line(text: &str, line: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|each| *each != line).collect();
    joined(&lines)
}

fn joined(lines: &[&str]) -> String {
    lines.iter().flat_map(|line| [*line, "\n"]).collect()
}

fn edit_file(path: &Path, edit: impl FnOnce(&str) -> String) -> io::Result<()> {
    // A file that isn't text isn't rewritten: bytes would be lost.
    let old = match fs::read(path) {
        Ok(bytes) => Some(String::from_utf8(bytes).map_err(|_| io::ErrorKind::InvalidData)?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let new = edit(old.as_deref().unwrap_or(""));
    match old {
        Some(old) if old == new => Ok(()),
        None if new.is_empty() => Ok(()),
        _ => braid_durable::replace(path, new.as_bytes(), None),
    }
}

/// A folder that isn't empty, or that has something mounted on it, stays.
fn remove_empty_folder(path: &Path) -> io::Result<()> {
    match fs::remove_dir(path) {
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound
                    | io::ErrorKind::DirectoryNotEmpty
                    | io::ErrorKind::ResourceBusy
            ) =>
        {
            Ok(())
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_takes_the_place_of_the_one_it_replaces() {
        let old = "# disks\nUUID=1 /a ext4\nUUID=2 /b ext4";
        let new = with_line(old, "UUID=3 /a btrfs", Some(" /a "));
        assert_eq!(new, "# disks\nUUID=3 /a btrfs\nUUID=2 /b ext4\n");
        assert_eq!(with_line(&new, "UUID=3 /a btrfs", Some(" /a ")), new);
        assert_eq!(with_line("x\n", "x", None), "x\n");
        assert_eq!(with_line("x", "y", None), "x\ny\n");
    }

    #[test]
    fn only_the_very_line_goes() {
        assert_eq!(without_line("a\nab\na\n", "a"), "ab\n");
    }

    #[test]
    fn files_keep_their_mode_and_are_made_when_missing() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let config = ConfigRoot::at(folder.path());
        let fstab = folder.path().join("etc/fstab");
        let ensure = |line: &str| {
            let line = line.to_owned();
            let action = Action::EnsureLine { file: "/etc/fstab".into(), line, instead_of: None };
            perform(&config, &action).unwrap();
        };
        ensure("one");
        fs::set_permissions(&fstab, fs::Permissions::from_mode(0o640)).unwrap();
        ensure("two");
        assert_eq!(fs::read_to_string(&fstab).unwrap(), "one\ntwo\n");
        assert_eq!(fs::metadata(&fstab).unwrap().permissions().mode() & 0o777, 0o640);
        let others: Vec<_> = fs::read_dir(fstab.parent().unwrap()).unwrap().collect();
        assert_eq!(others.len(), 1, "nothing is left beside it");
    }
}
