//! Replication over plain TCP, for networks that are encrypted already, as
//! Braid's tunnel is. Both ends prove that they know the same key; what follows
//! is neither encrypted nor signed.

use crate::agent::{self, Allowed};
use crate::error::Error;
use crate::greeting::{Key, LISTENER, notice_death, shake_hands};
use crate::register::Register;
use crate::wire::is_readable;
use nix::ifaddrs::{InterfaceAddress, getifaddrs};
use nix::net::if_::if_nametoindex;
use nix::sys::socket::SockaddrStorage;
use socket2::{Domain, Socket, Type};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;

/// Does what is `allowed` for anyone who connects to `address` and knows the key, with one thread
/// per client and replications in `register` meanwhile; returns only with an error.
///
/// Only connections through the device that has the address are accepted, so an address in the
/// tunnel can't be reached from outside. While no device has it (the tunnel is down), or when it
/// returns on another device, this waits and listens again.
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
    check(address)?;
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

/// Checks that the address itself is acceptable for listening.
///
/// # Errors
/// It stands for every address of this computer.
pub fn check(address: SocketAddr) -> Result<(), Error> {
    match address.ip().is_unspecified() {
        true => Err(Error::Refused(format!(
            "{address} is every address of this computer, and what is sent isn't encrypted: name \
             the tunnel's own"
        ))),
        false => Ok(()),
    }
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

/// How often the address is checked.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// Clients waiting to be accepted.
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

/// The next client, if one connects within a moment.
fn next_caller(socket: &Socket) -> Result<Option<TcpStream>, Error> {
    let failed = |error| Error::Io { doing: "taking a call".to_owned(), error };
    // If this fails, accepting reports why.
    if !is_readable(socket, LOOK_AGAIN).unwrap_or(true) {
        return Ok(None);
    }
    let caller = match socket.accept() {
        Ok((caller, _)) => caller,
        // A client that hung up before being accepted is no reason to stop.
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
    // A connection outlives the device: the daemon may be restarted.
    caller.bind_device(None).map_err(failed)?;
    caller.set_nonblocking(false).map_err(failed)?;
    Ok(Some(caller.into()))
}

/// A network device. The index distinguishes a new one from its namesake.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Device {
    name: String,
    index: u32,
}

impl Device {
    /// The one that has `address`.
    fn with(address: IpAddr) -> Result<Option<Device>, Error> {
        let failed = |error: nix::Error| Error::Io {
            doing: "asking for this computer's addresses".to_owned(),
            error: error.into(),
        };
        let has_it = |entry: &InterfaceAddress| entry.address.and_then(ip_of) == Some(address);
        let Some(entry) = getifaddrs().map_err(failed)?.find(has_it) else { return Ok(None) };
        let name = device_of(&entry.interface_name).to_owned();
        // A device that has just disappeared can't be listened on either.
        let index = if_nametoindex(name.as_str()).unwrap_or(0);
        Ok(Some(Device { name, index }))
    }
}

/// An IPv4 address is listed by its label, which may be the device's name with a suffix of the
/// user's (`eth0:1`; ip-address(8)). Devices' names have no colon.
fn device_of(label: &str) -> &str {
    label.split(':').next().unwrap_or(label)
}

fn ip_of(address: SockaddrStorage) -> Option<IpAddr> {
    let v4 = address.as_sockaddr_in().map(|address| address.ip().into());
    v4.or_else(|| address.as_sockaddr_in6().map(|address| address.ip().into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_with_a_label_is_its_devices() {
        assert_eq!(device_of("eth0:backup"), "eth0");
        assert_eq!(device_of("braid0"), "braid0");
        let device = Device::with(IpAddr::from([127, 0, 0, 1])).unwrap();
        assert_eq!(device, Some(Device { name: "lo".to_owned(), index: 1 }));
        assert_eq!(Device::with(IpAddr::from([192, 0, 2, 1])).unwrap(), None);
    }
}
