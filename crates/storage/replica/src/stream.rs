//! btrfs send streams: read command by command, and applied.
//!
//! The format is that of the kernel's `fs/btrfs/send.h`, versions 1 and 2: a header, then commands,
//! each with its length, number, CRC-32C and a sequence of attributes.

mod apply;
mod command;
mod folders;
mod reader;

pub use crate::stream_error::StreamError;
pub use apply::{Applier, CloneSources};
pub use command::{Command, Compressed};
pub use reader::Reader;
