//! A home's carriers: each gives the data plane a socket, and takes what is sent by it to the
//! concentrator by TLS connections of one link.

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

/// Connections of one link to one concentrator: what one that repairs a loss doesn't send
/// the others do.
const CONNECTIONS: u32 = 4;
/// They begin one after another: where none gets through one is enough to find out.
const APART: Duration = Duration::from_millis(200);
/// Until the concentrator has answered the knock.
const CONNECTING: Duration = Duration::from_secs(10);
/// A way by the proxy is tried beside the direct one after this (as RFC 8305, section 5).
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
    /// Its name, as browsers say it (RFC 6066, section 3); none where it only has an address.
    pub name: Option<String>,
}

/// The concentrators, as they are known now.
#[derive(Clone, Debug, Default)]
pub struct Targets(Arc<Mutex<HashMap<SocketAddr, Target>>>);

impl Targets {
    /// These and no others.
    pub fn set(&self, targets: HashMap<SocketAddr, Target>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = targets;
    }

    fn get(&self, remote: SocketAddr) -> Option<Target> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&remote).cloned()
    }
}

/// Runs the carriers, on a thread of its own; they end when it is dropped.
#[derive(Debug)]
pub struct Home {
    runtime: Runtime,
    targets: Targets,
}

impl Home {
    /// Starts it.
    ///
    /// # Errors
    /// When there is no thread or epoll to be had.
    pub fn start(targets: Targets) -> io::Result<Home> {
        Ok(Home { runtime: Runtime::start(crate::THREAD)?, targets })
    }

    /// A socket whose datagrams leave as said; its connections end when it is closed. What is
    /// wrong with the proxy is noted in `trouble`.
    ///
    /// # Errors
    /// When no socket can be had.
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

/// Until the data plane closes its end.
async fn carry(end: End, leaving: Leaving, targets: Targets, trouble: ProxyTrouble) {
    let end = Arc::new(end);
    let mut groups: HashMap<SocketAddr, Arc<Group>> = HashMap::new();
    // Dropped, all end.
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
    /// Connects, again and again.
    async fn keep(&self, group: &Group, end: &End) {
        let mut pause = RETRY;
        loop {
            let began = Instant::now();
            let ended = match timeout(CONNECTING, self.connect()).await {
                Ok(Ok(stream)) => carry_on(stream, group, end, self.remote).await,
                Ok(Err(error)) => Err(error),
                Err(_) => Err(io::ErrorKind::TimedOut.into()),
            };
            tracing::debug!(remote = %self.remote, ?ended, "a carrying connection ended");
            if began.elapsed() > GOOD {
                pause = RETRY;
            }
            sleep(pause).await;
            pause = (pause * 2).min(RETRY_MOST);
        }
    }

    /// Directly or by the proxy: whichever the concentrator answers by first.
    async fn connect(&self) -> io::Result<TlsStream<TcpStream>> {
        let gone = || io::Error::other("no concentrator has this address any more");
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
        // Whatever the proxy said: it isn't needed.
        self.trouble.note(None);
        Ok(directly)
    }

    /// TLS, and the knock.
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
            false => Err(io::Error::other("whoever answers is not the concentrator")),
        }
    }
}

/// What it says itself as it is; what the system says of the way to it.
fn in_words(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::Other => error.to_string(),
        _ => format!("can't be reached: {error}"),
    }
}

/// As a browser's, as far as it shows.
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

/// Who has which certificate proves nothing here: both ends show that they know the
/// concentrator's key (`knock`), and what is carried is sealed for it alone.
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
