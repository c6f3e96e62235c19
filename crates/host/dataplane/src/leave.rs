//! When all workers have done what was asked of them.

use std::sync::mpsc::Sender;

/// Each worker holds it until it is done; the last one's says so.
#[derive(Debug)]
pub(crate) struct AllDone(Sender<()>);

impl AllDone {
    /// Who wants to know it.
    pub fn tell(whom: Sender<()>) -> Self {
        Self(whom)
    }
}

impl Drop for AllDone {
    fn drop(&mut self) {
        // Whoever asked may have gone.
        let _ = self.0.send(());
    }
}
