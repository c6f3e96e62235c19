//! The data plane: workers, each a thread that joins a tunnel core with its queue of the TUN/TAP
//! device and the links' sockets. It is thin: it moves batches between descriptors and the core and
//! keeps the clock. Its only decision is whether packets arrive so often that processors should
//! stay awake.

#![forbid(unsafe_code)]

mod clock;
mod cpu_load;
mod device;
mod handle;
mod leave;
mod run;
mod siblings;
mod sockets;
mod unwatched;
mod wakefulness;
mod workers;

pub use clock::Clock;
pub use handle::{Handle, LEAVES_WITHIN, Listening, Report, Stopped};
pub use workers::{StartError, start};
