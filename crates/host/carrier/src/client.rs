//! A home's carriers: each gives the data plane a socket, and carries its datagrams to the
//! concentrator over TLS connections of one link.

use crate::connection::{carry as carry_on, exported};
use crate::end::End;
use crate::group::Group;
use crate::knock::{ANSWER, GroupId, is_answer, knock};
use crate::lasting::lasting;
use crate::leaving::Leaving;
use crate::proxy::ProxyTrouble;
use braid_handshake::PublicKey;
use braid_linux::udp::LinkSocket;
use braid_runtime::Runtime;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Connections of one link to one concentrator: while one repairs a loss, the others keep sending.
const CONNECTIONS: u32 = 4;
/// Time between opening them: if none gets through, one is enough to find out.
const APART: Duration = Duration::from_millis(200);
/// Timeout until the concentrator has answered the knock.
const CONNECTING: Duration = Duration::from_secs(10);
/// After this the proxy is tried in parallel with the direct way (as in RFC 8305, section 5).
const PROXY_AFTER: Duration = Duration::from_millis(250);
const RETRY: Duration = Duration::from_millis(500);
const RETRY_MOST: Duration = Duration::from_secs(4);
/// A connection that lived this long was a good one.
const GOOD: Duration = Duration::from_secs(30);
/// Maximum number of peers per link.
const MOST_GROUPS: usize = 64;

/// A concentrator, by the address that the tunnel knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Its key.
    pub key: PublicKey,
    /// Its TCP port.
    pub port: u16,
    /// Its name, as browsers send it (RFC 6066, section 3); `None` if it has only an address.
    pub name: Option<String>,
}

/// The currently known concentrators.
#[derive(Clone, Debug, Default)]
pub struct Targets(Arc<Mutex<HashMap<SocketAddr, Target>>>);

impl Targets {
    /// Replaces the list.
    pub fn set(&self, targets: HashMap<SocketAddr, Target>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = targets;
    }

    fn get(&self, remote: SocketAddr) -> Option<Target> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&remote).cloned()
    }
}

/// Runs the carriers on a thread of their own; they end when it is dropped.
#[derive(Debug)]
pub struct Home {
    runtime: Runtime,
    targets: Targets,
}

impl Home {
    /// Starts the thread.
    ///
    /// # Errors
    /// When no thread or epoll can be created.
    pub fn start(targets: Targets) -> io::Result<Home> {
        Ok(Home { runtime: Runtime::start(crate::THREAD)?, targets })
    }

    /// A socket whose datagrams leave as `leaving` says; its connections end when it is closed.
    /// Problems with the proxy are stored in `trouble`.
    ///
    /// # Errors
    /// When no socket can be created.
    pub fn carry(&self, leaving: Leaving, trouble: ProxyTrouble) -> io::Result<LinkSocket> {
        let (socket, end) = LinkSocket::carried(leaving.family)?;
        let targets = self.targets.clone();
        let runtime = self.runtime.handle();
        let _inside = runtime.enter();
        let end = End::new(end)?;
        runtime.spawn(carry(end, leaving, targets, trouble));
        Ok(socket)
    }
}

/// Carries until the data plane closes its end.
async fn carry(end: End, leaving: Leaving, targets: Targets, trouble: ProxyTrouble) {
    let end = Arc::new(end);
    let mut groups: HashMap<SocketAddr, Arc<Group>> = HashMap::new();
    // All end when this is dropped.
    let mut connections = JoinSet::new();
    let each = |remote, segment, contents: &[u8]| {
        if !groups.contains_key(&remote) && groups.len() < MOST_GROUPS {
            let Ok(id) = random() else { return };
            let group = Arc::new(Group::default());
            let connecting = Arc::new(Connecting {
                leaving: leaving.clone(),
                targets: targets.clone(),
                trouble: trouble.clone(),
                remote,
                id: GroupId(id),
            });
            for number in 0..CONNECTIONS {
                let (connecting, group) = (connecting.clone(), group.clone());
                let end = end.clone();
                connections.spawn(async move {
                    sleep(APART * number).await;
                    lasting("connect", || {
                        let (connecting, group, end) =
                            (connecting.clone(), group.clone(), end.clone());
                        async move { connecting.keep(&group, &end).await }
                    })
                    .await;
                });
            }
            groups.insert(remote, group);
        }
        if let Some(group) = groups.get(&remote) {
            group.push(segment, contents);
        }
    };
    end.receive_all(each).await;
}

