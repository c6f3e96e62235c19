//! What an acknowledgement or a timer settled.

use super::sent::SentFrame;

/// Filled by a path for its peer.
#[derive(Debug, Default)]
pub struct Settled {
    /// Frames to be sent again.
    pub lost: Vec<SentFrame>,
    /// The path came back to life.
    pub returned: bool,
}

impl Settled {
    /// Empties it for reuse.
    pub fn clear(&mut self) {
        self.lost.clear();
        self.returned = false;
    }
}
