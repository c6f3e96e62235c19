//! What two ends of a replication say to each other: frames with a bounded
//! length, over a pipe, a TCP connection or a channel inside one process.

mod frame;
mod link;
mod message;

pub use frame::{Block, Frame, FrameError, LONGEST};
pub use link::{Incoming, Link, Outgoing, Pinger, SILENCE};
pub(crate) use link::{is_readable, unexpected};
pub use message::{
    Begin, Inventory, Message, Open, PROTOCOL, Present, Selection, Unfinished, Work,
};
