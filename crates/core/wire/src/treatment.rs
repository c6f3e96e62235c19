use crate::Malformed;
use crate::integer::{Reader, put_varint};
use braid_inner::{Class, FlowKey, Selector};
use braid_units::Rate;
use std::net::IpAddr;
use std::num::NonZeroU8;

pub(crate) const TREATMENT: u8 = 0x09;

const IPV6: u8 = 0x80;
const SELECTOR: u8 = 0x70;
const SELECTOR_SHIFT: u32 = 4;
const PRIORITY: u8 = 0x03;
const CLASS: u8 = 0x0c;
const CLASS_SHIFT: u32 = 2;

/// How the receiver shall treat what it sends of a flow. Peers that don't know this frame
/// ignore it and what follows in its datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreatmentFrame {
    /// The flow, as the receiver of this frame sends it; of IP.
    pub key: FlowKey,
    /// The device that it is of, 0 for none that is known.
    pub device: u16,
    /// Its share: 0 normal, 1 low, 2 high; others count as 0.
    pub priority: u8,
    /// What its packets are worth, if that isn't to be seen from them: bulk or real-time.
    pub class: Option<Class>,
    /// The limit that it shares with others, and that limit's rate, if it has one now.
    pub limit: Option<(NonZeroU8, Option<Rate>)>,
    /// What is sent beside its packets: 0 as usual, 1 all of them twice, 2 parities; others
    /// count as 0.
    pub redundancy: u8,
}

impl TreatmentFrame {
    /// Most bytes of the frame.
    pub const MAX_LEN: usize = 1 + 1 + 1 + 4 + 2 * 16 + 2 + 1 + 8 + 1;

    pub(crate) fn parse(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (flags, protocol, value) = (reader.u8()?, reader.u8()?, reader.u32()?);
        let selector = match (flags & SELECTOR) >> SELECTOR_SHIFT {
            0 => Selector::None,
            1 => Selector::Ports { src: (value >> 16) as u16, dst: value as u16 },
            2 => Selector::Spi(value),
            3 => Selector::GreKey(value),
            4 => Selector::Echo(value as u16),
            _ => return Err(Malformed::Contradiction),
        };
        let class = match (flags & CLASS) >> CLASS_SHIFT {
            0 => None,
            1 => Some(Class::Realtime),
            2 => Some(Class::Bulk),
            _ => return Err(Malformed::Contradiction),
        };
        let (src, dst) = match flags & IPV6 {
            0 => (address::<4>(reader)?, address::<4>(reader)?),
            _ => (address::<16>(reader)?, address::<16>(reader)?),
        };
        let (device, limit) = (reader.u16()?, NonZeroU8::new(reader.u8()?));
        let limit = match limit {
            Some(id) => {
                let rate = reader.varint()?;
                Some((id, (rate > 0).then(|| Rate::from_bytes_per_sec(rate))))
            }
            None => None,
        };
        let redundancy = reader.u8()?;
        let key = FlowKey::Ip { src, dst, protocol, selector };
        Ok(Self { key, device, priority: flags & PRIORITY, class, limit, redundancy })
    }

    /// Appends the frame; nothing for a flow that isn't of IP.
    pub fn write(&self, out: &mut Vec<u8>) {
        let FlowKey::Ip { src, dst, protocol, selector } = self.key else { return };
        let (kind, value) = match selector {
            Selector::None => (0, 0),
            Selector::Ports { src, dst } => (1, u32::from(src) << 16 | u32::from(dst)),
            Selector::Spi(value) => (2, value),
            Selector::GreKey(value) => (3, value),
            Selector::Echo(value) => (4, u32::from(value)),
        };
        let class = match self.class {
            Some(Class::Realtime) => 1,
            Some(Class::Bulk) => 2,
            _ => 0,
        };
        let ipv6 = if src.is_ipv6() { IPV6 } else { 0 };
        let flags = ipv6 | kind << SELECTOR_SHIFT | self.priority & PRIORITY | class << CLASS_SHIFT;
        out.extend_from_slice(&[TREATMENT, flags, protocol]);
        out.extend_from_slice(&value.to_be_bytes());
        for address in [src, dst] {
            match address {
                IpAddr::V4(address) => out.extend_from_slice(&address.octets()),
                IpAddr::V6(address) => out.extend_from_slice(&address.octets()),
            }
        }
        out.extend_from_slice(&self.device.to_be_bytes());
        out.push(self.limit.map_or(0, |(id, _)| id.get()));
        if let Some((_, rate)) = self.limit {
            put_varint(out, rate.map_or(0, Rate::bytes_per_sec));
        }
        out.push(self.redundancy);
    }
}

fn address<const LEN: usize>(reader: &mut Reader<'_>) -> Result<IpAddr, Malformed>
where
    IpAddr: From<[u8; LEN]>,
{
    let bytes: [u8; LEN] = reader.bytes(LEN)?.try_into().map_err(|_| Malformed::Truncated)?;
    Ok(IpAddr::from(bytes))
}
