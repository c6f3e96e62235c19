//! The link emulator: what a link does to packets, without help from the
//! kernel's netem. [`LinkModel`] says what a link is, [`Direction`] is the pure
//! model of one direction of it, [`Nat`] is the provider's address translation,
//! and [`Emulator`] moves real packets through them.

mod channel;
mod device;
mod direction;
mod engine;
mod ipv4;
mod link;
mod model;
mod nat;
mod serializer;
mod trace;

pub use device::LinkDevice;
pub use direction::{Direction, DirectionCounters};
pub use engine::{Emulator, LinkCounters};
pub use link::{LinkParts, NatAddresses};
pub use model::{Capacity, Carrier, DirectionChange, DirectionModel, LinkChange, LinkModel, Loss};
pub use nat::{Nat, NatRefusal};
pub use trace::{LineProblem, Trace, TraceError};
