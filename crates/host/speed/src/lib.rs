//! What a tunnel carries, measured by TCP between its ends: the concentrator has a
//! [`Server`], homes [`measure`]. No third party is asked.
//!
//! A connection carries one request, a line: `braid-speed/1 down MS`, which is answered by
//! bytes for so long; `braid-speed/1 up MS WARM`, after which the client sends for so long, and
//! is told how many bytes came after the first `WARM` ms, and in how many microseconds;
//! `braid-speed/1 load MS`, answered by how busy the processors were in that time, 0 to 1.

#![forbid(unsafe_code)]

mod client;
mod load;
pub mod request;
mod server;

pub use client::{Direction, Load, MeasureError, Rate, load_of, measure};
pub use server::Server;

/// Where the server listens, TCP.
pub const PORT: u16 = 51_901;
