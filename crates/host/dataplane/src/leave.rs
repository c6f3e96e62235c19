//! Notifies when all workers have finished a command.

use std::sync::mpsc::Sender;

/// Each worker holds a reference until it is done; dropping the last one notifies.
#[derive(Debug)]
pub(crate) struct AllDone(Sender<()>);

impl AllDone {
    /// Notifies this receiver.
    pub fn tell(whom: Sender<()>) -> Self {
        Self(whom)
    }
}

impl Drop for AllDone {
    fn drop(&mut self) {
        // The receiver may be gone.
        let _ = self.0.send(());
    }
}
