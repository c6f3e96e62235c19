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
