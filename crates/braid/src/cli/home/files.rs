use super::super::failure::Failure;
use super::super::free_file::free_file;
use super::joined::Joined;
use super::secrets::{Secrets, writing};
use braid_control::join_line::JoinLine;
use braid_handshake::{PrivateKey, os_random};
use std::path::{Path, PathBuf};

/// The files that a join writes. The config, which names the others, comes last: until then nothing
/// has changed.
pub struct Files {
    pub config: PathBuf,
    pub key: PathBuf,
    pub preshared_key: PathBuf,
    pub token: PathBuf,
    /// Whether an earlier join by the same line wrote them: those that exist are kept.
    pub are_kept: bool,
}

impl Files {
    /// Files next to the config; if there are keys already, under other names. A running tunnel
    /// removes the token that its config names, perhaps only now, so a new token gets another name.
    /// A join by the same line continues with its files.
    pub fn beside(config: &Path, old: Option<&Joined>) -> Files {
        let config = config.to_owned();
        if let Some(secrets) = old.and_then(|old| old.by_this_line.clone()) {
            return Files {
                config,
                key: secrets.key,
                preshared_key: secrets.preshared_key,
                token: secrets.token,
                are_kept: true,
            };
        }
        let named = old.iter().flat_map(|old| &old.secrets);
        let named: Vec<&Path> = named.map(PathBuf::as_path).collect();
        let file = |extension| free_file(&config.with_extension(extension), &named);
        let (key, preshared_key, token) = (file("key"), file("psk"), file("enrol"));
        Files { config, key, preshared_key, token, are_kept: false }
    }

    /// Writes them, taking `old` down in between.
    pub fn write(&self, line: &JoinLine, text: &str, old: Option<&Joined>) -> Result<(), Failure> {
        let folder = self.config.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder).map_err(writing(folder))?;
        let own = PrivateKey::generate(&mut os_random());
        let secrets = Secrets([
            (&self.key, own.to_base64()),
            (&self.preshared_key, line.token.preshared_key().to_base64()),
            (&self.token, line.token.key().to_base64()),
        ]);
        if !self.are_kept {
            secrets.write()?;
        }
        let copied = old.map_or(Ok(()), |old| old.save_copy(text));
        let stopped = copied.and_then(|()| old.map_or(Ok(()), Joined::stop));
        if let Err(failure) = stopped.and_then(|()| self.write_config(text, old.is_some())) {
            if !self.are_kept {
                secrets.remove();
            }
            return Err(failure);
        }
        if let Some(old) = old {
            old.remove_secrets();
        }
        Ok(())
    }

    fn write_config(&self, text: &str, replace: bool) -> Result<(), Failure> {
        let written = match replace {
            true => braid_durable::replace(&self.config, text.as_bytes(), None),
            false => braid_durable::create(&self.config, text.as_bytes(), 0o644),
        };
        written.map_err(writing(&self.config))
    }
}
