//! Which server's name the first packets of a connection ask for: TLS (RFC 8446) and QUIC (RFC
//! 9000, 9001, 9369). Pure: packets are given as observed in passing, in any order, possibly
//! truncated or forged.

#![forbid(unsafe_code)]

mod client_hello;
mod listener;
mod quic;
mod reader;
mod stream;

pub use client_hello::{Hello, of_handshake, of_records};
pub use listener::{Asked, Listener};
pub use quic::{Initial, crypto_frames, initials};
