//! Who is notified of which events, when, and what is still to be sent.
//!
//! [`Outbox`] is the state machine: it takes events and the time, and returns messages to send;
//! there is no clock, file or socket inside. [`Post`] runs it beside a daemon, on a thread of its
//! own and with a file that survives restarts.

#![forbid(unsafe_code)]

mod kept;
mod message;
mod outbox;
mod post;
mod rule;

pub use kept::Kept;
pub use message::Message;
pub use outbox::{Outbox, Waiting};
pub use post::{Deliver, Post, test_event};
pub use rule::{Alert, Security, Target};
