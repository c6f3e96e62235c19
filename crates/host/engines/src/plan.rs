//! Which engine fits given links and a wish: estimates, with reasons.
//!
//! The model is simple: rates from what links and loss allow, shares from measurements of this
//! project (docs/measurements/links.md) and of the engines side by side. It ranks; it doesn't
//! promise.

mod candidate;
mod facts;
mod model;
mod rank;

pub use candidate::Candidate;
pub use facts::{Adjacency, Facts, LinkFacts, Peer, UNKNOWN_RATE};
pub use model::{Estimate, Stall};
pub use rank::{Row, rank};

use crate::words::words;

words! {
    /// What matters most.
    Wish {
        /// One fast connection.
        One = "one",
        /// Many connections at the same time.
        Many = "many",
        /// Connections never break.
        NeverBreak = "never-break",
        /// UDP, in order.
        Udp = "udp",
    }
}
