use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Why this host can run no second kernel.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    /// No kernel is installed.
    #[error(
        "there is no User Mode Linux kernel ({}): apt install user-mode-linux, or name one in \
         BRAID_VM_KERNEL",
        .looked_for.display()
    )]
    NoKernel {
        /// Where it would be.
        looked_for: PathBuf,
    },
    /// The host isn't one that User Mode Linux exists for.
    #[error("User Mode Linux runs on x86-64 Linux only")]
    Architecture,
    /// A folder that the machine's first process mounts on.
    #[error("the folder {} is missing", .0.display())]
    NoFolder(PathBuf),
}

/// Why a command has no exit status.
#[derive(Debug, thiserror::Error)]
pub enum VmError {
    /// There's nothing to run it in.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// A file or process of the machine couldn't be made.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// Why it failed.
        source: io::Error,
    },
    /// What the machine can't have.
    #[error("{0}")]
    Unfit(String),
    /// It ran longer than it may.
    #[error("the VM was cut off after {} s; it said:\n{console}", limit.as_secs())]
    TimeLimit {
        /// The limit.
        limit: Duration,
        /// What the command had printed.
        console: String,
    },
    /// What was waited for wasn't printed.
    #[error("the VM did not print {text:?} within {} s; it said:\n{console}", within.as_secs())]
    NotPrinted {
        /// What was waited for.
        text: String,
        /// How long.
        within: Duration,
        /// What it printed instead.
        console: String,
    },
    /// The kernel ended before the command did.
    #[error("the VM ended before its command; it said:\n{console}\n--- its kernel:\n{kernel_log}")]
    Died {
        /// What the command had printed.
        console: String,
        /// The end of the kernel's own messages.
        kernel_log: String,
    },
}

impl VmError {
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| VmError::Io { what, source }
    }
}
