use std::time::Duration;

/// Keys and values that several machines share, each change atomic.
pub trait Store: Send {
    /// All there is, by keys in order.
    ///
    /// # Errors
    /// The store can't be reached, or isn't what it should be.
    fn read(&mut self) -> Result<Vec<Entry>, StoreError>;

    /// Writes a value, if the key is as expected.
    ///
    /// # Errors
    /// As [`Store::read`]: then it may be written or not.
    fn write(
        &mut self,
        key: &str,
        value: &str,
        expected: Expected,
        life: Life,
    ) -> Result<Written, StoreError>;

    /// Removes a key, if it is as expected.
    ///
    /// # Errors
    /// As [`Store::write`].
    fn remove(&mut self, key: &str, expected: Expected) -> Result<Written, StoreError>;

    /// Says that the writer lives: what it wrote [for as long](Life::Writer) stays so much longer.
    /// Tells whether it is the same life: where it isn't, all of that is gone and to be written
    /// again.
    ///
    /// # Errors
    /// As [`Store::read`].
    fn keep_alive(&mut self, lease: Duration) -> Result<bool, StoreError>;
}

/// One key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key, such as `home/cabin`.
    pub key: String,
    /// Its value.
    pub value: String,
    /// Another one after each change of this key; never the same again.
    pub version: i64,
}

/// How a key must be for a change to count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// However it is.
    Any,
    /// It isn't there.
    Absent,
    /// This version of it is there.
    Version(i64),
}

/// How long a value stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// Until it is removed.
    Lasting,
    /// As long as its writer lives, see [`Store::keep_alive`].
    Writer,
}

/// What became of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// It is so now.
    Done,
    /// The key was not as expected: nothing has changed.
    Conflict,
}

/// Why the store did not do it.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Nobody answers, or not in time, or there is no quorum.
    #[error("the registry can't be reached: {0}")]
    Unreachable(String),
    /// It answers, and refuses.
    #[error("the registry refuses: {0}")]
    Refused(String),
    /// Others could read the keys in it, or change them.
    #[error("the registry isn't safe: {0}")]
    Exposed(String),
    /// What is in it isn't ours, or of a later version.
    #[error("the registry holds what can't be read: {0}")]
    Foreign(String),
}
