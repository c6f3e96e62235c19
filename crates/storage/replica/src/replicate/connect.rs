use super::shell::Guard;
use crate::error::Error;
use crate::register::Order;
use crate::wire::{Connection, Message, Open, PROTOCOL, Work};
use braid_pool::place::Place;
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// How another computer is reached.
#[derive(Clone, Debug)]
pub struct Connector {
    /// The remote shell and its arguments; host and command line follow.
    pub shell: Vec<String>,
    /// The command for `braid` there.
    pub braid: String,
    /// For listeners.
    pub key: Option<crate::greeting::Key>,
}

/// A connection whose other end has been started.
pub struct Connected {
    /// For the exchange.
    pub connection: Connection,
    guard: Guard,
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
                let connection = crate::greeting::greet(socket, self.key.as_ref())?;
                Ok(Connected { connection, guard: Guard::default() })
            }
        }
    }

    /// Reaches `place` and says what to do there.
    ///
    /// # Errors
    /// As of [`Connector::connect`].
    pub(crate) fn open(
        &self,
        place: &Place,
        work: Work,
        order: Option<Order>,
    ) -> Result<Connected, Error> {
        let Connected { mut connection, guard } = self.connect(place)?;
        match connection.say(Message::Open(Open { protocol: PROTOCOL, work, order })) {
            Ok(()) => Ok(Connected { connection, guard }),
            // Its shell says why it is gone.
            Err(error) => guard.finish(Err(error)),
        }
    }

    fn start_shell(&self, host: &str, port: Option<u16>) -> Result<Connected, Error> {
        let remote = format!("{} pool replicate-agent", self.braid);
        let (connection, guard) = Guard::start(&self.shell, port, host, &remote)?;
        Ok(Connected { connection, guard })
    }
}

impl Connected {
    /// The connection, and what must be finished after it.
    pub fn split(self) -> (Connection, Guard) {
        (self.connection, self.guard)
    }
}

fn connect_to(address: &str) -> Result<TcpStream, Error> {
    let failed = |error: std::io::Error| Error::Connection(format!("{address}: {error}"));
    let mut last = None;
    for address in address.to_socket_addrs().map_err(failed)? {
        match TcpStream::connect_timeout(&address, Duration::from_secs(20)) {
            Ok(socket) => {
                crate::greeting::notice_death(&socket);
                return Ok(socket);
            }
            Err(error) => last = Some(failed(error)),
        }
    }
    Err(last.unwrap_or_else(|| Error::Connection(format!("{address} has no address"))))
}
