//! Requests that may wait, while the control socket is served.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::mpsc::{SyncSender, sync_channel};
use tokio::sync::oneshot;

/// More than this wait for a request that is under way nowhere but in an attack.
const WAITING: usize = 64;

type Request = Box<dyn FnOnce() + Send>;

/// One a process, as is the control socket.
static REQUESTS: OnceLock<SyncSender<Request>> = OnceLock::new();

/// Starts the thread that [`on_own_thread`] has them done by, one after the other. Early: a thread
/// that begins when there is no memory left ends the process.
///
/// # Errors
/// That of pthread_create(3).
pub(crate) fn start() -> io::Result<()> {
    if REQUESTS.get().is_some() {
        return Ok(());
    }
    let (requests, received) = sync_channel::<Request>(WAITING);
    std::thread::Builder::new().name("requests".into()).spawn(move || {
        for request in received {
            // Its words are printed; who asked is told by the answer that doesn't come.
            let _ = catch_unwind(AssertUnwindSafe(request));
        }
    })?;
    // Another was as early: this one's thread ends.
    let _ = REQUESTS.set(requests);
    Ok(())
}

/// Does it there.
///
/// # Errors
/// Too many wait, or it panicked.
pub(crate) async fn on_own_thread<T: Send + 'static>(
    act: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    let (done, is_done) = oneshot::channel();
    let request: Request = Box::new(move || {
        // Who asked may be gone.
        let _ = done.send(act());
    });
    start()?;
    let sent = REQUESTS.get().is_some_and(|requests| requests.try_send(request).is_ok());
    if !sent {
        return Err(io::Error::other("too many requests are waiting; try again"));
    }
    is_done.await.map_err(|_| io::Error::other("the request was cut off"))
}
