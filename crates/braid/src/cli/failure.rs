use crate::cli::terminal_line;
use braid_control::client::ClientError;
use braid_control::config::{ConfigErrors, EditError, KeyFileError, SecretError};
use braid_control::join_line::JoinLineError;
use braid_pool::untrusted::lines;
use serde_json::json;
use std::io::{self, Write};
use std::process::ExitCode;

/// Why a command failed: a message for the user and the exit code's meaning.
#[derive(Debug)]
pub struct Failure {
    kind: FailureKind,
    message: String,
}

/// The exit codes; they stay as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FailureKind {
    /// Tried and failed.
    Failed = 1,
    /// Wrong use of the command line (as clap exits).
    Usage = 2,
    /// Config, key file or join line.
    Config = 3,
    /// No tunnel is running.
    NotRunning = 4,
    /// Permission denied.
    Permission = 5,
    /// Running already.
    AlreadyRunning = 6,
    /// The user said no.
    Declined = 7,
    /// Who read the output has gone: nobody is told. As a shell says of a program that SIGPIPE
    /// ended.
    NobodyReads = 141,
}

impl Failure {
    /// A failure of this kind.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Failure {
        Failure { kind, message: message.into() }
    }

    /// Tried and failed.
    pub fn failed(message: impl Into<String>) -> Failure {
        Failure::new(FailureKind::Failed, message)
    }

    /// Whether the system let nobody but root do it.
    #[cfg(feature = "pools")]
    pub fn is_of_permission(&self) -> bool {
        self.kind == FailureKind::Permission
    }

    /// What the system said when `doing` something.
    pub fn io(doing: &str, error: &io::Error) -> Failure {
        let kind = match error.kind() {
            io::ErrorKind::PermissionDenied => FailureKind::Permission,
            io::ErrorKind::AddrInUse => FailureKind::AlreadyRunning,
            _ => FailureKind::Failed,
        };
        let hint = match kind {
            FailureKind::Permission => "; run as root",
            _ => "",
        };
        Failure::new(kind, format!("{doing}: {error}{hint}"))
    }

    /// Tells the user on stderr.
    pub fn report(&self, as_json: bool) -> ExitCode {
        let code = self.kind as u8;
        if self.kind == FailureKind::NobodyReads {
            return ExitCode::from(code);
        }
        let text = if as_json {
            json!({ "error": self.message, "exit_code": code }).to_string()
        } else {
            lines(&format!("braid: {}", self.message))
        };
        // With stderr closed nobody can be told.
        let _ = writeln!(io::stderr(), "{text}");
        ExitCode::from(code)
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

/// Prints to stdout, nothing that a terminal obeys. A reader that went away (`| head`) has what it
/// wanted: the command ends without a complaint.
pub fn print_line(text: &str) -> Result<(), Failure> {
    writeln!(io::stdout(), "{}", lines(text)).map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::new(FailureKind::NobodyReads, ""),
        _ => Failure::io("writing the output", &error),
    })
}

impl From<ConfigErrors> for Failure {
    fn from(errors: ConfigErrors) -> Self {
        Failure::new(FailureKind::Config, errors.to_string())
    }
}

impl From<KeyFileError> for Failure {
    fn from(error: KeyFileError) -> Self {
        let kind = match &error.error {
            SecretError::Io { error, .. } if error.kind() == io::ErrorKind::PermissionDenied => {
                FailureKind::Permission
            }
            _ => FailureKind::Config,
        };
        Failure::new(kind, error.to_string())
    }
}

impl From<JoinLineError> for Failure {
    fn from(error: JoinLineError) -> Self {
        Failure::new(FailureKind::Config, error.to_string())
    }
}

impl From<EditError> for Failure {
    fn from(error: EditError) -> Self {
        let kind = match &error {
            EditError::Io { error, .. } if error.kind() == io::ErrorKind::PermissionDenied => {
                FailureKind::Permission
            }
            EditError::Io { .. }
            | EditError::NoSuchLink { .. }
            | EditError::LinkOfRule { .. }
            | EditError::NoSuchRule { .. } => FailureKind::Failed,
            EditError::Config(_) | EditError::Form { .. } => FailureKind::Config,
        };
        Failure::new(kind, error.to_string())
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        let kind = match error {
            ClientError::NotRunning(_) | ClientError::Anothers { .. } => FailureKind::NotRunning,
            ClientError::Permission(_) => FailureKind::Permission,
            ClientError::Refused { .. } | ClientError::Broken { .. } => FailureKind::Failed,
        };
        Failure::new(kind, error.to_string())
    }
}

#[cfg(feature = "pools")]
impl From<braid_replica::Error> for Failure {
    fn from(error: braid_replica::Error) -> Self {
        match &error {
            braid_replica::Error::Io { doing, error } => Failure::io(doing, error),
            _ => Failure::failed(error.to_string()),
        }
    }
}

/// Tells the user something besides the result, on stderr.
pub fn tell(text: &str) {
    terminal_line::say(&lines(text));
}
