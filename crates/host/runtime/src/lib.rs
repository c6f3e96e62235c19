//! An asynchronous runtime with a thread to itself, for what goes on beside everything else.

#![forbid(unsafe_code)]

use std::io;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// Ends, with all that runs on it, when dropped, wherever that is; nobody waits for that.
#[derive(Debug)]
pub struct Runtime {
    handle: Handle,
    _ends: oneshot::Sender<()>,
}

impl Runtime {
    /// Starts it on a thread of this name (pthread_setname_np(3): of 15 bytes at the most).
    ///
    /// # Errors
    /// No thread or epoll is to be had: a runtime that starts its threads itself panics then.
    pub fn start(name: &str) -> io::Result<Runtime> {
        let of_it = |error: io::Error| {
            io::Error::new(error.kind(), format!("starting the thread {name}: {error}"))
        };
        let runtime = Builder::new_current_thread().enable_all().build().map_err(of_it)?;
        let handle = runtime.handle().clone();
        let (ends, ended) = oneshot::channel();
        let run = move || {
            // By the other end's being dropped.
            let _ = runtime.block_on(ended);
            runtime.shutdown_background();
        };
        std::thread::Builder::new().name(name.to_owned()).spawn(run).map_err(of_it)?;
        Ok(Runtime { handle, _ends: ends })
    }

    /// By which things are run on it.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    #[test]
    fn what_is_spawned_runs_on_its_thread() {
        let runtime = Runtime::start("braid-test").unwrap();
        let (told, name) = mpsc::channel();
        let tell = move || told.send(thread::current().name().map(str::to_owned));
        runtime.handle().spawn(async move { tell() });
        assert_eq!(name.recv().unwrap().as_deref(), Some("braid-test"));
        // A caller that waits does so on its own thread.
        let here = thread::current().id();
        assert_eq!(runtime.handle().block_on(async { thread::current().id() }), here);
    }

    #[test]
    fn dropped_it_ends_with_all_that_runs_on_it() {
        let runtime = Runtime::start("braid-test").unwrap();
        let (held, ended) = mpsc::channel::<()>();
        runtime.handle().spawn(async move {
            let _held = held;
            tokio::time::sleep(Duration::from_secs(3600)).await;
        });
        drop(runtime);
        assert_eq!(ended.recv(), Err(mpsc::RecvError), "dropped unsent");
    }

    #[test]
    fn it_may_be_dropped_by_what_runs_on_it() {
        let runtime = Runtime::start("braid-test").unwrap();
        let (told, is_told) = mpsc::channel();
        let handle = runtime.handle().clone();
        handle.spawn(async move {
            drop(runtime);
            told.send(()).unwrap();
        });
        assert_eq!(is_told.recv(), Ok(()));
    }
}
