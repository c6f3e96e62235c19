//! Keys that systemd passes to the service: `LoadCredential=` and similar in the unit.

use super::key_file::KeyFile;
use super::path::file_path;
use super::section::Section;
use std::path::{Component, Path, PathBuf};

/// Prefix of a path that names a credential, as in units (systemd.unit(5)).
const FOLDER: &str = "%d";
/// Environment variable with their folder (systemd.exec(5)).
const VARIABLE: &str = "CREDENTIALS_DIRECTORY";
/// Where root finds those of each running service.
const ALL: &str = "/run/credentials";

/// The file with a secret that `key` names: a file's path, or `%d/NAME`.
pub(super) fn key_file(
    section: &mut Section<'_, '_>,
    key: &'static str,
    base: &Path,
) -> Option<KeyFile> {
    let path = section.parsed_by(key, |text| key_path(text, base))?;
    Some(KeyFile::named(path, section.line_of(key), key))
}

/// A key's path as in the config.
///
/// # Errors
/// The text after `%d` isn't a credential's name, or it isn't a path.
pub(super) fn key_path(text: &str, base: &Path) -> Result<PathBuf, String> {
    let mut parts = Path::new(text).components();
    if parts.next() == Some(Component::Normal(FOLDER.as_ref())) {
        let name = (parts.next(), parts.next());
        if !matches!(name, (Some(Component::Normal(_)), None)) {
            return Err(format!(
                "{text:?} isn't the path of a credential; write \"{FOLDER}/NAME\", and \
                 LoadCredential=NAME:FILE in the unit"
            ));
        }
    }
    file_path(text, base)
}

/// The folder of credentials of the service that runs the config `file`.
pub(super) struct Credentials(PathBuf);

impl Credentials {
    /// This process' credentials; if it has none (a command typed by root), those of the running
    /// service.
    pub(super) fn of(file: &Path) -> Credentials {
        let given = std::env::var_os(VARIABLE).map(PathBuf::from);
        Credentials(given.unwrap_or_else(|| of_service(file, Path::new(ALL))))
    }

    /// Resolves `path`, as returned by [`key_path`], of a config in `base`.
    pub(super) fn place(&self, path: &mut PathBuf, base: &Path) {
        if let Ok(name) = path.strip_prefix(base.join(FOLDER)) {
            *path = self.0.join(name);
        }
    }
}

/// Whether this is in a folder of them.
pub(super) fn is_one(file: &Path) -> bool {
    let given = std::env::var_os(VARIABLE).map(PathBuf::from);
    file.starts_with(ALL) || given.is_some_and(|given| file.starts_with(given))
}

/// Those of the first running unit; only one of those with this config runs.
fn of_service(file: &Path, all: &Path) -> PathBuf {
    let name = file.file_stem().unwrap_or_default().to_string_lossy();
    let mut units = vec![format!("braid@{name}.service")];
    if name == "braid" {
        units.splice(0..0, ["braid-home.service".into(), "braid-concentrator.service".into()]);
    }
    let folders: Vec<PathBuf> = units.iter().map(|unit| all.join(unit)).collect();
    folders.iter().find(|folder| folder.is_dir()).unwrap_or(&folders[0]).clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credential_is_a_name_alone() {
        for good in ["%d/braid.key", "braid.key", "/etc/braid/%d/key", "%done/key", "../%d/key"] {
            assert_eq!(key_path(good, Path::new("")), Ok(PathBuf::from(good)));
        }
        for bad in ["%d", "%d/", "%d/a/b", "%d/..", "%d/../key"] {
            assert!(key_path(bad, Path::new("")).unwrap_err().contains("%d/NAME"), "{bad}");
        }
    }

    #[test]
    fn credentials_are_those_of_the_service_that_runs_the_config() {
        let all = tempfile::tempdir().unwrap();
        let of = |file: &str| {
            let folder = of_service(Path::new(file), all.path());
            folder.file_name().unwrap().to_str().unwrap().to_owned()
        };
        let run = |unit: &str| std::fs::create_dir(all.path().join(unit)).unwrap();
        // It names a unit whether that runs or not.
        assert_eq!(of("/etc/braid/braid.toml"), "braid-home.service");
        assert_eq!(of("/etc/braid/office.toml"), "braid@office.service");
        run("braid@office.service");
        run("braid-concentrator.service");
        assert_eq!(of("/etc/braid/braid.toml"), "braid-concentrator.service");
        assert_eq!(of("/etc/braid/office.toml"), "braid@office.service");
        assert_eq!(of("/etc/braid/other.toml"), "braid@other.service");
    }

    #[test]
    fn only_what_names_a_credential_is_looked_for_among_them() {
        let credentials = Credentials("/run/credentials/braid-home.service".into());
        let placed = |path: &str| {
            let base = Path::new("/etc/braid");
            let mut path = key_path(path, base).unwrap();
            credentials.place(&mut path, base);
            path.to_str().unwrap().to_owned()
        };
        assert_eq!(placed("%d/key"), "/run/credentials/braid-home.service/key");
        assert_eq!(placed("home.key"), "/etc/braid/home.key");
        assert_eq!(placed("/root/%d/key"), "/root/%d/key");
    }
}
