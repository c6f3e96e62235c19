//! A name that only one process per network namespace can hold, without a file: an abstract Unix
//! socket (unix(7)). It disappears with the process, however that ends, can't be deleted, and needs
//! no disk space.

#![allow(unsafe_code)]

use crate::sys;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, geteuid, kill_process};
use std::io;
use std::mem;
use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::Duration;

/// Holds a name until this is dropped.
#[derive(Debug)]
pub struct Claim {
    listener: Option<UnixListener>,
}

/// Another process has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its process id; 0 when it is in another PID namespace.
    pub process: i32,
}

/// A process that has just ended frees the name a moment later.
const TRIES: usize = 20;
const PAUSE: Duration = Duration::from_millis(10);

impl Claim {
    /// Takes the name, or says who has it. A name held by somebody with fewer rights is no reason
    /// to wait: then it is used without being held.
    ///
    /// # Errors
    /// Those of socket(2) and bind(2).
    pub fn take(name: &str) -> io::Result<Result<Claim, Holder>> {
        let address = address(name)?;
        for _ in 0..TRIES {
            match UnixListener::bind_addr(&address) {
                Ok(listener) => {
                    listener.set_nonblocking(true)?;
                    return Ok(Ok(Claim { listener: Some(listener) }));
                }
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
                Err(error) => return Err(error),
            }
            match seen_at(&address)? {
                Seen::Trusted(holder) => return Ok(Err(holder)),
                Seen::Other => return Ok(Ok(Claim { listener: None })),
                Seen::Nobody => std::thread::sleep(PAUSE),
            }
        }
        Ok(Ok(Claim { listener: None }))
    }

    /// The holder of the name, if there is one.
    ///
    /// # Errors
    /// Those of socket(2) and connect(2).
    pub fn holder(name: &str) -> io::Result<Option<Holder>> {
        Ok(match seen_at(&address(name)?)? {
            Seen::Trusted(holder) => Some(holder),
            Seen::Other | Seen::Nobody => None,
        })
    }

    /// Drops the connections of those who asked since the last call; otherwise the backlog would
    /// fill up.
    pub fn forget_askers(&self) {
        let Some(listener) = &self.listener else { return };
        while listener.accept().is_ok() {}
    }
}

impl Holder {
    /// Asks it to end in good order (`SIGTERM`).
    ///
    /// # Errors
    /// Those of kill(2), and `NotFound` for one in another PID namespace. It is no error if it has
    /// already ended.
    pub fn ask_to_end(self) -> io::Result<()> {
        // kill(2) signals many processes for such numbers.
        if self.process <= 0 {
            let why = "it is in another PID namespace (perhaps a container): stop it there";
            return Err(io::Error::new(io::ErrorKind::NotFound, why));
        }
        let Some(process) = Pid::from_raw(self.process) else { return Ok(()) };
        match kill_process(process, Signal::TERM) {
            Err(Errno::SRCH) => Ok(()),
            other => Ok(other?),
        }
    }
}

enum Seen {
    /// This user's or root's.
    Trusted(Holder),
    /// Any user may take a free name: a process of theirs isn't a daemon of ours.
    Other,
    Nobody,
}

fn address(name: &str) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("braid/{name}"))
}

fn seen_at(address: &SocketAddr) -> io::Result<Seen> {
    let stream = match UnixStream::connect_addr(address) {
        Ok(stream) => stream,
        // Nobody listens, or it is another kind of socket.
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => return Ok(Seen::Nobody),
        Err(error) if error.raw_os_error() == Some(libc::EPROTOTYPE) => return Ok(Seen::Other),
        Err(error) => return Err(error),
    };
    let credentials = credentials(&stream)?;
    Ok(match credentials.uid == geteuid().as_raw() || credentials.uid == 0 {
        true => Seen::Trusted(Holder { process: credentials.pid }),
        false => Seen::Other,
    })
}

/// Credentials of the listener, from when it began to listen (`SO_PEERCRED`, unix(7)).
fn credentials(stream: &UnixStream) -> io::Result<libc::ucred> {
    let mut found = libc::ucred { pid: 0, uid: libc::uid_t::MAX, gid: libc::gid_t::MAX };
    let mut length = mem::size_of_val(&found) as libc::socklen_t;
    // SAFETY: `found` and `length` are valid for writes and describe each other.
    sys::check(unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut found).cast(),
            &raw mut length,
        )
    })?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(of: &str) -> String {
        format!("test-{of}-{}", std::process::id())
    }

    #[test]
    fn one_has_a_name_until_it_lets_go_of_it() {
        let name = name("one");
        assert_eq!(Claim::holder(&name).unwrap(), None);
        let first = Claim::take(&name).unwrap().unwrap();
        let own = Holder { process: i32::try_from(std::process::id()).unwrap() };
        assert_eq!(Claim::take(&name).unwrap().unwrap_err(), own);
        assert_eq!(Claim::holder(&name).unwrap(), Some(own));
        drop(first);
        assert_eq!(Claim::holder(&name).unwrap(), None);
        Claim::take(&name).unwrap().unwrap();
    }

    #[test]
    fn as_many_may_ask_as_like() {
        let name = name("many");
        let claim = Claim::take(&name).unwrap().unwrap();
        for _ in 0..500 {
            assert!(Claim::holder(&name).unwrap().is_some());
            claim.forget_askers();
        }
    }

    #[test]
    fn one_that_is_out_of_sight_gets_no_signal() {
        let told = Holder { process: 0 }.ask_to_end().unwrap_err();
        assert_eq!(told.kind(), io::ErrorKind::NotFound);
    }

    /// A process that only wants to get in the way.
    #[test]
    fn who_does_not_listen_has_no_name() {
        let name = name("silent");
        let _datagrams =
            std::os::unix::net::UnixDatagram::bind_addr(&address(&name).unwrap()).unwrap();
        assert_eq!(Claim::holder(&name).unwrap(), None);
        Claim::take(&name).unwrap().unwrap();
    }
}
