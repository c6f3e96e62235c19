//! The thread that serves the control socket, while the main thread brings all up and
//! takes it down.

use super::supervise::start_thread;
use std::io;
use std::thread::JoinHandle;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// Ends, with all that runs on it, when dropped.
pub struct ControlThread {
    handle: Handle,
    ends: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl ControlThread {
    /// Starts it.
    ///
    /// # Errors
    /// No thread or epoll is to be had: a runtime that starts its threads itself panics then.
    pub fn start() -> io::Result<ControlThread> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (ends, ended) = oneshot::channel();
        let thread = start_thread("braid-control", move || {
            // By the other end's being dropped.
            let _ = runtime.block_on(ended);
        })?;
        Ok(ControlThread { handle, ends: Some(ends), thread: Some(thread) })
    }

    /// Runs this on the calling thread, and what it spawns on the other. It may block.
    pub fn block_on<T>(&self, main: impl Future<Output = T>) -> T {
        self.handle.block_on(main)
    }
}

impl Drop for ControlThread {
    fn drop(&mut self) {
        drop(self.ends.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
