use crate::Malformed;
use crate::integer::{Reader, put_varint};
use braid_units::Rate;

pub(crate) const LIMIT: u8 = 0x0b;

/// From a concentrator: what the home sends it is to be no more. It comes last in a datagram: who
/// doesn't know the frame drops what is behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitFrame {
    /// Of inner packets; none: as much as the links carry.
    pub rate: Option<Rate>,
    /// Rises with each change, so that one that is late counts no more.
    pub epoch: u64,
}

impl LimitFrame {
    /// Most bytes of the frame.
    pub const MAX_LEN: usize = 1 + 8 + 8;

    pub(crate) fn parse(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (rate, epoch) = (reader.varint()?, reader.varint()?);
        Ok(Self { rate: (rate > 0).then(|| Rate::from_bytes_per_sec(rate)), epoch })
    }

    /// Appends the frame; an epoch or a rate above [`MAX_VARINT`](crate::MAX_VARINT) is written as
    /// that.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.push(LIMIT);
        put_varint(out, self.rate.map_or(0, Rate::bytes_per_sec));
        put_varint(out, self.epoch);
    }
}
