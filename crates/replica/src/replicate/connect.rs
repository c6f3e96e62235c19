use crate::error::Error;
use crate::wire::Link;
use braid_pool::place::Place;
use std::fs::File;
use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How another computer is reached.
#[derive(Clone, Debug)]
pub struct Connector {
    /// The remote shell and its arguments; host and command line follow.
    pub shell: Vec<String>,
    /// How `braid` is called there.
    pub braid: String,
    /// For listeners.
    pub key: Option<crate::listener::Key>,
}

/// A connection whose other end has been started.
pub struct Connected {
    /// To talk.
    pub link: Link,
    guard: Guard,
}

/// Ends the shell with the connection.
pub struct Guard {
    child: Option<Child>,
}

/// A dead network is noticed within half a minute.
const SSH: [&str; 5] =
    ["ssh", "-oServerAliveInterval=10", "-oServerAliveCountMax=3", "-oConnectTimeout=20", "-T"];

impl Default for Connector {
    fn default() -> Self {
        Connector { shell: SSH.map(str::to_owned).to_vec(), braid: "braid".to_owned(), key: None }
    }
}

impl Connector {
    /// Reaches `place` and starts the other end there.
    ///
    /// # Errors
    /// The shell isn't there, or nobody listens.
    pub fn connect(&self, place: &Place) -> Result<Connected, Error> {
        match place {
            Place::Local(path) => {
                Err(Error::Refused(format!("{} is on this computer", path.display())))
            }
            Place::Shell { host, port, .. } => self.start_shell(host, *port),
            Place::Listener { address, .. } => {
                let socket = connect_to(address)?;
                let link = crate::listener::greet(socket, self.key.as_ref())?;
                Ok(Connected { link, guard: Guard { child: None } })
            }
        }
    }

    fn start_shell(&self, host: &str, port: Option<u16>) -> Result<Connected, Error> {
        let Some((program, arguments)) = self.shell.split_first() else {
            return Err(Error::Refused("the remote shell's command is empty".to_owned()));
        };
        let mut command = Command::new(program);
        command.args(arguments);
        if let Some(port) = port {
            command.args(["-p", &port.to_string()]);
        }
        let remote = format!("{} pool replicate-agent", self.braid);
        let mut child = command
            .args([host, &remote])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => Error::Refused(format!("{program} is not installed")),
                _ => Error::Io { doing: format!("starting {program}"), error },
            })?;
        let (Some(out), Some(incoming)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Error::Refused(format!("{program} has no input or output")));
        };
        let link = Link::over(File::from(OwnedFd::from(incoming)), File::from(OwnedFd::from(out)));
        Ok(Connected { link, guard: Guard { child: Some(child) } })
    }
}

impl Connected {
    /// The link, and what must be finished after it.
    pub fn split(self) -> (Link, Guard) {
        (self.link, self.guard)
    }
}

/// A shell whose connection was closed ends by itself within this.
const END_WITHIN: Duration = Duration::from_secs(5);

impl Guard {
    /// Waits for the shell; the error that it tells of by its exit code is
    /// part of the outcome's.
    ///
    /// # Errors
    /// The outcome's.
    pub fn finish<T>(mut self, outcome: Result<T, Error>) -> Result<T, Error> {
        let Some(mut child) = self.child.take() else { return outcome };
        let until = Instant::now() + END_WITHIN;
        let status = loop {
            match child.try_wait() {
                Ok(None) if Instant::now() < until => {
                    std::thread::sleep(Duration::from_millis(20));
                }
                Ok(None) | Err(_) => {
                    let _ = child.kill();
                    let _ = child.wait();
                    break None;
                }
                Ok(status) => break status,
            }
        };
        match (outcome, status.and_then(|status| status.code())) {
            // As shells say: 127 not found, 126 not to be run.
            (Err(Error::Connection(_)), Some(127)) => Err(Error::Refused(
                "braid isn't installed at the other end, or not in the PATH there; \
                 name it with --remote-braid"
                    .to_owned(),
            )),
            (Err(Error::Connection(why)), Some(code)) if code != 0 => {
                Err(Error::Connection(format!("{why} (the remote shell ended with {code})")))
            }
            (outcome, _) => outcome,
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn connect_to(address: &str) -> Result<TcpStream, Error> {
    let failed = |error: std::io::Error| Error::Connection(format!("{address}: {error}"));
    let mut last = None;
    for address in address.to_socket_addrs().map_err(failed)? {
        match TcpStream::connect_timeout(&address, Duration::from_secs(20)) {
            Ok(socket) => {
                crate::listener::notice_death(socket.as_raw_fd());
                return Ok(socket);
            }
            Err(error) => last = Some(failed(error)),
        }
    }
    Err(last.unwrap_or_else(|| Error::Connection(format!("{address} has no address"))))
}
