use std::time::Duration;

/// Keys and values that several machines share, each change atomic.
pub trait Store: Send {
    /// All entries, ordered by key.
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

    /// Renews the writer's lease: what it wrote [for its lifetime](Life::Writer) stays for this
    /// much longer. Returns whether the old lease still existed: if not, all of that is gone and
    /// must be written again.
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
    /// Changes with each change of this key, and never repeats.
    pub version: i64,
}

/// The state that a key must be in for a change to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Any state.
    Any,
    /// It doesn't exist.
    Absent,
    /// It has this version.
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

/// The result of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// The change was made.
    Done,
    /// The key was not as expected: nothing has changed.
    Conflict,
}

/// Why the store did not do it.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// No answer, or not in time, or no quorum.
    #[error("the registry can't be reached: {0}")]
    Unreachable(String),
    /// It refuses.
    #[error("the registry refuses: {0}")]
    Refused(String),
    /// Others could read the keys in it, or change them.
    #[error("the registry isn't secure: {0}")]
    Exposed(String),
    /// Its contents aren't ours, or are of a later version.
    #[error("the registry contains unreadable data: {0}")]
    Foreign(String),
}
