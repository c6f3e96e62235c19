//! The messages between two ends of a replication: frames of bounded length, over a pipe, a TCP
//! connection or a channel inside one process.

mod begin;
mod connection;
mod frame;
mod message;
mod stored;

pub use begin::{Begin, StreamId};
pub use connection::{Connection, Incoming, Outgoing, Pinger, SILENCE};
pub(crate) use connection::{is_readable, unexpected};
pub use frame::{Block, Frame, FrameError, LONGEST};
pub use message::{Inventory, Message, Open, PROTOCOL, Present, Selection, Work};
pub use stored::{Entry, StoredNow};
