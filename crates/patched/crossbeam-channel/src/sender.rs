use crate::shared::Shared;
use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// Where things go in; there may be several.
pub struct Sender<T>(Arc<Shared<T>>);

/// Nobody receives it; this is it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SendError<T>(pub T);

impl<T> Sender<T> {
    pub(crate) fn of(shared: &Arc<Shared<T>>) -> Sender<T> {
        shared.sender_comes();
        Sender(Arc::clone(shared))
    }

    /// Waits for room.
    ///
    /// # Errors
    /// Nobody receives any more.
    pub fn send(&self, item: T) -> Result<(), SendError<T>> {
        self.0.push(item).map_err(SendError)
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Sender::of(&self.0)
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.0.sender_goes();
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sender")
    }
}

impl<T> fmt::Debug for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SendError")
    }
}

impl<T> fmt::Display for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("nobody receives any more")
    }
}

impl<T> Error for SendError<T> {}
