use super::{Config, KeyFileError, credential};
use braid_handshake::{KeyError, PresharedKey, PrivateKey};
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Why a secret can't be read from its file.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// The system refused.
    #[error("{}: can't read the key: {error}{}", file.display(), hint(file, error))]
    Io {
        /// The key file.
        file: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// Users other than its owner's group can read it.
    #[error("{}: every user of this host can read this key (mode {mode:03o}); run `chmod 600 {}`", file.display(), file.display())]
    Exposed {
        /// The key file.
        file: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// It doesn't contain a key.
    #[error("{}: {error}", file.display())]
    Key {
        /// The key file.
        file: PathBuf,
        /// What is wrong with it.
        error: KeyError,
    },
    /// A peer would be ourselves.
    #[error(
        "{}: peer {peer:?} has this key's public key; set its public_key to what `braid pubkey` \
         prints on the other end",
        file.display()
    )]
    OwnPeer {
        /// The file with our private key.
        file: PathBuf,
        /// The peer's name.
        peer: String,
    },
}

fn hint(file: &Path, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound if credential::is_one(file) => "; it is there while the service \
            runs whose unit has LoadCredential= for it (`systemctl edit`); else name a file in \
            the config"
            .into(),
        io::ErrorKind::NotFound => {
            format!(
                "; create it with `braid keygen --out {}`, or correct its name in the config",
                file.display()
            )
        }
        _ => String::new(),
    }
}

impl Config {
    /// Reads the keys that the config names, like [`read_private_key`]; returns our own.
    ///
    /// # Errors
    /// Those of the files, with their place in the config; or if a peer has our own key.
    pub fn read_keys(&self) -> Result<PrivateKey, KeyFileError> {
        let file = &self.interface.private_key_file;
        let own = self.read_private_key()?;
        let public = own.public_key();
        if let Some(peer) = self.peers.iter().find(|peer| peer.public_key == public) {
            let peer = peer.name.as_str().to_owned();
            let error = SecretError::OwnPeer { file: file.to_path_buf(), peer };
            return Err(file.failed(&self.file, error));
        }
        for file in self.peers.iter().filter_map(|peer| peer.preshared_key_file.as_ref()) {
            read_preshared_key(file).map_err(|error| file.failed(&self.file, error))?;
        }
        for file in self.peers.iter().filter_map(|peer| peer.enrolment_key_file.as_ref()) {
            read_enrolment_key(file).map_err(|error| file.failed(&self.file, error))?;
        }
        Ok(own)
    }

    /// The files with keys that it names: our own, and those of peers.
    pub fn key_files(&self) -> impl Iterator<Item = &Path> {
        let of_peers = self.peers.iter();
        let of_peers =
            of_peers.flat_map(|peer| [&peer.preshared_key_file, &peer.enrolment_key_file]);
        let all = std::iter::once(&self.interface.private_key_file).chain(of_peers.flatten());
        all.map(|file| &**file)
    }

    /// Reads our own key, as [`read_private_key`] does.
    ///
    /// # Errors
    /// Those of the file, with its place in the config.
    pub fn read_private_key(&self) -> Result<PrivateKey, KeyFileError> {
        let file = &self.interface.private_key_file;
        read_private_key(file).map_err(|error| file.failed(&self.file, error))
    }
}

/// Reads a private key from a file that the world can't read.
///
/// # Errors
/// [`SecretError::Io`] when it can't be read, [`SecretError::Exposed`] when every user can read
/// it, [`SecretError::Key`] when what it holds is no key.
pub fn read_private_key(file: &Path) -> Result<PrivateKey, SecretError> {
    read_secret(file)
}

/// Reads a preshared key from a file that the world can't read.
///
/// # Errors
/// [`SecretError::Io`] when it can't be read, [`SecretError::Exposed`] when every user can read
/// it, [`SecretError::Key`] when what it holds is no key.
pub fn read_preshared_key(file: &Path) -> Result<PresharedKey, SecretError> {
    read_secret(file)
}

/// Reads the key of a join line's token; `None` when it has been used and its file is gone.
///
/// # Errors
/// As [`read_private_key`], except that a missing file is no error.
pub fn read_enrolment_key(file: &Path) -> Result<Option<PrivateKey>, SecretError> {
    match read_secret(file) {
        Ok(key) => Ok(Some(key)),
        Err(SecretError::Io { error, .. }) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Writes `secret` and a line end to a new file that only its owner can read.
/// Keys are not overwritten.
///
/// # Errors
/// [`io::ErrorKind::AlreadyExists`] when the file exists, otherwise the system's error. An
/// incompletely written file stays.
pub fn write_secret(file: &Path, secret: &str) -> io::Result<()> {
    braid_durable::create(file, format!("{secret}\n").as_bytes(), 0o600)
}

/// Maximum size of a key file, in case it is the wrong file.
const MAX_KEY_FILE: u64 = 4096;

fn read_secret<K: FromStr<Err = KeyError>>(path: &Path) -> Result<K, SecretError> {
    let text = braid_durable::read_secret(path, MAX_KEY_FILE).map_err(|error| match error {
        braid_durable::SecretError::Io(error) => SecretError::Io { file: path.to_owned(), error },
        braid_durable::SecretError::Exposed(mode) => {
            SecretError::Exposed { file: path.to_owned(), mode }
        }
    })?;
    text.parse().map_err(|error| SecretError::Key { file: path.to_owned(), error })
}
