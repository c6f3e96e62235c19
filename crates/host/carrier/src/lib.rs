//! The tunnel's datagrams carried by TLS over TCP, where UDP doesn't pass.
//!
//! The data plane has a [`LinkSocket`](braid_linux::udp::LinkSocket) as for UDP; at its other end
//! is a carrier: a home's ([`Home`]) opens several TLS connections to the concentrator's TCP port
//! ([`Server`]), and whichever can send takes the next datagrams ([`queue`]), so that a loss delays
//! one connection and not all. [`framing`] defines their form in the stream. Clients that can't
//! [`knock`] find an ordinary web server ([`web`]).
//!
//! [`selector`] decides which transport a link uses.

#![forbid(unsafe_code)]

mod certificate;
mod client;
mod connection;
mod end;
pub mod framing;
mod group;
pub mod knock;
mod lasting;
mod leaving;
pub mod proxy;
pub mod queue;
pub mod selector;
mod server;
mod socket;
pub mod web;

pub use certificate::{Certificate, CertificateError, Made};
pub use client::{Home, Target, Targets};
pub use leaving::Leaving;
pub use server::{Server, ServerError, ServerSettings};

/// The thread that runs the carriers of one end.
const THREAD: &str = "braid-carrier";
