use super::treatment::Treatment;
use braid_inner::{Class, InnerPacket};
use braid_units::Time;

/// What a queued packet costs besides its bytes, in bytes: its place in the queue and its
/// buffer's account, rounded up.
const OVERHEAD: u64 = 128;

/// A packet in the queue.
#[derive(Debug)]
pub struct Queued {
    /// The packet.
    pub packet: InnerPacket,
    /// What it's worth.
    pub class: Class,
    /// Those who speak by it repair losses themselves, at a price: worth a
    /// repair for longer.
    pub stream: bool,
    /// The user's class, an index into the tunnel's rules.
    pub rule: Option<u16>,
    /// How its flow is treated.
    pub treatment: Treatment,
    /// When it came.
    pub at: Time,
}

impl Queued {
    /// The same of another packet.
    pub fn with(&self, packet: InnerPacket) -> Self {
        let Self { class, stream, rule, treatment, at, .. } = *self;
        Self { packet, class, stream, rule, treatment, at }
    }

    /// Bytes of memory.
    pub(super) fn cost(&self) -> u64 {
        self.packet.bytes.len() as u64 + OVERHEAD
    }
}
