//! A folder with what to back up, a key, and how a target is spoken to.

use braid_backup::key::Key;
use braid_backup::secrets::Secrets;
use braid_backup::{
    Backup, Error, Finished, Ground, Restoration, Restored, Target, TargetOptions, Vault,
};
use braid_backup_targets::{KEY, S3Server, SECRET};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use tempfile::TempDir;

pub struct Place {
    pub folder: TempDir,
    pub target_options: TargetOptions,
}

impl Place {
    /// With files, `bytes` of them in one.
    pub fn new(bytes: usize) -> Place {
        let folder = tempfile::tempdir().unwrap();
        braid_backup_targets::fill(&folder.path().join("source"), bytes);
        let secrets = folder.path().join("secrets");
        let text = format!("AWS_ACCESS_KEY_ID={KEY}\nAWS_SECRET_ACCESS_KEY=\"{SECRET}\"\n");
        fs::write(&secrets, text).unwrap();
        Key::make(&folder.path().join("key")).unwrap();
        let target_options = TargetOptions {
            first_pause: Duration::from_millis(2),
            retries: 30,
            cache: Some(folder.path().join("cache")),
            ..TargetOptions::new(Secrets::at(Some(&secrets)))
        };
        Place { folder, target_options }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn key(&self) -> Key {
        Key::read(&self.path("key")).unwrap()
    }

    pub fn create(&self, target: &str) -> Vault {
        let target: Target = target.parse().unwrap();
        Vault::create(target, self.key(), self.target_options.clone()).unwrap().0
    }

    pub fn open(&self, target: &str) -> Result<Vault, Error> {
        Vault::open(target.parse().unwrap(), self.key(), self.target_options.clone())
    }

    pub fn back_up(&self, vault: &Vault, resumed: bool) -> Result<Finished, Error> {
        let ground = Ground::prepare(&self.path("source"), false, SystemTime::now()).unwrap();
        Backup { vault, ground: &ground, resumed, dry_run: false }.run()
    }

    pub fn restore(&self, vault: &Vault, to: &str) -> Result<Restored, Error> {
        let to = self.path(to);
        let which = "latest".to_owned();
        Restoration { vault, which, path: None, to, dry_run: false, warn: &|_| {} }.run()
    }

    /// What a copy lacks of the source.
    pub fn differences(&self, copy: &Path) -> Vec<String> {
        braid_backup_targets::differences(&self.path("source"), copy)
    }
}

/// As it is named, through whatever listens there.
pub fn s3_at(address: std::net::SocketAddr) -> String {
    format!("s3:http://{address}/backups/of/mine")
}

pub fn s3_server(place: &Place) -> S3Server {
    S3Server::start(&place.path("s3"))
}
