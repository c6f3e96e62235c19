//! Measures what a tunnel carries with TCP between its ends: the concentrator has a [`Server`],
//! homes [`measure`]. No third party is involved.
//!
//! A connection carries one request, a line: `braid-speed/1 down MS` is answered with bytes for
//! that long; after `braid-speed/1 up MS WARM` the client sends for that long, and is told how many
//! bytes arrived after the first `WARM` ms, and in how many microseconds; `braid-speed/1 load MS`
//! is answered with how busy the processors were in that time, 0 to 1.

#![forbid(unsafe_code)]

mod client;
mod load;
pub mod request;
mod server;

pub use client::{Direction, Load, MeasureError, Rate, load_of, measure};
pub use server::Server;

/// Where the server listens, TCP.
pub const PORT: u16 = 51_901;
