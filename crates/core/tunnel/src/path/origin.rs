use crate::id::LinkId;
use std::net::{IpAddr, SocketAddr};

/// Where a datagram came from.
#[derive(Clone, Copy, Debug)]
pub struct Origin {
    /// By which link.
    pub link: LinkId,
    /// From which address.
    pub remote: SocketAddr,
    /// To which of ours, if the socket has several.
    pub local: Option<IpAddr>,
}
