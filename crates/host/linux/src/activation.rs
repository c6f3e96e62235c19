//! Sockets that the service manager listens on for us (sd_listen_fds(3)).

#![allow(unsafe_code)]

use crate::exec;
use rustix::net::sockopt::socket_acceptconn;
use std::ffi::OsStr;
use std::io;
use std::net::TcpListener;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering};

/// `SD_LISTEN_FDS_START` of sd-daemon.h.
const FIRST: RawFd = 3;

/// A descriptor has one owner.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// The TCP socket that this process was started with (`LISTEN_PID`, `LISTEN_FDS`). `None` if there
/// is none, or if it was already taken.
///
/// # Errors
/// `InvalidInput` for several sockets or one that isn't a listening TCP socket; errors of the
/// descriptor.
pub fn tcp_listener() -> io::Result<Option<TcpListener>> {
    let variable = |name: &str| std::env::var_os(name);
    let given = given(variable("LISTEN_PID").as_deref(), variable("LISTEN_FDS").as_deref());
    match given {
        None => Ok(None),
        Some(_) if TAKEN.swap(true, Ordering::Relaxed) => Ok(None),
        Some(1) => taken(FIRST).map(Some),
        Some(count) => {
            Err(invalid(format!("{count} sockets were passed, but only one is supported")))
        }
    }
}

/// How many sockets were passed to this process.
fn given(process: Option<&OsStr>, count: Option<&OsStr>) -> Option<u32> {
    let number = |text: Option<&OsStr>| text?.to_str()?.parse::<u32>().ok();
    let count = number(count).filter(|count| *count > 0);
    count.filter(|_| number(process) == Some(std::process::id()))
}

fn taken(number: RawFd) -> io::Result<TcpListener> {
    // SAFETY: the parent process passed this descriptor to us, and it is taken only once.
    let listener = TcpListener::from(unsafe { exec::inherited(number)? });
    let no_tcp = |_| invalid("the passed descriptor is not a TCP socket".to_owned());
    listener.local_addr().map_err(no_tcp)?;
    match socket_acceptconn(&listener)? {
        true => Ok(listener),
        false => Err(invalid("the passed socket isn't listening".to_owned())),
    }
}

fn invalid(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpStream, UdpSocket};
    use std::os::fd::IntoRawFd;

    #[test]
    fn what_is_for_another_process_is_not_ours() {
        let ours = std::process::id().to_string();
        let ask = |process: &str, count: &str| given(Some(process.as_ref()), Some(count.as_ref()));
        assert_eq!(ask(&ours, "1"), Some(1));
        assert_eq!(ask(&ours, "2"), Some(2));
        assert_eq!(ask("1", "1"), None, "an environment that was inherited");
        assert_eq!(ask(&ours, "0"), None);
        assert_eq!(ask(&ours, "x"), None);
        assert_eq!(given(None, Some("1".as_ref())), None);
        assert_eq!(given(Some(ours.as_ref()), None), None);
    }

    #[test]
    fn only_what_listens_for_tcp_is_taken() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let stream = TcpStream::connect(at).unwrap();
        let datagrams = UdpSocket::bind("127.0.0.1:0").unwrap();
        let file = tempfile::tempfile().unwrap();
        for other in [stream.into_raw_fd(), datagrams.into_raw_fd(), file.into_raw_fd()] {
            assert!(taken(other).is_err());
        }
        assert_eq!(taken(listener.into_raw_fd()).unwrap().local_addr().unwrap(), at);
    }
}
