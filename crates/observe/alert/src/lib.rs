//! Notifications of which events, when, and what waits to be told.
//!
//! [`Outbox`] is the state machine: it is given events and the time, and gives messages to be
//! sent; no clock, file or socket inside. [`Post`] runs it beside a daemon, on a thread of its own
//! and with a file that outlives it.

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
