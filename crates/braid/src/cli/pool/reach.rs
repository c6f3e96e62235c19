use crate::cli::failure::{Failure, tell};
use braid_replica::greeting::Key;
use braid_replica::replicate::{Connector, Place};
use clap::Args;
use std::path::{Path, PathBuf};

const BRAID: &str = "braid";
const KEY: &str = "/etc/braid/replica.key";

/// How another computer is reached.
#[derive(Args)]
pub struct Reach {
    /// Remote shell with its arguments, called with the host and a command
    /// [default: ssh with keepalives]
    #[arg(long, value_name = "COMMAND")]
    rsh: Option<String>,
    /// Command that runs braid at the other end
    #[arg(long, default_value = BRAID, value_name = "PATH")]
    remote_braid: String,
    /// File with the key shared by both ends of tcp://; --serve creates it if it is missing
    #[arg(long, value_name = "FILE", default_value = KEY)]
    key: PathBuf,
}

impl Reach {
    /// The library's connector for reaching `places`.
    pub fn connector(&self, places: &[&Place]) -> Result<Connector, Failure> {
        let usual = Connector::default();
        let shell = match &self.rsh {
            Some(command) => command.split_whitespace().map(str::to_owned).collect(),
            None => usual.shell,
        };
        let wants_key = places.iter().any(|place| matches!(place, Place::Listener { .. }));
        let key = wants_key.then(|| Key::load(&self.key)).transpose()?;
        Ok(Connector { shell, braid: self.remote_braid.clone(), key })
    }

    /// The command-line options that say the same.
    pub fn words(&self) -> Vec<String> {
        let mut words = vec!["--remote-braid".to_owned(), self.remote_braid.clone()];
        words.extend(self.rsh.iter().flat_map(|shell| ["--rsh".to_owned(), shell.clone()]));
        words.extend(["--key".to_owned(), self.key.display().to_string()]);
        words
    }

    /// Like [`Reach::words`], without defaults.
    pub fn unusual_words(&self) -> Vec<String> {
        let mut words: Vec<String> = Vec::new();
        words.extend(self.rsh.iter().flat_map(|shell| ["--rsh".to_owned(), shell.clone()]));
        if self.remote_braid != BRAID {
            words.extend(["--remote-braid".to_owned(), self.remote_braid.clone()]);
        }
        if self.key != Path::new(KEY) {
            words.extend(["--key".to_owned(), absolute(&self.key).display().to_string()]);
        }
        words
    }

    /// A listener's key; if it is new, the user is told.
    pub fn key_to_serve_with(&self) -> Result<Key, Failure> {
        let (key, is_new) = Key::load_or_make(&self.key)?;
        if is_new {
            let path = self.key.display();
            tell(&format!(
                "made a new key, {path}: copy it to the other computer, for example with scp"
            ));
        }
        Ok(key)
    }
}

/// An absolute path, valid from any directory.
pub fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
