//! Connections of the control socket and the metrics port: few at a time and with a deadline, so
//! that nobody uses up the files that the tunnel needs; and still accepted when the process has no
//! files left.

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use std::fs::File;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Sleep;

/// Maximum number of connections; more wait in the kernel's queue.
const MOST: usize = 64;
/// A connection is closed after this time; any answer takes less.
const LONGEST: Duration = Duration::from_secs(60);
/// Connections that can be accepted after the process has run out of files.
const SPARES: usize = 4;
/// How long a listener waits after it failed to accept.
const RETRY: Duration = Duration::from_millis(100);

/// How long a connection that isn't admitted may last; enough to be told why.
const REFUSED: Duration = Duration::from_secs(2);

/// Decides who may use the control socket.
pub type Admits = Arc<dyn Fn(&UnixStream) -> bool + Send + Sync>;

/// Whether a connection's peer may make requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    Granted,
    Refused,
}

/// A listener to which anybody can connect, but only some are admitted.
pub(crate) struct Gate {
    pub(crate) listener: UnixListener,
    pub(crate) admits: Admits,
}

/// A listener whose connections have a deadline.
pub(crate) struct Bounded<L> {
    listener: L,
    places: Arc<Semaphore>,
    longest: Duration,
    spares: Spares,
}

/// A connection with a deadline.
pub(crate) struct Connection<S> {
    stream: S,
    deadline: Pin<Box<Sleep>>,
    _place: OwnedSemaphorePermit,
    /// Must be last: the stream's file must be closed before the spares are refilled.
    _spares: FillUp,
}

/// Files that are closed to make room for connections when the process has none left.
#[derive(Clone)]
struct Spares(Arc<Mutex<Vec<File>>>);

/// Refills the spares when dropped.
struct FillUp(Spares);

impl Spares {
    fn new() -> Spares {
        let spares = Spares(Arc::default());
        spares.fill_up();
        spares
    }

    fn fill_up(&self) {
        let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while files.len() < SPARES
            && let Ok(file) = File::open("/dev/null")
        {
            files.push(file);
        }
    }

    /// Closes a spare file; returns whether there was one.
    fn give_up_one(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop().is_some()
    }
}

impl Drop for FillUp {
    fn drop(&mut self) {
        self.0.fill_up();
    }
}

impl<L> Bounded<L> {
    pub(crate) fn new(listener: L) -> Bounded<L> {
        Bounded::with(listener, MOST, LONGEST)
    }

    fn with(listener: L, most: usize, longest: Duration) -> Bounded<L> {
        Bounded { listener, places: Arc::new(Semaphore::new(most)), longest, spares: Spares::new() }
    }
}

/// Something that accepts plain connections.
pub(crate) trait Accept: Send + 'static {
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    fn accept_one(&self) -> impl Future<Output = io::Result<Self::Stream>> + Send;

    /// Whether to admit an accepted connection.
    fn admission(&self, _stream: &Self::Stream) -> Admission {
        Admission::Granted
    }
}

impl Accept for Gate {
    type Stream = UnixStream;

    async fn accept_one(&self) -> io::Result<UnixStream> {
        self.listener.accept_one().await
    }

    fn admission(&self, stream: &UnixStream) -> Admission {
        match (self.admits)(stream) {
            true => Admission::Granted,
            false => Admission::Refused,
        }
    }
}

impl<L: Accept + Sync> Connected<IncomingStream<'_, Bounded<L>>> for Admission {
    fn connect_info(stream: IncomingStream<'_, Bounded<L>>) -> Admission {
        *stream.remote_addr()
    }
}

impl Accept for UnixListener {
    type Stream = UnixStream;

    async fn accept_one(&self) -> io::Result<UnixStream> {
        Ok(self.accept().await?.0)
    }
}

impl Accept for TcpListener {
    type Stream = TcpStream;

    async fn accept_one(&self) -> io::Result<TcpStream> {
        Ok(self.accept().await?.0)
    }
}

impl<L: Accept + Sync> Listener for Bounded<L> {
    type Io = Connection<L::Stream>;
    type Addr = Admission;

    async fn accept(&mut self) -> (Self::Io, Admission) {
        loop {
            // The semaphore is never closed.
            let Ok(place) = self.places.clone().acquire_owned().await else {
                return std::future::pending().await;
            };
            match self.listener.accept_one().await {
                Ok(stream) => {
                    let admission = self.listener.admission(&stream);
                    let longest = match admission {
                        Admission::Granted => self.longest,
                        Admission::Refused => self.longest.min(REFUSED),
                    };
                    let deadline = Box::pin(tokio::time::sleep(longest));
                    let _spares = FillUp(self.spares.clone());
                    return (Connection { stream, deadline, _place: place, _spares }, admission);
                }
                // With a file free, the next attempt succeeds.
                Err(error) if lacks_files(&error) && self.spares.give_up_one() => {}
                Err(_) => {
                    drop(place);
                    tokio::time::sleep(RETRY).await;
                    self.spares.fill_up();
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<Admission> {
        Ok(Admission::Granted)
    }
}

/// Whether the process or the host has no file descriptors left.
fn lacks_files(error: &io::Error) -> bool {
    // EMFILE, ENFILE (errno(3)).
    matches!(error.raw_os_error(), Some(24 | 23))
}

impl<S: AsyncRead + Unpin> AsyncRead for Connection<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Poll::Ready(done) = Pin::new(&mut self.stream).poll_read(context, buffer) {
            return Poll::Ready(done);
        }
        ready!(self.deadline.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Connection<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if let Poll::Ready(done) = Pin::new(&mut self.stream).poll_write(context, bytes) {
            return Poll::Ready(done);
        }
        ready!(self.deadline.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test]
    async fn who_says_nothing_is_gone_after_a_while_and_the_next_is_served() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let mut bounded = Bounded::with(listener, 1, Duration::from_millis(50));
        let mut silent = UnixStream::connect(&path).await.unwrap();
        let mut next = UnixStream::connect(&path).await.unwrap();
        let (mut connection, _) = bounded.accept().await;
        let ended = connection.read_u8().await.unwrap_err();
        assert_eq!(ended.kind(), io::ErrorKind::TimedOut);
        drop(connection);
        assert_eq!(silent.read(&mut [0]).await.unwrap(), 0, "closed");
        next.write_u8(7).await.unwrap();
        let (mut connection, _) = bounded.accept().await;
        assert_eq!(connection.read_u8().await.unwrap(), 7);
    }
}
