use braid_inner::InnerPacket;
use braid_wire::Form;

/// An inner packet as chunks carry it.
#[derive(Debug, Default)]
pub struct CarriedPacket {
    /// What is cut into chunks.
    pub bytes: Vec<u8>,
    /// What the bytes are.
    pub form: Form,
}

impl From<InnerPacket> for CarriedPacket {
    fn from(packet: InnerPacket) -> Self {
        Self { bytes: packet.bytes, form: Form::Full(packet.offload) }
    }
}

impl CarriedPacket {
    /// Puts `front` in the place of the first bytes, `before` of them: what is behind them moves
    /// once.
    pub fn replace_front(&mut self, before: usize, front: &[u8]) {
        let (old, new) = (self.bytes.len(), self.bytes.len() - before + front.len());
        if new > old {
            self.bytes.resize(new, 0);
        }
        self.bytes.copy_within(before..old, front.len());
        self.bytes.truncate(new);
        self.bytes[..front.len()].copy_from_slice(front);
    }
}
