//! Forwards DNS queries, and makes the firewall learn addresses of the rules' domains from answers
//! before passing them on. Queries and answers aren't modified. For clients that resolve elsewhere,
//! over HTTPS, it reads the server names that they request.

use super::super::ending::Ending;
use super::super::host_numbers::{forwarder_mark, heard_by};
use super::super::supervise;
use braid_control::config::Config;
use braid_linux::netlink::PacketLog;
use braid_linux::nft::{Element, HEARD_BYTES, LearntSets, NameForwarder};
use braid_linux::resolv_conf::name_servers;
use braid_rules::{Answers, DomainTable, Learnt, LearntAddress, Lesson};
use braid_server_name::Listener;
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream, UdpSocket};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Runs on a thread of its own until dropped.
pub struct Forwarder {
    rules: Arc<Mutex<Known>>,
    _ends: tokio::sync::oneshot::Sender<()>,
    /// For the firewall.
    pub way: NameForwarder,
    /// Why it can't read the server names that clients request.
    pub deaf: Option<io::Error>,
}

/// Its state and settings.
#[derive(Default)]
struct Known {
    /// The firewall's sets.
    sets: Arc<Mutex<LearntSets>>,
    /// Which names belong to which rules.
    table: DomainTable<String>,
    learnt: Learnt,
    /// Cached answers over UDP and over TCP, which may be longer.
    answers: [Answers; 2],
    /// The servers last used.
    servers: Vec<IpAddr>,
    /// Name servers of the config.
    named: Vec<IpAddr>,
    mark: u32,
    conflicts: Vec<String>,
}

const THREAD: &str = "braid-dns";
/// Timeout for one server's answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// Timeout of an idle TCP client (RFC 7766, section 6.2.3, suggests some seconds).
const IDLE: Duration = Duration::from_secs(10);
/// Maximum concurrent queries; more are dropped, and retried by their clients.
const MOST_QUESTIONS: usize = 512;
/// Maximum TCP clients.
const MOST_CLIENTS: usize = 128;
/// RFC 1035, section 4.2.2: a length has two bytes.
const LONGEST: usize = 65_535;
/// Size of a DNS header (RFC 1035, section 4.1.1).
const HEADER: usize = 12;
const PORT: u16 = 53;
/// Maximum conflicts reported, of different rules' names that share an address.
const MOST_CONFLICTS: usize = 20;

