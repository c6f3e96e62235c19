//! The data plane: one thread that joins the tunnel core with its TUN/TAP
//! device and the links' sockets. Thin: it moves batches between descriptors
//! and the core and keeps the clock; all it decides is whether packets come so often
//! that processors should stay awake.

#![forbid(unsafe_code)]

mod clock;
mod cpu_load;
mod device;
mod handle;
mod run;
mod sockets;
mod wakefulness;

pub use clock::Clock;
pub use handle::{Command, Handle, LEAVES_WITHIN, Report, Stopped};
pub use run::{StartError, start};
