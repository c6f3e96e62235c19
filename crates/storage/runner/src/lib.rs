//! Executes plans step by step, with a journal, so that an interrupted one can be resumed or
//! undone.

mod abandon;
mod action;
pub mod disk_lock;
pub mod host;
pub mod journal;
pub mod progress;
mod run;
pub mod scrub;
pub mod simulated;
pub mod system;
mod undo;

pub use abandon::{Remains, abandon};
pub use action::{Happening, RunError};
pub use run::run;
