use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Why this host can't run a second kernel.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    /// No kernel is installed.
    #[error(
        "there is no User Mode Linux kernel ({}): apt install user-mode-linux, or name one in \
         BRAID_VM_KERNEL",
        .looked_for.display()
    )]
    NoKernel {
        /// Its expected path.
        looked_for: PathBuf,
    },
    /// User Mode Linux doesn't exist for this host.
    #[error("User Mode Linux runs on x86-64 Linux only")]
    Architecture,
    /// A folder on which the machine's first process mounts is missing.
    #[error("the folder {} is missing", .0.display())]
    NoFolder(PathBuf),
}

/// Why a command's exit status isn't known.
#[derive(Debug, thiserror::Error)]
pub enum VmError {
    /// No machine is available.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// A file or process of the machine couldn't be created.
    #[error("{what}: {source}")]
    Io {
        /// The attempted action.
        what: String,
        /// Why it failed.
        source: io::Error,
    },
    /// The machine doesn't support this.
    #[error("{0}")]
    Unfit(String),
    /// It exceeded its time limit.
    #[error("the VM was cut off after {} s; it said:\n{console}", limit.as_secs())]
    TimeLimit {
        /// The limit.
        limit: Duration,
        /// The command's output so far.
        console: String,
    },
    /// The expected text wasn't printed.
    #[error("the VM did not print {text:?} within {} s; it said:\n{console}", within.as_secs())]
    NotPrinted {
        /// The expected text.
        text: String,
        /// How long it was waited for.
        within: Duration,
        /// What it printed instead.
        console: String,
    },
    /// The kernel ended before the command did.
    #[error("the VM ended before its command; it said:\n{console}\n--- its kernel:\n{kernel_log}")]
    Died {
        /// The command's output so far.
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
