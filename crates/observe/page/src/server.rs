//! Connections: bounded in number, also per client, in the size of what they send, and in the time
//! they take. Idle ones make room ([`Guests`]).

use crate::Client;
use crate::Page;
use crate::answer;
use crate::body::Body;
use crate::guests::{Asking, Guest, Guests};
use hyper::body::{Bytes, Frame, SizeHint};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::watch;
use tokio::time::{Instant, Sleep};
use tokio_rustls::TlsAcceptor;

/// Maximum size of a request's headers, bytes.
const HEADERS_BYTES: usize = 16 * 1024;
const HEADERS: usize = 64;
/// Timeout for a request's headers, and between two requests.
const HEADERS_WITHIN: Duration = Duration::from_secs(10);
/// Timeout for the TLS handshake.
const TLS_WITHIN: Duration = Duration::from_secs(10);
/// A client that accepts no data for this time is gone.
const WRITE_STALLS: Duration = Duration::from_secs(20);
/// How long a listener waits after it failed to accept.
const RETRY: Duration = Duration::from_millis(100);
/// Time for unfinished answers at the end.
const GRACE: Duration = Duration::from_millis(300);

/// Where the page is served.
pub struct Listeners {
    /// For browsers.
    pub tcp: Option<TcpListener>,
    /// TLS, if it is used.
    pub tls: Option<TlsAcceptor>,
    /// For users who may open the file; they are admins.
    pub unix: Option<UnixListener>,
}

/// Serves the page until `stopped` says so.
pub async fn serve(page: Arc<Page>, listeners: Listeners, mut stopped: watch::Receiver<bool>) {
    let live = tokio::spawn(page.clone().keep_live());
    let tcp = listeners
        .tcp
        .map(|listener| tokio::spawn(accept_tcp(page.clone(), listener, listeners.tls.clone())));
    // It has its own limits: nobody on the network can keep root out.
    let unix = listeners.unix.map(|listener| tokio::spawn(accept_unix(page, listener)));
    // If the sender is gone, stop, too.
    let _ = stopped.wait_for(|stopped| *stopped).await;
    live.abort();
    for task in [tcp, unix].into_iter().flatten() {
        task.abort();
    }
    tokio::time::sleep(GRACE).await;
}

async fn accept_tcp(page: Arc<Page>, listener: TcpListener, tls: Option<TlsAcceptor>) {
    let guests = Guests::default();
    loop {
        let (stream, from) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(_) => {
                tokio::time::sleep(RETRY).await;
                continue;
            }
        };
        let from: IpAddr = from.ip().to_canonical();
        let Some(guest) = guests.enter(from) else { continue };
        let (page, tls) = (page.clone(), tls.clone());
        tokio::spawn(async move {
            let client = Client::Tcp(from);
            let Some(tls) = tls else {
                return serve_guest(page, stream, client, guest).await;
            };
            // A client that doesn't speak TLS, or too slowly, gets nothing.
            let secured = tokio::select! {
                secured = tokio::time::timeout(TLS_WITHIN, tls.accept(stream)) => secured,
                () = guest.is_sent_away() => return,
            };
            if let Ok(Ok(stream)) = secured {
                serve_guest(page, stream, client, guest).await;
            }
        });
    }
}

/// Has its own limits: nobody on the network can keep root out.
async fn accept_unix(page: Arc<Page>, listener: UnixListener) {
    let guests = Guests::default();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                // All clients are on this host.
                let Some(guest) = guests.enter(Ipv6Addr::LOCALHOST.into()) else { continue };
                tokio::spawn(serve_guest(page.clone(), stream, Client::Unix, guest));
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
    if let Some(guest) = Guests::default().enter(Ipv6Addr::LOCALHOST.into()) {
        serve_guest(page, stream, client, guest).await;
    }
}

/// Serves one connection until it ends, or must make room.
async fn serve_guest<S>(page: Arc<Page>, stream: S, client: Client, guest: Guest)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let guest = Arc::new(guest);
    let asked = guest.clone();
    let service = service_fn(move |request| {
        let (page, asking) = (page.clone(), asked.asks());
        async move {
            let answer = answer::answer(page, client, request).await;
            Ok::<_, Infallible>(answer.map(|body| Answering { body, _asking: asking }))
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS_WITHIN)
        .max_buf_size(HEADERS_BYTES)
        .max_headers(HEADERS)
        .half_close(false)
        .serve_connection(TokioIo::new(Patient::new(stream)), service);
    tokio::select! {
        // A client's mistakes are reported only to it.
        _ = connection => {}
        () = guest.is_sent_away() => {}
    }
}

/// An answer that tracks when it has been sent.
struct Answering {
    body: Body,
    _asking: Asking,
}

impl hyper::body::Body for Answering {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A connection that fails if its other end stops accepting data.
struct Patient<S> {
    stream: S,
    /// Runs while it accepts nothing.
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
