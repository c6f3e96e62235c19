//! The concentrator's end: a TCP port where homes' connections come in, and strangers find a
//! web server.

use crate::certificate::{Certificate, CertificateError};
use crate::connection::{carry, exported};
use crate::end::End;
use crate::group::Group;
use crate::knock::{GroupId, KNOCK, answer, group_of};
use crate::lasting::lasting;
use crate::{socket, web};
use braid_handshake::PublicKey;
use braid_linux::udp::{Family, LinkSocket};
use braid_runtime::Runtime;
use socket2::SockRef;
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

/// Maximum concurrent connections that haven't knocked yet; more wait in the kernel.
const STRANGERS: usize = 256;
/// How long such a connection may take for TLS and its request.
const PATIENCE: Duration = Duration::from_secs(10);
/// Maximum connections per group, and groups.
const MOST_CONNECTIONS: usize = 8;
const MOST_GROUPS: usize = 4096;
/// Pause after a failed accept, most likely for lack of file descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// Settings of a server.
#[derive(Debug)]
pub struct ServerSettings {
    /// Where it listens.
    pub listen: Vec<SocketAddr>,
    /// Firewall mark of its packets.
    pub fwmark: Option<u32>,
    /// The concentrator's key.
    pub key: PublicKey,
    /// The certificate that it presents.
    pub certificate: Certificate,
}

/// Runs on a thread of its own; ends when dropped.
#[derive(Debug)]
pub struct Server {
    _runtime: Runtime,
}

/// Why it can't start.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The certificate.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// A port.
    #[error("listening on {address} (TCP): {error}")]
    Listen {
        /// Which.
        address: SocketAddr,
        /// Why not.
        error: io::Error,
    },
    /// Anything else.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Server {
    /// Starts it and returns the data plane's sockets, one per IP version.
    ///
    /// # Errors
    /// [`ServerError`].
    pub fn start(settings: ServerSettings) -> Result<(Server, Vec<LinkSocket>), ServerError> {
        let acceptor = TlsAcceptor::from(settings.certificate.server()?);
        let own = Runtime::start(crate::THREAD)?;
        let runtime = own.handle();
        let _inside = runtime.enter();
        let strangers = Arc::new(Semaphore::new(STRANGERS));
        let mut sockets = Vec::new();
        for family in [Family::V4, Family::V6] {
            let here = |at: &&SocketAddr| Family::of(at.ip()) == family;
            let listen: Vec<SocketAddr> = settings.listen.iter().filter(here).copied().collect();
            if listen.is_empty() {
                continue;
            }
            let (socket, end) = LinkSocket::carried(family)?;
            sockets.push(socket);
            let homes = Arc::new(Homes {
                key: settings.key,
                end: End::new(end)?,
                groups: Mutex::default(),
            });
            let sending = homes.clone();
            runtime.spawn(async move { lasting("send", || send_all(sending.clone())).await });
            for address in listen {
                let listener = socket::listen(address, settings.fwmark)
                    .and_then(TcpListener::from_std)
                    .map_err(|error| ServerError::Listen { address, error })?;
                let (acceptor, homes) = (acceptor.clone(), homes.clone());
                let (listener, strangers) = (Arc::new(listener), strangers.clone());
                let accept = move || {
                    let (listener, acceptor) = (listener.clone(), acceptor.clone());
                    accept_all(listener, acceptor, strangers.clone(), homes.clone())
                };
                runtime.spawn(async move { lasting("accept", accept).await });
            }
        }
        drop(_inside);
        Ok((Server { _runtime: own }, sockets))
    }
}

/// The homes of one IP version.
struct Homes {
    key: PublicKey,
    end: End,
    groups: Mutex<Groups>,
}

#[derive(Default)]
struct Groups {
    by_id: HashMap<GroupId, Known>,
    by_remote: HashMap<SocketAddr, Arc<Group>>,
}

struct Known {
    /// Its address for the tunnel: the source of its first connection.
    remote: SocketAddr,
    group: Arc<Group>,
    connections: usize,
}

