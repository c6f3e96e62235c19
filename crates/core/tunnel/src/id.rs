//! Names of links and peers.

/// Names a link: one socket of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LinkId(pub u16);

impl LinkId {
    /// Numbers from here on are of links over a transport that repairs losses itself (TCP): what
    /// is missing there is late, most often.
    pub const FIRST_REPAIRED: u16 = 0xc000;

    /// Whether what carries its datagrams repairs losses itself.
    pub fn is_repaired(self) -> bool {
        self.0 >= Self::FIRST_REPAIRED
    }
}

/// Names a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PeerId(pub u32);
