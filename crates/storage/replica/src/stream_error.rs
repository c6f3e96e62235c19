//! Send streams that can't be applied.

/// Why bytes aren't a send stream, or not one that can be applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    /// Something else, or its start is missing.
    #[error("it doesn't start as a btrfs send stream does")]
    NoHeader,
    /// Written by a newer kernel than this program knows.
    #[error("its version is {0}; versions 1 and 2 are known")]
    Version(u32),
    /// Bits were changed in transit.
    #[error("the checksum of the command at byte {0} is wrong")]
    Checksum(u64),
    /// A command is longer than any that a kernel writes.
    #[error("the command at byte {at} has {length} bytes")]
    TooLong {
        /// Where in the stream.
        at: u64,
        /// Its stated length.
        length: u32,
    },
    /// The number of a command that this program doesn't know.
    #[error("command {0} is unknown")]
    UnknownCommand(u16),
    /// An attribute is missing or has a wrong length.
    #[error("attribute {attribute} of command {command} is missing or wrong")]
    Attribute {
        /// The command's number.
        command: u16,
        /// The attribute's number.
        attribute: u16,
    },
    /// A path that leads out of the subvolume.
    #[error("the path {0:?} leads out of the subvolume")]
    Path(String),
    /// Data of a subvolume that isn't here.
    #[error("it borrows data from subvolume {0}, which isn't here")]
    NoLender(braid_pool::uuid::Uuid),
    /// A change came before the subvolume, or a second subvolume came.
    #[error("its commands are out of order")]
    Order,
    /// It ended before its end command.
    #[error("it is cut off at byte {0}")]
    Truncated(u64),
}
