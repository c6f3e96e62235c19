//! Connections: bounded in number, of each client too, in the size of what they send,
//! and in how long they may take for it.

use crate::Client;
use crate::Page;
use crate::answer;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::Semaphore;
use tokio::sync::watch;
use tokio::time::{Instant, Sleep};
use tokio_rustls::TlsAcceptor;

/// More connections than this wait in the kernel's queue.
const MOST: usize = 256;
/// Of one client that isn't this host.
const MOST_OF_ONE: usize = 64;
/// All headers of a request, bytes.
const HEADERS_BYTES: usize = 16 * 1024;
const HEADERS: usize = 64;
/// For a request's headers, and between two requests.
const HEADERS_WITHIN: Duration = Duration::from_secs(10);
/// For the handshake of TLS.
const TLS_WITHIN: Duration = Duration::from_secs(10);
/// A client that takes nothing for so long is gone.
const WRITE_STALLS: Duration = Duration::from_secs(20);
/// How long a listener that can't accept waits.
const RETRY: Duration = Duration::from_millis(100);
/// For answers that are under way at the end.
const GRACE: Duration = Duration::from_millis(300);

/// Where the page is served.
pub struct Listeners {
    /// For browsers.
    pub tcp: Option<TcpListener>,
    /// What they come by, where it isn't plain.
    pub tls: Option<TlsAcceptor>,
    /// For who may open the file, who is an admin so.
    pub unix: Option<UnixListener>,
}

/// Serves the page until `stopped` says so.
pub async fn serve(page: Arc<Page>, listeners: Listeners, mut stopped: watch::Receiver<bool>) {
    let places = Arc::new(Semaphore::new(MOST));
    let clients = Arc::new(Clients::default());
    let live = tokio::spawn(page.clone().keep_live());
    let tcp = listeners.tcp.map(|listener| {
        let guests = Guests { places: places.clone(), clients: clients.clone() };
        tokio::spawn(accept_tcp(page.clone(), listener, listeners.tls.clone(), guests))
    });
    // Places of its own: nobody on the network keeps root out.
    let unix = listeners
        .unix
        .map(|listener| tokio::spawn(accept_unix(page, listener, Arc::new(Semaphore::new(MOST)))));
    // A sender that is gone is a stop too.
    let _ = stopped.wait_for(|stopped| *stopped).await;
    live.abort();
    for task in [tcp, unix].into_iter().flatten() {
        task.abort();
    }
    tokio::time::sleep(GRACE).await;
}

async fn accept_tcp(
    page: Arc<Page>,
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    Guests { places, clients }: Guests,
) {
    loop {
        // Never closed.
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let (stream, from) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(_) => {
                tokio::time::sleep(RETRY).await;
                continue;
            }
        };
        let from = from.ip().to_canonical();
        let Some(counted) = clients.enter(from) else { continue };
        let (page, tls) = (page.clone(), tls.clone());
        tokio::spawn(async move {
            match tls {
                None => serve_connection(page, stream, Client::Tcp(from)).await,
                Some(tls) => {
                    let secured = tokio::time::timeout(TLS_WITHIN, tls.accept(stream)).await;
                    // Who doesn't speak TLS, or not in time, gets nothing.
                    if let Ok(Ok(stream)) = secured {
                        serve_connection(page, stream, Client::Tcp(from)).await;
                    }
                }
            }
            drop((place, counted));
        });
    }
}

async fn accept_unix(page: Arc<Page>, listener: UnixListener, places: Arc<Semaphore>) {
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let page = page.clone();
                tokio::spawn(async move {
                    serve_connection(page, stream, Client::Unix).await;
                    drop(place);
                });
            }
            Err(_) => tokio::time::sleep(RETRY).await,
        }
    }
}

/// Serves one connection until it ends.
pub async fn serve_connection<S>(page: Arc<Page>, stream: S, client: Client)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |request| {
        let page = page.clone();
        async move { Ok::<_, std::convert::Infallible>(answer::answer(page, client, request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS_WITHIN)
        .max_buf_size(HEADERS_BYTES)
        .max_headers(HEADERS)
        .half_close(false)
        .serve_connection(TokioIo::new(Patient::new(stream)), service);
    // What a client did wrong is told to it, and nobody else.
    let _ = connection.await;
}

/// Whom there is room for.
struct Guests {
    places: Arc<Semaphore>,
    clients: Arc<Clients>,
}

/// Connections of each client.
#[derive(Default)]
struct Clients(Mutex<HashMap<IpAddr, usize>>);

/// One of a client's connections, until dropped.
struct Counted(Arc<Clients>, IpAddr);

impl Clients {
    fn enter(self: &Arc<Self>, client: IpAddr) -> Option<Counted> {
        let mut clients = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = clients.entry(client).or_default();
        if *count >= MOST_OF_ONE && !client.is_loopback() {
            return None;
        }
        *count += 1;
        Some(Counted(self.clone(), client))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut clients = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = clients.get_mut(&self.1) {
            *count -= 1;
            if *count == 0 {
                clients.remove(&self.1);
            }
        }
    }
}

/// A connection whose other end must take what it is sent.
struct Patient<S> {
    stream: S,
    /// Since it takes nothing.
    stalls: Option<Pin<Box<Sleep>>>,
}

impl<S> Patient<S> {
    fn new(stream: S) -> Patient<S> {
        Patient { stream, stalls: None }
    }

    fn watch<T>(
        &mut self,
        poll: Poll<io::Result<T>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if poll.is_ready() {
            self.stalls = None;
            return poll;
        }
        let until = || Box::pin(tokio::time::sleep_until(Instant::now() + WRITE_STALLS));
        match self.stalls.get_or_insert_with(until).as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watch(poll, context)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let poll = Pin::new(&mut self.stream).poll_flush(context);
        self.watch(poll, context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let poll = Pin::new(&mut self.stream).poll_shutdown(context);
        self.watch(poll, context)
    }
}
