//! The thread that carriers run on.

use std::io;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// Ends with all that runs on it when dropped, wherever that is, and waits for nothing.
#[derive(Debug)]
pub(crate) struct Runtime {
    handle: Handle,
    _ends: oneshot::Sender<()>,
}

impl Runtime {
    /// # Errors
    /// No thread or epoll is to be had: a runtime that starts its threads itself panics then.
    pub(crate) fn start() -> io::Result<Runtime> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (ends, ended) = oneshot::channel();
        std::thread::Builder::new().name("braid-carrier".into()).spawn(move || {
            // By the other end's being dropped.
            let _ = runtime.block_on(ended);
            runtime.shutdown_background();
        })?;
        Ok(Runtime { handle, _ends: ends })
    }

    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }
}
