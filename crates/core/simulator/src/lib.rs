//! A deterministic simulator around the tunnel core: virtual time, seeded
//! links, traffic, and a ledger that checks what comes out.
//!
//! A [`Scenario`] is plain data: links, events, traffic. [`Simulation`] plays
//! it; [`Outcome`] tells what happened and which rules were broken. Only the
//! handshake's keys aren't seeded (they come from the operating system), and
//! they influence no timing.

#![forbid(unsafe_code)]

mod captured;
mod clock;
mod digest;
mod end;
mod end_id;
mod ledger;
mod named;
mod network;
mod outcome;
mod packet;
mod plain;
mod point;
mod scenario;
mod simulation;
mod traffic;

pub use braid_link_model::{Capacity, DirectionModel, Loss, Reorder, Trace};
pub use captured::Captured;
pub use clock::ClockSpec;
pub use end::private_key;
pub use end_id::EndId;
pub use named::{NAMES, named};
pub use network::{Datagram, LinkSpec};
pub use outcome::Outcome;
pub use packet::{ethernet_packet, udp_packet};
pub use plain::play_plain;
pub use point::{ByLinks, Figures, Point, SENDERS, Sender, link_name};
pub use scenario::{Action, Scenario, Stalls, Timed};
pub use simulation::Simulation;
pub use traffic::{Congestion, FlowOutcome, Lane, Traffic, TrafficKind};
