//! The link emulator: what a link does to packets, without help from the
//! kernel's netem. [`LinkModel`] says what a link is, [`Direction`] is the pure
//! model of one direction of it, [`Nat`] is the provider's address translation,
//! and the engine moves real packets through them.

mod model;
mod trace;

pub use model::{Capacity, Carrier, DirectionChange, DirectionModel, LinkChange, LinkModel, Loss};
pub use trace::{Trace, TraceError};