/// Distributes what the data plane sends to the homes that it is for.
async fn send_all(homes: Arc<Homes>) {
    let each = |remote, segment, contents: &[u8]| {
        let group = homes.lock().by_remote.get(&remote).cloned();
        if let Some(group) = group {
            group.push(segment, contents);
        }
    };
    homes.end.receive_all(each).await;
}

async fn accept_all(
    listener: Arc<TcpListener>,
    acceptor: TlsAcceptor,
    strangers: Arc<Semaphore>,
    homes: Arc<Homes>,
) {
    loop {
        let Ok(permit) = strangers.clone().acquire_owned().await else { return };
        let Ok((stream, from)) = listener.accept().await else {
            sleep(PAUSE).await;
            continue;
        };
        let (acceptor, homes) = (acceptor.clone(), homes.clone());
        tokio::spawn(async move {
            let coming = timeout(PATIENCE, let_in(stream, acceptor, &homes)).await;
            drop(permit);
            let Ok(Ok(Some((stream, id)))) = coming else { return };
            let Some((group, remote)) = homes.join(id, from) else { return };
            let joined = Joined { homes, id };
            let ended = carry(stream, &group, &joined.homes.end, remote).await;
            tracing::debug!(%from, ?ended, "a carried connection ended");
        });
    }
}

/// Counts a connection in its group until dropped, including by a panic.
struct Joined {
    homes: Arc<Homes>,
    id: GroupId,
}

impl Drop for Joined {
    fn drop(&mut self) {
        self.homes.leave(self.id);
    }
}

type Stream = tokio_rustls::server::TlsStream<TcpStream>;

/// Handles a connection: lets a home in, answers a stranger as a web server.
async fn let_in(
    stream: TcpStream,
    acceptor: TlsAcceptor,
    homes: &Homes,
) -> io::Result<Option<(Stream, GroupId)>> {
    socket::set_up(&SockRef::from(&stream))?;
    let mut stream = acceptor.accept(stream).await?;
    let mut first = Vec::with_capacity(1024);
    let knock = loop {
        if let Some(knock) = first.first_chunk::<KNOCK>() {
            break Some(*knock);
        }
        if web::is_whole(&first) || stream.read_buf(&mut first).await? == 0 {
            break None;
        }
    };
    let known = knock
        .zip(exported(stream.get_ref().1).ok())
        .and_then(|(knock, secret)| Some((group_of(&homes.key, &knock, &secret)?, secret)));
    // A home waits for the answer before it sends more.
    let Some((id, secret)) = known.filter(|_| first.len() == KNOCK) else {
        web::answer(stream, first).await?;
        return Ok(None);
    };
    stream.write_all(&answer(&homes.key, id, &secret)).await?;
    stream.flush().await?;
    Ok(Some((stream, id)))
}

impl Homes {
    /// Adds a connection to this group; `None` if there are too many.
    fn join(&self, id: GroupId, from: SocketAddr) -> Option<(Arc<Group>, SocketAddr)> {
        let mut groups = self.lock();
        let Groups { by_id, by_remote } = &mut *groups;
        if let Some(known) = by_id.get_mut(&id) {
            if known.connections == MOST_CONNECTIONS {
                return None;
            }
            known.connections += 1;
            return Some((known.group.clone(), known.remote));
        }
        if by_id.len() == MOST_GROUPS {
            return None;
        }
        // A NAT may reuse a port by which another group is still known.
        let mut remote = from;
        while by_remote.contains_key(&remote) {
            remote.set_port(remote.port().wrapping_add(1));
        }
        let group = Arc::new(Group::default());
        by_id.insert(id, Known { remote, group: group.clone(), connections: 1 });
        by_remote.insert(remote, group.clone());
        Some((group, remote))
    }

    fn leave(&self, id: GroupId) {
        let mut groups = self.lock();
        let Some(known) = groups.by_id.get_mut(&id) else { return };
        known.connections -= 1;
        if known.connections == 0 {
            let remote = known.remote;
            groups.by_id.remove(&id);
            groups.by_remote.remove(&remote);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Groups> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
