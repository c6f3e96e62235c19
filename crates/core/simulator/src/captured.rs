use crate::network::Datagram;
use crate::traffic::Lane;
use std::time::Duration;

/// A datagram recorded as it was sent.
#[derive(Clone, Debug)]
pub struct Captured {
    /// When.
    pub at: Duration,
    /// By which link.
    pub link: usize,
    /// Which way.
    pub lane: Lane,
    /// The datagram, with the addresses that the receiver sees.
    pub datagram: Datagram,
}
