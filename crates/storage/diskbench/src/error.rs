use braid_disks::tool::ToolError;
use braid_pool::doctor::MEASURED_POOL;
use braid_runner::RunError;
use braid_runner::journal::JournalError;

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// A program isn't there or didn't answer.
    #[error(transparent)]
    Tool(#[from] ToolError),
    /// It ended with an error.
    #[error("{program} failed: {said}")]
    Failed {
        /// Which.
        program: String,
        /// The end of its output.
        said: String,
    },
    /// fio's answer isn't what fio 3 answers.
    #[error("fio's answer can't be read: {0}")]
    Unreadable(String),
    /// There is too little room on the pool.
    #[error("{free} bytes are free at {folder}; a benchmark needs at least {needed}")]
    NoRoom {
        /// Where.
        folder: String,
        /// How much is.
        free: u64,
        /// How much it takes.
        needed: u64,
    },
    /// A file couldn't be written or read.
    #[error("{what}: {error}")]
    Io {
        /// At what.
        what: String,
        /// Why.
        error: std::io::Error,
    },
    /// The pool couldn't be made; what there was of it is removed.
    #[error(transparent)]
    NotMade(RunError),
    /// The pool couldn't be taken down.
    #[error("{0}\n`braid pool abandon {pool}` takes it down", pool = MEASURED_POOL)]
    NotTakenDown(RunError),
    /// Its journal couldn't be written.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The user wants to stop.
    #[error("stopped")]
    Stopped,
}

impl BenchError {
    /// For `map_err`: what was being done when the system failed.
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> BenchError {
        let what = what.into();
        move |error| BenchError::Io { what, error }
    }

    /// A program that ended with an error, and the end of its output.
    pub(crate) fn failed(program: &str, said: &str) -> BenchError {
        let said = said.trim();
        let from = said.char_indices().rev().nth(400).map_or(0, |(at, _)| at);
        let said = if said.is_empty() { "it didn't say why" } else { &said[from..] };
        BenchError::Failed { program: program.to_owned(), said: said.to_owned() }
    }
}