fn random() -> Result<[u8; 16], ::ring::error::Unspecified> {
    use ::ring::rand::{SecureRandom, SystemRandom};
    let mut bytes = [0; 16];
    SystemRandom::new().fill(&mut bytes).map(|()| bytes)
}

/// One of a group's connections.
struct Connecting {
    leaving: Leaving,
    targets: Targets,
    trouble: ProxyTrouble,
    remote: SocketAddr,
    id: GroupId,
}

impl Connecting {
    /// Keeps a connection open, reconnecting as needed.
    async fn keep(&self, group: &Group, end: &End) {
        let mut pause = RETRY;
        loop {
            let began = Instant::now();
            let ended = match timeout(CONNECTING, self.connect()).await {
                Ok(Ok(stream)) => carry_on(stream, group, end, self.remote).await,
                Ok(Err(error)) => Err(error),
                Err(_) => Err(io::ErrorKind::TimedOut.into()),
            };
            tracing::debug!(remote = %self.remote, ?ended, "a TLS carrier connection ended");
            if began.elapsed() > GOOD {
                pause = RETRY;
            }
            sleep(pause).await;
            pause = (pause * 2).min(RETRY_MOST);
        }
    }

    /// Connects directly or through the proxy, whichever the concentrator answers on first.
    async fn connect(&self) -> io::Result<TlsStream<TcpStream>> {
        let gone = || io::Error::other("no concentrator has this address any longer");
        let target = self.targets.get(self.remote).ok_or_else(gone)?;
        let to = SocketAddr::new(self.remote.ip(), target.port);
        let direct = async { self.secure(self.leaving.connect(to).await?, &target).await };
        let Some(proxy) = &self.leaving.proxy else { return direct.await };
        let by_proxy = async {
            sleep(PROXY_AFTER).await;
            let connected = self.leaving.connect_by(proxy, to).await;
            let told = |error: &io::Error| format!("the proxy {proxy:?} {}", in_words(error));
            self.trouble.note(connected.as_ref().err().map(told));
            self.secure(connected?, &target).await
        };
        tokio::pin!(direct, by_proxy);
        let directly = tokio::select! {
            result = &mut direct => match result {
                Ok(stream) => stream,
                Err(_) => return by_proxy.await,
            },
            result = &mut by_proxy => match result {
                Ok(stream) => return Ok(stream),
                Err(_) => direct.await?,
            },
        };
        // The proxy isn't needed, whatever it answered.
        self.trouble.note(None);
        Ok(directly)
    }

    /// Does the TLS handshake and the knock.
    async fn secure(&self, stream: TcpStream, target: &Target) -> io::Result<TlsStream<TcpStream>> {
        let name = match &target.name {
            Some(name) => ServerName::try_from(name.clone()).map_err(io::Error::other)?,
            None => ServerName::from(self.remote.ip()),
        };
        let connector = TlsConnector::from(Arc::new(tls()?));
        let mut stream = connector.connect(name, stream).await?;
        let secret = exported(stream.get_ref().1)?;
        stream.write_all(&knock(&target.key, self.id, &secret)).await?;
        stream.flush().await?;
        let mut answer = [0; ANSWER];
        stream.read_exact(&mut answer).await?;
        match is_answer(&target.key, self.id, &secret, &answer) {
            true => Ok(stream),
            false => Err(io::Error::other("the host that answers is not the concentrator")),
        }
    }
}

/// The proxy's own message verbatim, or the system's error for the way to it.
fn in_words(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::Other => error.to_string(),
        _ => format!("can't be reached: {error}"),
    }
}

/// Looks like a browser's, as far as it is visible.
fn tls() -> io::Result<ClientConfig> {
    let provider = Arc::new(ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(io::Error::other)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

/// Accepts any certificate: both ends prove that they know the concentrator's key (`knock`), and
/// the carried datagrams are encrypted for it alone.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
