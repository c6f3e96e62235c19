//! Credentials for servers, `AWS_ACCESS_KEY_ID` and the like, from the environment or from a file
//! of `NAME=VALUE` lines. The file is read again when a server refuses, since somebody may have
//! renewed credentials that expire.

use crate::Error;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// The default file; it need not exist.
pub const DEFAULT: &str = "/etc/braid/backup.env";

/// Where secrets are looked up.
#[derive(Clone, Debug)]
pub struct Secrets {
    file: PathBuf,
    /// Whether it was named, so has to be there.
    named: bool,
}

/// Those of S3.
pub(crate) struct S3Secrets {
    pub key: String,
    pub secret: Zeroizing<String>,
    pub token: Option<String>,
    pub region: String,
}

impl Secrets {
    /// In this file, or else in the environment.
    pub fn at(file: Option<&Path>) -> Secrets {
        Secrets { file: file.unwrap_or(Path::new(DEFAULT)).to_owned(), named: file.is_some() }
    }

    pub(crate) fn s3(&self) -> Result<S3Secrets, Error> {
        let lines = self.lines()?;
        let get = |name: &str| {
            lines
                .get(name)
                .cloned()
                .or_else(|| std::env::var(name).ok())
                .filter(|it| !it.is_empty())
        };
        let missing = |name: &str| {
            Error::Refused(format!(
                "{name} is in neither {} nor the environment",
                self.file.display()
            ))
        };
        Ok(S3Secrets {
            key: get("AWS_ACCESS_KEY_ID").ok_or_else(|| missing("AWS_ACCESS_KEY_ID"))?,
            secret: get("AWS_SECRET_ACCESS_KEY")
                .map(Zeroizing::new)
                .ok_or_else(|| missing("AWS_SECRET_ACCESS_KEY"))?,
            token: get("AWS_SESSION_TOKEN"),
            region: get("AWS_REGION")
                .or_else(|| get("AWS_DEFAULT_REGION"))
                .unwrap_or_else(|| "us-east-1".to_owned()),
        })
    }

    /// User and password of a REST server whose address names none.
    pub(crate) fn rest(&self) -> Result<Option<(String, String)>, Error> {
        let lines = self.lines()?;
        let get = |name: &str| lines.get(name).cloned().or_else(|| std::env::var(name).ok());
        Ok(get("RESTIC_REST_USERNAME").zip(get("RESTIC_REST_PASSWORD")))
    }

    fn lines(&self) -> Result<BTreeMap<String, String>, Error> {
        let text = match fs::read_to_string(&self.file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && !self.named => {
                return Ok(BTreeMap::new());
            }
            other => other.map_err(|error| Error::io("reading", &self.file, error))?,
        };
        let text = Zeroizing::new(text);
        let lines = text.lines().map(str::trim).filter(|it| !it.is_empty() && !it.starts_with('#'));
        lines
            .map(|line| {
                let line = line.strip_prefix("export ").unwrap_or(line);
                let (name, value) = line.split_once('=').ok_or_else(|| {
                    Error::Refused(format!("{}: a line is no NAME=VALUE", self.file.display()))
                })?;
                let value = value.trim();
                let bare = ['"', '\'']
                    .iter()
                    .find_map(|quote| value.strip_prefix(*quote)?.strip_suffix(*quote));
                Ok((name.trim().to_owned(), bare.unwrap_or(value).to_owned()))
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_as_systemd_and_shells_write_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("env");
        let text = "# mine\nexport AWS_ACCESS_KEY_ID=abc\nAWS_SECRET_ACCESS_KEY=\"d=e f\"\n\n";
        fs::write(&file, text).unwrap();
        let secrets = Secrets::at(Some(&file)).s3().unwrap();
        assert_eq!((secrets.key.as_str(), secrets.secret.as_str()), ("abc", "d=e f"));
        fs::write(&file, "nonsense").unwrap();
        assert!(Secrets::at(Some(&file)).s3().is_err());
        assert!(Secrets::at(Some(&folder.path().join("none"))).s3().is_err());
    }
}
