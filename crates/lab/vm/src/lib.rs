//! Runs a command in a second kernel, for what the running one lacks: md, bonding, netem, PPP and
//! more, or simply to cut its power.
//!
//! The machine is User Mode Linux, Debian's package `user-mode-linux`. It boots in a second, needs
//! neither root nor KVM, sees the host's files through an overlay (what it writes stays in its
//! memory and is lost at the end), and returns the command's output and exit status. Machines are
//! isolated from each other: many may run at the same time.
//!
//! ```no_run
//! use braid_vm::{DiskImage, Vm};
//! use braid_units::ByteSize;
//!
//! let disk = DiskImage::temporary(ByteSize::from_bytes(300_000_000))?;
//! let output = Vm::find()?.disk(&disk).run(["mkfs.ext4", "-q", "/dev/ubda"])?;
//! assert!(output.success(), "{}", output.console);
//! // The disk keeps what is on it for the next machine.
//! let output = Vm::find()?.disk(&disk).run(["blkid", "/dev/ubda"])?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod console;
mod disk;
mod error;
mod guard;
mod guest;
mod parts;
mod processor;
mod recording;
mod running;
mod vm;

pub use disk::DiskImage;
pub use error::{Unavailable, VmError};
pub use recording::{DiskEvent, DiskEventKind, Recording};
pub use running::{Output, Running};
pub use vm::Vm;
