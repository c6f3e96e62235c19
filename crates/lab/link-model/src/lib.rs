//! What a link does to packets, as a pure model: the lab plays it between real
//! devices, the simulator in virtual time.
//!
//! [`DirectionModel`] is plain data; a [`Direction`] plays it: packets go in at their time and come
//! out at theirs, and it says when to ask again. It reads no clock, and its packets are anything
//! that implements [`Packet`].

#![forbid(unsafe_code)]

mod direction;
mod loss;
mod model;
mod packet;
mod serializer;
mod trace;

pub use direction::{Direction, DirectionCounters};
pub use loss::Loss;
pub use model::{Capacity, DirectionChange, DirectionModel, Reorder};
pub use packet::{Packet, flip_bit};
pub use trace::{LineProblem, Trace, TraceError};
