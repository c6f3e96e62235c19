use rustic_core::RusticError;
use std::io;
use std::path::Path;

/// What went wrong with a backup.
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
    /// It would be wrong to go on; says what to do instead.
    #[error("{0}")]
    Refused(String),
    /// Nothing is at the target yet.
    #[error("{0} holds no backups yet: `braid pool backup init` prepares it")]
    Empty(String),
    /// The key doesn't open what is there.
    #[error("the key in {key} doesn't open {target}")]
    WrongKey {
        /// Its file.
        key: String,
        /// What it was to open.
        target: String,
    },
    /// The target doesn't answer, or not as it should.
    #[error("{target}: {what}")]
    Target {
        /// Which.
        target: String,
        /// What it said.
        what: String,
    },
    /// What is there isn't what should be there.
    #[error("{0}")]
    Damaged(String),
    /// Somebody asked it to end.
    #[error("interrupted")]
    Interrupted,
    /// The format's library refused.
    #[error("{0}")]
    Format(String),
}

impl Error {
    pub(crate) fn io(doing: &str, path: &Path, error: io::Error) -> Error {
        Error::Io { doing: format!("{doing} {}", path.display()), error }
    }
}

/// The library's errors are pages of text; this is their one line.
pub(crate) fn one_line(error: &RusticError) -> String {
    let text = error.display_log();
    let text = text.strip_prefix("Error: ").unwrap_or(&text);
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    // In which of its parts it went wrong tells nobody anything.
    match text.split_once(" (kind: related to ") {
        Some((before, after)) => {
            let after = after.split_once(')').map_or("", |(_, after)| after);
            format!("{before}{after}")
        }
        None => text,
    }
}