impl Forwarder {
    /// Listens on the tunnel's addresses, which may be added later.
    ///
    /// # Errors
    /// Those of sockets and threads; `AddrNotAvailable` when the tunnel has no address.
    pub fn start(config: &Config, ending: &Ending) -> io::Result<Forwarder> {
        let own = || config.interface.addresses.iter().map(|net| net.addr());
        let v4 = own().find(IpAddr::is_ipv4);
        let addresses: Vec<IpAddr> = v4.into_iter().chain(own().find(IpAddr::is_ipv6)).collect();
        if addresses.is_empty() {
            return Err(io::ErrorKind::AddrNotAvailable.into());
        }
        let mark = forwarder_mark(config.interface.name.as_str());
        let (port, sockets) = listen(&addresses, usual_port(mark))?;
        let sets = Arc::new(Mutex::new(LearntSets::of(config.interface.name.as_str())));
        let known = Known { sets, mark, ..Known::default() };
        let rules = Arc::new(Mutex::new(known));
        let shared = rules.clone();
        let (ends, mut ended) = tokio::sync::oneshot::channel::<()>();
        let group = heard_by(config.interface.name.as_str());
        let (heard_by, log, deaf) = match PacketLog::open(group, HEARD_BYTES) {
            Ok(log) => (Some(group), Some(log), None),
            Err(error) => (None, None, Some(error)),
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        if let Some(log) = log {
            runtime.spawn(hear(log, shared.clone()));
        }
        let told = ending.clone();
        supervise::start(THREAD, ending, move || {
            let serving = async {
                tokio::select! {
                    failed = serve(&sockets, &shared) => failed,
                    // Ends when the other end is dropped.
                    _ = &mut ended => Ok(()),
                }
            };
            // Queries are redirected to it: if it doesn't answer, nothing does.
            if let Err(error) = runtime.block_on(serving) {
                told.because(format!("can't forward DNS queries: {error}"));
            }
        })?;
        let way = NameForwarder { addresses, port, mark, heard_by };
        Ok(Forwarder { rules, _ends: ends, way, deaf })
    }

    /// Sets which names belong to which rules, and the configured name servers.
    pub fn set(&self, table: DomainTable<String>, named: Vec<IpAddr>) {
        let mut known = self.lock();
        known.table = table;
        known.named = named;
    }

    /// What it has learnt, for other threads.
    pub fn known_names(&self) -> KnownNames {
        KnownNames(self.rules.clone())
    }

    /// Names of different rules that share an address, in words.
    pub fn conflicts(&self) -> Vec<String> {
        self.lock().conflicts.clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Known> {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a forwarder has learnt.
#[derive(Clone)]
pub struct KnownNames(Arc<Mutex<Known>>);

impl KnownNames {
    /// The rules whose domains have this address, for a client with one of these addresses.
    pub fn rules_for(&self, address: IpAddr, clients: &[IpAddr]) -> Vec<String> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.learnt.rules_of(address, clients, Instant::now())
    }
}

impl std::fmt::Debug for KnownNames {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KnownNames")
    }
}

/// The same port after a restart, as tracked connections still lead to it, UDP's for half a minute.
/// Below the kernel's ephemeral ports.
fn usual_port(mark: u32) -> u16 {
    const FIRST: u16 = 20_000;
    const PORTS: u32 = 10_000;
    FIRST + u16::try_from(mark % PORTS).unwrap_or_default()
}

/// Listens on one port at all addresses, UDP and TCP: the usual one, or another if it's taken.
fn listen(addresses: &[IpAddr], usual: u16) -> io::Result<(u16, Vec<Sockets>)> {
    const TRIES: usize = 8;
    let mut last = io::Error::from(io::ErrorKind::AddrInUse);
    for port in std::iter::once(usual).chain(std::iter::repeat_n(0, TRIES)) {
        match listen_by(addresses, port) {
            Ok(listening) => return Ok(listening),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// For port 0 the kernel chooses the first socket's port, and the others use the same.
fn listen_by(addresses: &[IpAddr], mut port: u16) -> io::Result<(u16, Vec<Sockets>)> {
    let mut sockets = Vec::new();
    for &address in addresses {
        let udp = bound(SocketAddr::new(address, port), Type::DGRAM, Protocol::UDP)?;
        let udp = std::net::UdpSocket::from(udp);
        port = udp.local_addr()?.port();
        let tcp = bound(SocketAddr::new(address, port), Type::STREAM, Protocol::TCP)?;
        tcp.listen(64)?;
        sockets.push((udp, tcp.into()));
    }
    Ok((port, sockets))
}

fn bound(address: SocketAddr, kind: Type, protocol: Protocol) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), kind, Some(protocol))?;
    match address {
        SocketAddr::V4(_) => socket.set_freebind_v4(true)?,
        SocketAddr::V6(_) => socket.set_freebind_v6(true)?,
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

/// The sockets of one address.
type Sockets = (std::net::UdpSocket, std::net::TcpListener);

/// Ends only with a panic or an error. The sockets stay open, so that it can be restarted.
async fn serve(sockets: &[Sockets], known: &Arc<Mutex<Known>>) -> io::Result<()> {
    let questions = Arc::new(Semaphore::new(MOST_QUESTIONS));
    let clients = Arc::new(Semaphore::new(MOST_CLIENTS));
    let mut serving = JoinSet::new();
    for (udp, tcp) in sockets {
        let udp = udp.try_clone().and_then(UdpSocket::from_std)?;
        let tcp = tcp.try_clone().and_then(TcpListener::from_std)?;
        let (by_udp, by_tcp) =
            ((known.clone(), questions.clone()), (known.clone(), clients.clone()));
        serving.spawn(serve_udp(Arc::new(udp), by_udp.0, by_udp.1));
        serving.spawn(serve_tcp(tcp, by_tcp.0, by_tcp.1));
    }
    panic_as_the_first(serving).await;
    Ok(())
}

/// Each runs for ever, unless it panics.
async fn panic_as_the_first(mut serving: JoinSet<()>) {
    while let Some(ended) = serving.join_next().await {
        if let Err(Ok(panic)) = ended.map_err(tokio::task::JoinError::try_into_panic) {
            std::panic::resume_unwind(panic);
        }
    }
}

/// A failure caused by somebody's packets only stops the reading of server names, not DNS
/// forwarding.
async fn hear(log: PacketLog, known: Arc<Mutex<Known>>) {
    if tokio::spawn(listen_to(log, known)).await.is_err() {
        tracing::error!(
            "server names in first packets are no longer read: their reader has panicked"
        );
    }
}

async fn serve_udp(socket: Arc<UdpSocket>, known: Arc<Mutex<Known>>, questions: Arc<Semaphore>) {
    let mut bytes = vec![0; LONGEST];
    loop {
        let (length, client) = match socket.recv_from(&mut bytes).await {
            Ok(received) => received,
            Err(error) => {
                tracing::debug!(%error, "a DNS query");
                tokio::time::sleep(Duration::from_millis(10)).await;
                continue;
            }
        };
        let Ok(permit) = questions.clone().try_acquire_owned() else { continue };
        let question = bytes.get(..length).unwrap_or_default().to_vec();
        let (socket, known) = (socket.clone(), known.clone());
        tokio::spawn(async move {
            if let Some(answer) = answer(&question, &known, By::Udp).await {
                let _ = socket.send_to(&answer, client).await;
            }
            drop(permit);
        });
    }
}

async fn serve_tcp(listener: TcpListener, known: Arc<Mutex<Known>>, clients: Arc<Semaphore>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        let Ok(permit) = clients.clone().try_acquire_owned() else { continue };
        let known = known.clone();
        tokio::spawn(async move {
            let _ = talk(stream, &known).await;
            drop(permit);
        });
    }
}

async fn talk(mut client: TcpStream, known: &Mutex<Known>) -> io::Result<()> {
    while let Ok(question) = timeout(IDLE, read_message(&mut client)).await {
        match answer(&question?, known, By::Tcp).await {
            Some(answer) => write_message(&mut client, &answer).await?,
            None => return Ok(()),
        }
    }
    Ok(())
}

/// The transport of a query.
#[derive(Clone, Copy)]
enum By {
    Udp,
    Tcp,
}

/// A cached answer if still valid; otherwise that of the first server that answers; `None` if none
/// does, as if the query were lost.
async fn answer(question: &[u8], known: &Mutex<Known>, by: By) -> Option<Vec<u8>> {
    if question.len() < HEADER {
        return None;
    }
    let hosts = name_servers();
    let (servers, mark, kept) = {
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        let servers = [known.named.clone(), hosts].concat();
        if servers != known.servers {
            // Another network's servers may answer differently.
            known.answers.iter_mut().for_each(Answers::clear);
            known.servers.clone_from(&servers);
        }
        let kept = known.answers[by as usize].get(question, Instant::now());
        (servers, known.mark, kept)
    };
    if let Some(answer) = kept {
        // Rules may have changed since it was cached.
        teach(known, |learnt, table, now| learnt.learn(&answer, table, now)).await;
        return Some(answer);
    }
    for server in servers {
        let server = SocketAddr::new(server, PORT);
        let asked = async {
            match by {
                By::Udp => ask_udp(server, mark, question.to_vec()).await,
                By::Tcp => ask_tcp(server, mark, question.to_vec()).await,
            }
        };
        match timeout(PATIENCE, asked).await {
            // With another id it would answer another query.
            Ok(Ok(answer)) if answer.len() >= HEADER && answer.get(..2) == question.get(..2) => {
                {
                    let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
                    known.answers[by as usize].put(question, &answer, Instant::now());
                }
                // Before passing it on, so that the connection comes afterwards.
                teach(known, |learnt, table, now| learnt.learn(&answer, table, now)).await;
                return Some(answer);
            }
            Ok(Ok(_)) => {}
            Ok(Err(error)) => tracing::debug!(%server, %error, "asking a name server"),
            Err(_) => tracing::debug!(%server, "a name server doesn't answer"),
        }
    }
    None
}

/// Reads first packets of connections from the firewall. What is learnt applies to the next
/// connection.
async fn listen_to(log: PacketLog, known: Arc<Mutex<Known>>) {
    #[expect(deprecated, reason = "sound for what owns its file, as a log does")]
    let Ok(mut log) = AsyncFd::new(log) else {
        tracing::error!("server names aren't read: the runtime takes no socket");
        return;
    };
    let mut listener = Listener::default();
    loop {
        let Ok(mut ready) = log.readable_mut().await else { return };
        let mut asked = Vec::new();
        let read = ready.try_io(|log| {
            let now = Instant::now();
            log.get_mut().read(|packet| asked.extend(listener.hear(packet, now)))
        });
        if let Ok(Err(error)) = read {
            tracing::debug!(%error, "reading first packets of connections");
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        for asked in asked {
            let ends = (asked.from, asked.to);
            teach(&known, |learnt, table, now| learnt.hear(&asked.name, ends, table, now)).await;
        }
    }
}

async fn teach(
    known: &Mutex<Known>,
    lesson: impl FnOnce(&mut Learnt, &DomainTable<String>, Instant) -> Lesson,
) {
    let (sets, lesson) = {
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        let Known { table, learnt, sets, conflicts, .. } = &mut *known;
        let lesson = lesson(learnt, table, Instant::now());
        for conflict in &lesson.conflicts {
            tracing::warn!("{conflict}");
            if conflicts.len() < MOST_CONFLICTS && !conflicts.contains(conflict) {
                conflicts.push(conflict.clone());
            }
        }
        (sets.clone(), lesson)
    };
    let Lesson { add, remove, .. } = lesson;
    let element = |rule, place: LearntAddress, lasts| {
        let LearntAddress { address, asked_by } = place;
        Element { rule, asked_by, address, lasts }
    };
    let gone = remove.into_iter().map(|(rule, place)| element(rule, place, None));
    let come = add.into_iter().map(|(rule, place, lasts)| element(rule, place, Some(lasts)));
    let elements: Vec<Element> = gone.chain(come).collect();
    if elements.is_empty() {
        return;
    }
    let learning = move || sets.lock().unwrap_or_else(PoisonError::into_inner).learn(&elements);
    let learnt = tokio::task::spawn_blocking(learning).await;
    if let Ok(Err(error)) = learnt {
        tracing::warn!(%error, "can't pass the addresses of names to the firewall");
    }
}

async fn ask_udp(server: SocketAddr, mark: u32, question: Vec<u8>) -> io::Result<Vec<u8>> {
    let socket = Socket::new(Domain::for_address(server), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_mark(mark)?;
    socket.set_nonblocking(true)?;
    // Connected, so that only the server is heard; the kernel chooses the port.
    socket.connect(&server.into())?;
    let socket = UdpSocket::from_std(socket.into())?;
    socket.send(&question).await?;
    let mut bytes = vec![0; LONGEST];
    let length = socket.recv(&mut bytes).await?;
    bytes.truncate(length);
    Ok(bytes)
}

async fn ask_tcp(server: SocketAddr, mark: u32, question: Vec<u8>) -> io::Result<Vec<u8>> {
    let socket = if server.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket2::SockRef::from(&socket).set_mark(mark)?;
    let mut stream = socket.connect(server).await?;
    write_message(&mut stream, &question).await?;
    read_message(&mut stream).await
}

async fn read_message(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let length = stream.read_u16().await?;
    let mut bytes = vec![0; length.into()];
    stream.read_exact(&mut bytes).await?;
    Ok(bytes)
}

async fn write_message(stream: &mut TcpStream, message: &[u8]) -> io::Result<()> {
    let length = u16::try_from(message.len()).map_err(io::Error::other)?;
    let bytes = [&length.to_be_bytes()[..], message].concat();
    timeout(IDLE, stream.write_all(&bytes)).await.map_err(io::Error::other)?
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    /// The firewall redirects all queries to one port.
    #[test]
    fn where_the_usual_port_is_taken_all_addresses_have_another_one() {
        let addresses = ["127.0.0.1", "127.0.0.2"].map(|ip| ip.parse().unwrap());
        let taken = std::net::UdpSocket::bind("127.0.0.2:0").unwrap();
        let usual = taken.local_addr().unwrap().port();
        let (port, sockets) = listen(&addresses, usual).unwrap();
        assert_ne!(port, usual);
        for ((udp, tcp), address) in sockets.iter().zip(addresses) {
            let at = SocketAddr::new(address, port);
            assert_eq!((udp.local_addr().unwrap(), tcp.local_addr().unwrap()), (at, at));
        }
        drop((taken, sockets));
        assert_eq!(listen(&addresses, usual).unwrap().0, usual);
    }

    /// So that it doesn't disappear silently while queries are still redirected to it.
    #[test]
    fn what_serves_panics_as_its_first_part_does() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let panic = catch_unwind(AssertUnwindSafe(|| {
            runtime.block_on(async {
                let mut serving = JoinSet::new();
                serving.spawn(std::future::pending());
                serving.spawn(async { panic!("by an answer") });
                panic_as_the_first(serving).await;
            });
        }));
        let words = crate::daemon::ending::last_words(&*panic.unwrap_err()).to_owned();
        assert_eq!(words, "by an answer");
    }
}
