//! Replication over plain TCP, for networks that are encrypted already, as
//! Braid's tunnel is. Both ends prove that they know the same key; what follows
//! is neither encrypted nor signed.

use crate::agent::{self, Allowed};
use crate::error::Error;
use crate::register::Register;
use crate::wire::{Connection, is_readable};
use socket2::{Domain, SockRef, Socket, TcpKeepalive, Type};
use std::ffi::CStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::path::Path;
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

    /// As [`Key::load`]; where there is no such file a new key is made and written
    /// there, for its owner only. Says whether it is new.
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

/// Does what is `allowed` for whoever calls at `address` and knows the key, one
/// caller a thread, with replications in `register` meanwhile; ends only with an error.
///
/// Only calls that come in by the device which has the address are heard, so one
/// in the tunnel can't be reached from outside. While no device has it (the
/// tunnel is down), or when it comes back on another, this waits and listens again.
///
/// # Errors
/// The address can't be listened on.
pub fn serve(
    address: SocketAddr,
    allowed: &Allowed,
    key: &Key,
    register: &Register,
    told: impl Fn(&str) + Send + Sync,
) -> Result<(), Error> {
    if address.ip().is_unspecified() {
        return Err(Error::Refused(format!(
            "{address} is every address of this computer, and what is sent isn't encrypted: name \
             the tunnel's own"
        )));
    }
    let told = &told;
    std::thread::scope(|scope| {
        let mut waits = false;
        loop {
            let Some(device) = Device::with(address.ip())? else {
                if !std::mem::replace(&mut waits, true) {
                    told(&format!("waiting until this computer has the address {}", address.ip()));
                }
                std::thread::sleep(LOOK_AGAIN);
                continue;
            };
            let socket = match listen(address, &device) {
                // It went away just now.
                Err(error) if error.raw_os_error() == Some(libc::ENODEV) => continue,
                other => other.map_err(|error| Error::Io {
                    doing: format!("listening on {address}"),
                    error,
                })?,
            };
            waits = false;
            told(&format!("listening on {address} ({})", device.name));
            while Device::with(address.ip())?.as_ref() == Some(&device) {
                let Some(caller) = next_caller(&socket)? else { continue };
                scope.spawn(move || attend(caller, allowed, key, register, told));
            }
        }
    })
}

fn attend(
    socket: TcpStream,
    allowed: &Allowed,
    key: &Key,
    register: &Register,
    told: &(impl Fn(&str) + Sync),
) {
    let caller = socket.peer_addr().map_or_else(|e| e.to_string(), |a| a.to_string());
    notice_death(&socket);
    match shake_hands(socket, LISTENER, key)
        .and_then(|connection| agent::serve(connection, allowed, register))
    {
        Ok(()) => told(&format!("{caller}: done")),
        Err(error) => told(&format!("{caller}: {error}")),
    }
}

/// How often the address is looked for.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// Callers who wait for being taken.
const BACKLOG: libc::c_int = 16;

fn listen(address: SocketAddr, device: &Device) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.bind_device(Some(device.name.as_bytes()))?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Who calls within a moment.
fn next_caller(socket: &Socket) -> Result<Option<TcpStream>, Error> {
    let failed = |error| Error::Io { doing: "taking a call".to_owned(), error };
    // What it can't tell, the call itself does.
    if !is_readable(socket, LOOK_AGAIN).unwrap_or(true) {
        return Ok(None);
    }
    let caller = match socket.accept() {
        Ok((caller, _)) => caller,
        // Who hung up before being heard is no reason to stop.
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::WouldBlock
                    | io::ErrorKind::Interrupted
                    | io::ErrorKind::ConnectionAborted
            ) =>
        {
            return Ok(None);
        }
        Err(error) => return Err(failed(error)),
    };
    // A connection outlives the device: the daemon may be started anew.
    caller.bind_device(None).map_err(failed)?;
    caller.set_nonblocking(false).map_err(failed)?;
    Ok(Some(caller.into()))
}

/// A network device. The number tells one that was made anew from its namesake.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Device {
    name: String,
    index: u32,
}

impl Device {
    /// The one that has `address`.
    fn with(address: IpAddr) -> Result<Option<Device>, Error> {
        let mut first = std::ptr::null_mut();
        // SAFETY: `first` is valid for writes.
        if unsafe { libc::getifaddrs(&raw mut first) } < 0 {
            let error = io::Error::last_os_error();
            return Err(Error::Io {
                doing: "asking for this computer's addresses".to_owned(),
                error,
            });
        }
        let mut found = None;
        let mut next: *const libc::ifaddrs = first;
        // SAFETY: entries of the list are valid until it is freed.
        while let (None, Some(entry)) = (&found, unsafe { next.as_ref() }) {
            next = entry.ifa_next;
            // SAFETY: as the list says, each address is a sockaddr of its family or null.
            if unsafe { ip_of(entry.ifa_addr) } == Some(address) {
                // SAFETY: a device's name ends with zero.
                let name = unsafe { CStr::from_ptr(entry.ifa_name) };
                // SAFETY: as above.
                let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
                found = Some(Device { name: name.to_string_lossy().into_owned(), index });
            }
        }
        // SAFETY: the list came from getifaddrs and isn't used any more.
        unsafe { libc::freeifaddrs(first) };
        Ok(found)
    }
}

/// # Safety
/// `address` is null, or a valid socket address of the family that it names.
unsafe fn ip_of(address: *const libc::sockaddr) -> Option<IpAddr> {
    // SAFETY: the caller's promise.
    let family = unsafe { address.as_ref() }?.sa_family;
    match libc::c_int::from(family) {
        libc::AF_INET => {
            // SAFETY: the family says so.
            let address = unsafe { &*address.cast::<libc::sockaddr_in>() };
            Some(Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: the family says so.
            let address = unsafe { &*address.cast::<libc::sockaddr_in6>() };
            Some(Ipv6Addr::from(address.sin6_addr.s6_addr).into())
        }
        _ => None,
    }
}

/// The caller's side of a connection that was just made.
pub(crate) fn greet(socket: TcpStream, key: Option<&Key>) -> Result<Connection, Error> {
    let key = key.ok_or_else(|| {
        Error::Refused("a listener wants a key: name its file with --key".to_owned())
    })?;
    shake_hands(socket, CALLER, key)
}

fn shake_hands(mut socket: TcpStream, role: u8, key: &Key) -> Result<Connection, Error> {
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
    Ok(Connection::over(file(socket), file(again)))
}

/// A peer that doesn't answer for half a minute is gone.
pub(crate) fn notice_death(socket: &TcpStream) {
    let alive = TcpKeepalive::new()
        .with_time(Duration::from_secs(10))
        .with_interval(Duration::from_secs(5))
        .with_retries(4);
    let socket = SockRef::from(socket);
    // Where it is refused, a dead peer is noticed later.
    let _ = socket.set_tcp_keepalive(&alive);
    let _ = socket.set_tcp_user_timeout(Some(Duration::from_secs(30)));
}

fn random() -> io::Result<Nonce> {
    let mut nonce = [0; 32];
    File::open("/dev/urandom")?.read_exact(&mut nonce)?;
    Ok(nonce)
}
