//! How two ends that share a key greet each other over TCP.

use crate::error::Error;
use crate::wire::Connection;
use braid_durable::{ALL_BUT_OWNER, SecretError, open_secret};
use socket2::{SockRef, TcpKeepalive};
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

/// A key that both ends know.
#[derive(Clone)]
pub struct Key([u8; 32]);

impl Key {
    /// Reads a key file: at least 16 bytes of any kind, not counting trailing blanks.
    ///
    /// # Errors
    /// The file can't be read, others may read it, or it is too short to be a secret.
    pub fn load(path: &Path) -> Result<Key, Error> {
        let reading = |error| Error::io("reading the key", path, error);
        let mut file = open_secret(path, ALL_BUT_OWNER).map_err(|error| match error {
            SecretError::Io(error) => reading(error),
            SecretError::Exposed(_) => {
                let path = path.display();
                Error::Refused(format!("others can read the key: chmod 600 {path}"))
            }
        })?;
        let mut text = Vec::new();
        file.read_to_end(&mut text).map_err(reading)?;
        let secret = text.trim_ascii();
        if secret.len() < 16 {
            return Err(Error::Refused(format!(
                "{}: a key has at least 16 characters; make one: head -c 32 /dev/urandom | base64",
                path.display()
            )));
        }
        Ok(Key(blake3::derive_key("braid 2026 replication listener key", secret)))
    }

    /// As [`Key::load`]; if there is no such file, a new key is generated and written there,
    /// readable only by its owner. Returns whether it is new.
    ///
    /// # Errors
    /// As of [`Key::load`]; the file can't be written.
    pub fn load_or_make(path: &Path) -> Result<(Key, bool), Error> {
        let writing = |error| Error::io("writing the key", path, error);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(writing)?;
        }
        let text = blake3::Hash::from_bytes(random().map_err(writing)?).to_hex();
        let is_new = match braid_durable::create(path, format!("{text}\n").as_bytes(), 0o600) {
            Ok(()) => true,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
            Err(error) => return Err(writing(error)),
        };
        Ok((Key::load(path)?, is_new))
    }

    /// Proves knowledge of the key; `role` keeps one end's proof from serving as the other's.
    fn proof(&self, role: u8, ours: &Nonce, theirs: &Nonce) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        hasher.update(&[role]);
        hasher.update(ours);
        hasher.update(theirs);
        hasher.finalize()
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(..)")
    }
}

type Nonce = [u8; 32];

/// First bytes of both ends, so that strangers are recognised early.
const MAGIC: &[u8; 8] = b"braidrp1";
pub(crate) const LISTENER: u8 = 1;
const CALLER: u8 = 2;
const PATIENCE: Duration = Duration::from_secs(10);

/// The client's side of a new connection.
pub(crate) fn greet(socket: TcpStream, key: Option<&Key>) -> Result<Connection, Error> {
    let key = key.ok_or_else(|| {
        Error::Refused("a listener wants a key: name its file with --key".to_owned())
    })?;
    shake_hands(socket, CALLER, key)
}

pub(crate) fn shake_hands(mut socket: TcpStream, role: u8, key: &Key) -> Result<Connection, Error> {
    let broke = |error: io::Error| Error::Connection(error.to_string());
    socket.set_read_timeout(Some(PATIENCE)).map_err(broke)?;
    let ours = random().map_err(broke)?;
    socket.write_all(&[&MAGIC[..], &ours].concat()).map_err(broke)?;
    let mut magic = [0; 8];
    let mut theirs = [0; 32];
    socket.read_exact(&mut magic).map_err(broke)?;
    if magic != *MAGIC {
        let who = match role {
            LISTENER => "the caller is no braid that replicates",
            _ => "there is no braid listening",
        };
        return Err(Error::Refused(who.to_owned()));
    }
    socket.read_exact(&mut theirs).map_err(broke)?;
    socket.write_all(key.proof(role, &ours, &theirs).as_bytes()).map_err(broke)?;
    let mut proof = [0; 32];
    let refused = || Error::Refused("the other end has another key".to_owned());
    match socket.read_exact(&mut proof) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Err(refused()),
        other => other.map_err(broke)?,
    }
    let other_role = if role == LISTENER { CALLER } else { LISTENER };
    // Hashes compare in constant time.
    if key.proof(other_role, &theirs, &ours) != blake3::Hash::from_bytes(proof) {
        return Err(refused());
    }
    socket.set_read_timeout(None).map_err(broke)?;
    socket.set_nodelay(true).map_err(broke)?;
    let again = socket.try_clone().map_err(broke)?;
    let file = |socket| File::from(OwnedFd::from(socket));
    Ok(Connection::over(file(socket), file(again)))
}

/// A peer that doesn't answer for half a minute is gone.
pub(crate) fn notice_death(socket: &TcpStream) {
    let alive = TcpKeepalive::new()
        .with_time(Duration::from_secs(10))
        .with_interval(Duration::from_secs(5))
        .with_retries(4);
    let socket = SockRef::from(socket);
    // If it is refused, a dead peer is only noticed later.
    let _ = socket.set_tcp_keepalive(&alive);
    let _ = socket.set_tcp_user_timeout(Some(Duration::from_secs(30)));
}

fn random() -> io::Result<Nonce> {
    let mut nonce = [0; 32];
    File::open("/dev/urandom")?.read_exact(&mut nonce)?;
    Ok(nonce)
}
