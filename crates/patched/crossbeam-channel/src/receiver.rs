use crate::shared::Shared;
use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// Where things come out; there may be several, and each thing comes out at one of them.
pub struct Receiver<T>(Arc<Shared<T>>);

/// Nobody sends any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecvError;

/// All that come.
pub struct IntoIter<T>(Receiver<T>);

/// All that come.
pub struct Iter<'a, T>(&'a Receiver<T>);

impl<T> Receiver<T> {
    pub(crate) fn of(shared: &Arc<Shared<T>>) -> Receiver<T> {
        shared.receiver_comes();
        Receiver(Arc::clone(shared))
    }

    /// Waits for the next one.
    ///
    /// # Errors
    /// Nobody sends any more.
    pub fn recv(&self) -> Result<T, RecvError> {
        self.0.pop().ok_or(RecvError)
    }

    /// All that come.
    #[must_use]
    pub fn iter(&self) -> Iter<'_, T> {
        Iter(self)
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        Receiver::of(&self.0)
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.0.receiver_goes();
    }
}

impl<T> Iterator for IntoIter<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.0.0.pop()
    }
}

impl<T> Iterator for Iter<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.0.0.pop()
    }
}

impl<T> IntoIterator for Receiver<T> {
    type Item = T;
    type IntoIter = IntoIter<T>;

    fn into_iter(self) -> IntoIter<T> {
        IntoIter(self)
    }
}

impl<'a, T> IntoIterator for &'a Receiver<T> {
    type Item = T;
    type IntoIter = Iter<'a, T>;

    fn into_iter(self) -> Iter<'a, T> {
        self.iter()
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Receiver")
    }
}

impl fmt::Display for RecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("nobody sends any more")
    }
}

impl Error for RecvError {}
