use crate::shown::shown;
use std::io;
use std::path::Path;

/// What went wrong with a snapshot or a replica.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The system refused something.
    #[error("{doing}: {error}")]
    Io {
        /// What was being done, with the path.
        doing: String,
        /// What the system said.
        error: io::Error,
    },
    /// It would be wrong to continue; says what to do instead.
    #[error("{0}")]
    Refused(String),
    /// The other end is gone; trying again continues where it stopped.
    #[error("the connection broke: {0}")]
    Connection(String),
    /// The other end's name has no address now; it may have one once the network is up.
    #[error("{0}")]
    Nameless(String),
    /// The other end says why it can't continue.
    #[error("at the other end: {0}")]
    Remote(String),
    /// What was received isn't a btrfs send stream, or is damaged.
    #[error("the send stream: {0}")]
    Stream(#[from] crate::stream_error::StreamError),
    /// Two sides that should be the same are not; the message says where.
    #[error("{0}")]
    Differs(String),
}

impl Error {
    /// What the system said when `doing` something with `path`.
    pub fn io(doing: &str, path: &Path, error: io::Error) -> Error {
        Error::Io { doing: format!("{doing} {}", shown(path).display()), error }
    }

    /// Whether trying again may help.
    pub fn is_passing(&self) -> bool {
        matches!(self, Error::Connection(_) | Error::Nameless(_))
    }
}
