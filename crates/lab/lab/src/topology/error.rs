use std::io;

/// Why the lab's network can't be built or changed.
#[derive(Debug, thiserror::Error)]
pub enum TopologyError {
    /// No network namespace can be created.
    #[error(
        "can't make or enter a network namespace: {0} (run as root, or allow user namespaces: sysctl kernel.apparmor_restrict_unprivileged_userns=0)"
    )]
    Namespace(#[source] io::Error),
    /// An end of an emulated link can't be created.
    #[error("link {link:?}: {source}")]
    Device {
        /// The link.
        link: String,
        /// Why.
        source: io::Error,
    },
    /// The emulator didn't start.
    #[error("can't start the link emulator: {0}")]
    Emulator(#[source] io::Error),
    /// A command failed.
    #[error("`{command}` failed: {said}")]
    Command {
        /// The command, or the line of a batch.
        command: String,
        /// What it printed.
        said: String,
    },
    /// A kernel setting can't be changed.
    #[error("can't write {value:?} to /proc/sys/net/{name}: {source}")]
    Sysctl {
        /// Path below `/proc/sys/net`.
        name: String,
        /// The value to write.
        value: String,
        /// Why it failed.
        source: io::Error,
    },
    /// Too many links, or none.
    #[error("{0} links can't be made; 1 to {max} can", max = super::address::MAX_LINKS)]
    LinkCount(usize),
    /// There is no link with this number.
    #[error("there's no link number {0}")]
    NoSuchLink(usize),
    /// The link or setup can't do what is requested.
    #[error("link {link:?}: {problem}")]
    Unsupported {
        /// The link, or links.
        link: String,
        /// What it can't do, and what to do instead.
        problem: String,
    },
}
