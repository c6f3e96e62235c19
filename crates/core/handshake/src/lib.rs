//! Braid: keys, Noise IK handshake, cookies and AEAD sessions, sans-IO.
//!
//! Two peers that know each other's [`PublicKey`] agree on session keys with
//! one round trip:
//!
//! ```text
//! Initiation::start ──────── initiation ───────▶ Responder::receive
//!                                                  └▶ PendingResponse::respond
//! Initiation::finish ◀─────── response ──────────────┘
//!   └▶ Established                                     Established
//! ```
//!
//! What was recorded and is sent again gets an answer at most
//! ([`PendingResponse::answer`]), never a session that counts: the responder
//! takes one for proved only when a packet that opens with it has come.
//!
//! A home that the responder doesn't know yet introduces itself by an
//! [`EnrolmentToken`]: its initiation is made with the token's key and names its
//! own ([`Extensions::enrol`]). No session comes of that; when it is let in, it
//! shakes hands with its own key.
//!
//! A responder that is under load answers an initiation with a cookie instead
//! ([`Initiation::handle_cookie_reply`]), and one that has no proof that the
//! sender knows its public key does not answer at all.
//!
//! The design follows the WireGuard paper (J. Donenfeld, "WireGuard: Next
//! Generation Kernel Network Tunnel", NDSS 2017) and the Noise framework
//! (T. Perrin, revision 34), pattern `Noise_IKpsk2_25519_ChaChaPoly_BLAKE2s`.
//! The bytes on the wire are in [`message`].
//!
//! Nothing here reads a clock, a socket or, except for [`os_random`], the
//! operating system's randomness: times, addresses and random numbers are
//! arguments.

#![forbid(unsafe_code)]

mod aead;
mod cookie;
mod enrolment;
mod error;
mod extensions;
mod hello;
mod initiation;
mod keys;
mod lifetime;
mod mac;
pub mod message;
mod noise;
mod random;
mod replay_window;
mod responder;
mod session;
mod timestamp;

pub use aead::{Aead, AeadOffer};
pub use cookie::{COOKIE_LIFETIME, Cookie};
pub use enrolment::{EnrolmentRefusal, EnrolmentToken};
pub use error::HandshakeError;
pub use extensions::Extensions;
pub use hello::{Hello, TooManyParameters, TunnelParameters};
pub use initiation::Initiation;
pub use keys::{KeyError, PresharedKey, PrivateKey, PublicKey};
pub use lifetime::{KeyAge, KeyLifetime, REJECT_AFTER_TIME, REKEY_AFTER_TIME};
pub use message::{HandshakeMessage, SessionIndex};
pub use random::os_random;
pub use replay_window::{NotFresh, ReplayWindow};
pub use responder::{Answer, PendingResponse, Received, Responder};
pub use session::{Established, Forged, OpeningKey, SealingKey, TAG_LEN};
pub use timestamp::{LatestTimestamp, NextTimestamp, StaleTimestamp};
