//! Replication over plain TCP, for networks that are encrypted already, as
//! Braid's tunnel is. Both ends prove that they know the same key; what follows
//! is neither encrypted nor signed.

use crate::agent::{self, Allowed};
use crate::error::Error;
use crate::wire::Link;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A key that both ends know.
#[derive(Clone)]
pub struct Key([u8; 32]);

impl Key {
    /// Reads a key file: any text or bytes of at least 16, without blanks at the end.
    ///
    /// # Errors
    /// The file can't be read, or is too short to be a secret.
    pub fn load(path: &Path) -> Result<Key, Error> {
        let text = std::fs::read(path).map_err(|e| Error::io("reading the key", path, e))?;
        let secret = text.trim_ascii();
        if secret.len() < 16 {
            return Err(Error::Refused(format!(
                "{}: a key has at least 16 characters; make one: head -c 32 /dev/urandom | base64",
                path.display()
            )));
        }
        Ok(Key(blake3::derive_key("braid 2026 replication listener key", secret)))
    }

    /// What proves that who says it knows the key; `role` keeps one end's proof
    /// from being the other's.
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

/// First bytes of both ends, so that strangers are told apart early.
const MAGIC: &[u8; 8] = b"braidrp1";
const LISTENER: u8 = 1;
const CALLER: u8 = 2;
const PATIENCE: Duration = Duration::from_secs(10);

/// Takes replicas into `folder` from whoever calls and knows the key, one
/// caller a thread; ends only with an error.
///
/// # Errors
/// The address can't be listened on.
pub fn serve(
    listener: &TcpListener,
    folder: &Path,
    key: &Key,
    told: impl Fn(&str) + Send + Sync,
) -> Result<(), Error> {
    let told = &told;
    std::thread::scope(|scope| {
        for socket in listener.incoming() {
            let failed = |error| Error::Io { doing: "taking a call".to_owned(), error };
            let socket = socket.map_err(failed)?;
            let (folder, key) = (PathBuf::from(folder), key.clone());
            scope.spawn(move || {
                let caller = socket.peer_addr().map_or_else(|e| e.to_string(), |a| a.to_string());
                notice_death(socket.as_raw_fd());
                let outcome = shake_hands(socket, LISTENER, &key)
                    .and_then(|link| agent::serve(link, &Allowed::Into(folder)));
                match outcome {
                    Ok(()) => told(&format!("{caller}: done")),
                    Err(error) => told(&format!("{caller}: {error}")),
                }
            });
        }
        Ok(())
    })
}

/// The caller's side of a connection that was just made.
pub(crate) fn greet(socket: TcpStream, key: Option<&Key>) -> Result<Link, Error> {
    let key = key.ok_or_else(|| {
        Error::Refused("a listener wants a key: name its file with --key".to_owned())
    })?;
    shake_hands(socket, CALLER, key)
}

fn shake_hands(mut socket: TcpStream, role: u8, key: &Key) -> Result<Link, Error> {
    let broke = |error: io::Error| Error::Connection(error.to_string());
    socket.set_read_timeout(Some(PATIENCE)).map_err(broke)?;
    let ours = random().map_err(broke)?;
    socket.write_all(&[&MAGIC[..], &ours].concat()).map_err(broke)?;
    let mut magic = [0; 8];
    let mut theirs = [0; 32];
    socket.read_exact(&mut magic).map_err(broke)?;
    if magic != *MAGIC {
        return Err(Error::Refused("there is no braid listening".to_owned()));
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
    Ok(Link::over(file(socket), file(again)))
}

/// A peer that doesn't answer for half a minute is gone.
pub(crate) fn notice_death(socket: RawFd) {
    let set = |level, name, value: libc::c_int| {
        // SAFETY: an open socket, an integer and its size.
        unsafe {
            libc::setsockopt(
                socket,
                level,
                name,
                (&raw const value).cast(),
                size_of::<libc::c_int>() as libc::socklen_t,
            )
        };
    };
    set(libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1);
    set(libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, 10);
    set(libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, 5);
    set(libc::IPPROTO_TCP, libc::TCP_KEEPCNT, 4);
    set(libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, 30_000);
}

fn random() -> io::Result<Nonce> {
    let mut nonce = [0; 32];
    File::open("/dev/urandom")?.read_exact(&mut nonce)?;
    Ok(nonce)
}
