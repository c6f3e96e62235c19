//! Runs requests that may block on a thread of their own, so that the control socket stays
//! responsive.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::mpsc::{SyncSender, sync_channel};
use tokio::sync::oneshot;

/// Maximum number of waiting requests; only an attack has more.
const WAITING: usize = 64;

type Request = Box<dyn FnOnce() + Send>;

/// One per process, like the control socket.
static REQUESTS: OnceLock<SyncSender<Request>> = OnceLock::new();

/// Starts the thread that runs requests for [`on_own_thread`], one after another. Call it early: a
/// thread that starts when memory has run out ends the process.
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
            // The panic's message is printed; the caller notices the missing answer.
            let _ = catch_unwind(AssertUnwindSafe(request));
        }
    })?;
    // If another call was first, this one's thread ends.
    let _ = REQUESTS.set(requests);
    Ok(())
}

/// Runs `act` on that thread.
///
/// # Errors
/// Too many wait, or it panicked.
pub(crate) async fn on_own_thread<T: Send + 'static>(
    act: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    let (done, is_done) = oneshot::channel();
    let request: Request = Box::new(move || {
        // The caller may be gone.
        let _ = done.send(act());
    });
    start()?;
    let sent = REQUESTS.get().is_some_and(|requests| requests.try_send(request).is_ok());
    if !sent {
        return Err(io::Error::other("too many requests are waiting; try again"));
    }
    is_done.await.map_err(|_| io::Error::other("the request was cut off"))
}
