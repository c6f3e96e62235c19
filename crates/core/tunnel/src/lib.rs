//! Braid's tunnel core: pure state machines that take the time, packets and
//! events, and give packets and deadlines. No clock, no socket, no thread.
//!
//! A packet's way: [`Tunnel::handle_inner`] finds its peer (`tunnel/forward`),
//! which classes it and queues it (`peer/ingress`, [`entry`]); when a path is
//! free (`peer/send`, [`path`]) it is cut into chunks, sealed and sent, and kept
//! until it has arrived (`peer/reliability`). At the other end `peer/incoming`
//! opens the datagram, and `peer/receive` and [`exit`] put the packet together and
//! in order. See `docs/architecture.md`.

#![forbid(unsafe_code)]

mod buffers;
mod carried;
mod clock;
mod config;
pub mod entry;
pub mod exit;
mod header_contexts;
mod heuristics;
mod id;
mod index_map;
mod outgoing;
pub mod path;
mod peer;
mod ranges;
pub mod redundancy;
pub mod routing;
mod session;
mod tunnel;
mod worker;

pub use config::{LinkConfig, Mode, PeerConfig, TunnelConfig};

pub use heuristics::Heuristics;
pub use id::{LinkId, PeerId};
pub use path::PathCounters;
pub use path::liveness::PathState;
pub use peer::{
    Carried, FlowReport, MOST_FLOWS, PathReport, PathShare, PeerCounters, PeerReport, Referral,
    Served, TrafficReport, Transmit, Treatments,
};
pub use tunnel::{Change, EnrolmentState, Event, Tunnel, TunnelCounters, retry_pause};
pub use worker::{Handover, Worker};
