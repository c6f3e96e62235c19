use crate::chosen::Series;
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
    /// `latest` is ambiguous: there are backups of several paths.
    #[error("{target} holds backups of {paths}: which is meant?", paths = places(series))]
    Several {
        /// Where.
        target: String,
        /// The newest of each.
        series: Vec<Series>,
    },
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

fn places(series: &[Series]) -> String {
    let place = |one: &Series| {
        let paths: Vec<String> = one.paths.iter().map(|path| path.display().to_string()).collect();
        format!("{} ({})", paths.join(", "), one.host)
    };
    series.iter().map(place).collect::<Vec<_>>().join(", ")
}

/// The library's errors are pages of text; this is their one line.
pub(crate) fn one_line(error: &RusticError) -> String {
    let text = error.display_log();
    let text = text.strip_prefix("Error: ").unwrap_or(&text);
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    // Which of its parts failed means nothing to a user.
    let text = match text.split_once(" (kind: related to ") {
        Some((before, after)) => {
            let after = after.split_once(')').map_or("", |(_, after)| after);
            format!("{before}{after}")
        }
        None => text,
    };
    // The cause is told in another of its ways, where it was called included.
    let text = match text.split_once("`rustic_core` experienced an error") {
        Some((before, cause)) => {
            let message = cause.split_once("Message: ").map_or(cause, |(_, message)| message);
            format!("{before}{}", message.trim_start())
        }
        None => text,
    };
    let end =
        [" Some additional details", " Backtrace:"].iter().filter_map(|it| text.find(it)).min();
    text.get(..end.unwrap_or(text.len())).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustic_core::ErrorKind;

    #[test]
    fn an_error_is_one_line_without_where_it_happened() {
        let inner = RusticError::new(ErrorKind::Cryptography, "it is too short");
        let outer = RusticError::with_source(ErrorKind::Internal, "reading {what}", inner)
            .attach_context("what", "the config");
        assert_eq!(one_line(&outer), "reading the config: caused by: it is too short");
    }
}
