//! An async runtime on its own thread, for background work.

#![forbid(unsafe_code)]

use std::io;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// It ends with all its tasks when dropped, on whatever thread; dropping doesn't wait.
#[derive(Debug)]
pub struct Runtime {
    handle: Handle,
    _ends: oneshot::Sender<()>,
}

impl Runtime {
    /// Starts it on a thread with this name (at most 15 bytes, pthread_setname_np(3)).
    ///
    /// # Errors
    /// No thread or epoll can be created: a multi-threaded runtime would panic.
    pub fn start(name: &str) -> io::Result<Runtime> {
        let of_it = |error: io::Error| {
            io::Error::new(error.kind(), format!("starting the thread {name}: {error}"))
        };
        let runtime = Builder::new_current_thread().enable_all().build().map_err(of_it)?;
        let handle = runtime.handle().clone();
        let (ends, ended) = oneshot::channel();
        let run = move || {
            // Ends when the other end is dropped.
            let _ = runtime.block_on(ended);
            runtime.shutdown_background();
        };
        std::thread::Builder::new().name(name.to_owned()).spawn(run).map_err(of_it)?;
        Ok(Runtime { handle, _ends: ends })
    }

    /// A handle to run tasks on it.
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
