//! The link emulator: what a link does to packets, without the kernel's netem. [`LinkModel`]
//! describes a link, [`Direction`] plays one direction of it, [`Nat`] is the provider's address
//! translation, and [`Emulator`] moves real packets through them.

mod device;
mod engine;
mod ipv4;
mod link;
mod model;
mod nat;

pub use braid_link_model::{
    Capacity, Direction, DirectionChange, DirectionCounters, DirectionModel, Loss, Reorder, Trace,
};
pub use device::LinkDevice;
pub use engine::{Emulator, LinkCounters};
pub use link::{LinkParts, NatAddresses};
pub use model::{Carrier, LinkChange, LinkModel};
pub use nat::{Nat, NatRefusal};
