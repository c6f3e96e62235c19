//! The thread that carriers run on.

use std::io;

/// Ends with all that runs on it when dropped, wherever that is, and waits for nothing.
#[derive(Debug)]
pub(crate) struct Runtime(Option<tokio::runtime::Runtime>);

impl Runtime {
    pub(crate) fn start() -> io::Result<Runtime> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("braid-carrier")
            .enable_all()
            .build()?;
        Ok(Runtime(Some(runtime)))
    }

    pub(crate) fn handle(&self) -> io::Result<&tokio::runtime::Handle> {
        let ended = || io::Error::other("the carriers have ended");
        self.0.as_ref().map(tokio::runtime::Runtime::handle).ok_or_else(ended)
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
