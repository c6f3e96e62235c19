//! A target that is prepared and open.

mod backups;
mod check;
mod contents;
mod forget;

pub use backups::Present;
pub(crate) use backups::{INCOMPLETE, is_incomplete, paths_of, present, root_of, snapshot_id};
pub use check::CheckReport;
pub use contents::Entry;
pub(crate) use contents::as_shown;
pub use forget::Forgotten;

use crate::Error;
use crate::courier::Courier;
use crate::error::one_line;
use crate::key::Key;
use crate::target::Target;
use crate::target_options::TargetOptions;
use jiff::SignedDuration;
use rustic_core::repofile::MasterKey;
use rustic_core::{
    ConfigOptions, Credentials, FileType, KeyOptions, OpenStatus, ReadBackend, Repository,
    RepositoryBackends, RepositoryOptions, RusticError,
};
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// A target that is prepared and open.
pub struct Vault {
    target: Target,
    key: Key,
    target_options: TargetOptions,
    courier: Courier,
    /// The key of the repository, kept since deriving it costs a third of a second and 128 MB.
    opened: OnceLock<MasterKey>,
    /// When it was opened.
    since: Instant,
}

impl Vault {
    /// Opens what is there.
    ///
    /// # Errors
    /// Nothing is there, the key is another's, or the target can't be reached.
    pub fn open(target: Target, key: Key, target_options: TargetOptions) -> Result<Vault, Error> {
        let vault = Vault::with(target, key, target_options)?;
        vault.repository(false)?;
        Ok(vault)
    }

    fn with(target: Target, key: Key, target_options: TargetOptions) -> Result<Vault, Error> {
        let courier = Courier::new(&target, &target_options)?;
        let (opened, since) = (OnceLock::new(), Instant::now());
        Ok(Vault { target, key, target_options, courier, opened, since })
    }

    /// Prepares a target where nothing is; opens what is there already with this key.
    ///
    /// # Errors
    /// Something is there that this key doesn't open, or it can't be written.
    pub fn create(
        target: Target,
        key: Key,
        target_options: TargetOptions,
    ) -> Result<(Vault, bool), Error> {
        let vault = Vault::with(target, key, target_options)?;
        if vault.is_prepared()? {
            vault.repository(false)?;
            return Ok((vault, false));
        }
        if let Target::Folder(path) = &vault.target {
            let mut entries = std::fs::read_dir(path).into_iter().flatten().flatten();
            if entries.any(|entry| entry.file_name() != "lost+found") {
                return Err(Error::Refused(format!(
                    "{} isn't empty, and holds no backups: name a folder of their own",
                    path.display()
                )));
            }
        }
        let options = ConfigOptions::default();
        if vault.target_options.lock.is_some() {
            vault.courier.prepare()?;
            vault.courier.check_lock()?;
        }
        let repository = vault.told(vault.bare())?;
        let credentials = Credentials::password(vault.key.reveal());
        let made =
            repository.init(&credentials, &KeyOptions::default().with_created(true), &options);
        vault.told(made)?;
        vault.repository(false)?;
        Ok((vault, true))
    }

    /// Where it is.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// What opens it.
    pub fn key(&self) -> &Key {
        &self.key
    }

    pub(crate) fn courier(&self) -> &Courier {
        &self.courier
    }

    /// Whether the target can lock what it has.
    ///
    /// # Errors
    /// It can't, or can't be asked.
    pub fn check_lock(&self) -> Result<(), Error> {
        self.courier.check_lock()
    }

    pub(crate) fn target_options(&self) -> &TargetOptions {
        &self.target_options
    }

    /// What opens its files.
    pub(crate) fn master_key(&self) -> Option<&MasterKey> {
        self.opened.get()
    }

    /// How long it is open.
    pub(crate) fn opened_for(&self) -> SignedDuration {
        SignedDuration::try_from(self.since.elapsed()).unwrap_or(SignedDuration::MAX)
    }

    fn is_prepared(&self) -> Result<bool, Error> {
        Ok(!self.told(self.courier.list_with_size(FileType::Config))?.is_empty())
    }

    /// `cached` may take lists and folders from this computer.
    pub(crate) fn repository(&self, cached: bool) -> Result<Repository<OpenStatus>, Error> {
        if !self.is_prepared()? {
            return Err(Error::Empty(self.target.shown()));
        }
        let mut options = RepositoryOptions::default();
        match &self.target_options.cache {
            Some(folder) if cached => options.cache_dir = Some(folder.clone()),
            _ => options.no_cache = true,
        }
        let backends = RepositoryBackends::new(Arc::new(self.courier.clone()), None);
        let bare = || {
            let watch = self.target_options.watch.clone();
            self.told(Repository::new_with_progress(&options, &backends, watch))
        };
        let repository = bare()?;
        if let Some(opened) = self.opened.get() {
            return self.told(repository.open(&Credentials::Masterkey(opened.clone())));
        }
        let wrong = || Error::WrongKey {
            key: self.key.file().display().to_string(),
            target: self.target.shown(),
        };
        let repository = match repository.open(&Credentials::password(self.key.reveal())) {
            Err(error)
                if error.is_incorrect_password()
                    && self.told(self.courier.list_with_size(FileType::Key))?.is_empty() =>
            {
                let what = "no keys are listed there: its list is behind, and a later try finds \
                            them, or somebody has removed them";
                let what = what.to_owned();
                return Err(Error::Target { target: self.target.shown(), what });
            }
            Err(error) if error.is_incorrect_password() => {
                let meant = self.key.meant().ok_or_else(wrong)?;
                match bare()?.open(&Credentials::password(&*meant)) {
                    Err(error) if error.is_incorrect_password() => return Err(wrong()),
                    other => self.told(other)?,
                }
            }
            other => self.told(other)?,
        };
        let _ = self.opened.set(repository.key());
        Ok(repository)
    }

    fn bare(&self) -> Result<Repository<()>, Box<RusticError>> {
        let options = RepositoryOptions::default().no_cache(true);
        let backends = RepositoryBackends::new(Arc::new(self.courier.clone()), None);
        Repository::new_with_progress(&options, &backends, self.target_options.watch.clone())
    }

    /// Prefers the target's own error to what the library makes of it.
    pub(crate) fn told<T>(&self, result: Result<T, Box<RusticError>>) -> Result<T, Error> {
        result.map_err(|error| {
            self.courier.failure().unwrap_or_else(|| Error::Format(one_line(&error)))
        })
    }
}

pub(crate) fn utf8(path: &Path) -> Result<&str, Error> {
    let text = path.to_str();
    text.ok_or_else(|| Error::Refused(format!("{}: the path is to be UTF-8", path.display())))
}
