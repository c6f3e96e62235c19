//! Headers that both ends know, by which those of a flow's packets are compressed (RFC 6846 calls
//! the state a context; docs/design/018-header-compression.md).

use crate::carried::CarriedPacket;
use crate::entry::FLOWS;
use crate::index_map::IndexMap;
use braid_inner::{InnerPacket, Layer, Offload};
use braid_wire::{Form, HeaderContext};

/// The last two of a flow: packets compressed by the one before may still be on their way.
type OfFlow = [Option<(u8, HeaderContext)>; 2];

/// The contexts of one direction: at most two of each flow, of some 100 bytes.
#[derive(Debug)]
pub struct HeaderContexts {
    layer: Layer,
    flows: IndexMap<u16, OfFlow>,
    /// A header is made here.
    header: Vec<u8>,
}

impl HeaderContexts {
    /// None yet.
    pub fn new(layer: Layer) -> Self {
        Self { layer, flows: IndexMap::default(), header: Vec::new() }
    }

    /// Notes one, told by its bytes; false if they are no header or there's no such flow.
    pub fn learn(&mut self, flow: u16, number: u8, header: &[u8]) -> bool {
        match HeaderContext::of_header(header, self.layer) {
            Some(context) if usize::from(flow) < FLOWS => {
                self.insert(flow, number, context);
                true
            }
            _ => false,
        }
    }

    /// Notes one, in the place of that before the last.
    pub fn insert(&mut self, flow: u16, number: u8, context: HeaderContext) {
        let of_flow = self.flows.entry(flow).or_default();
        of_flow[usize::from(number % 2)] = Some((number, context));
    }

    /// The flow's context of this number.
    pub fn get(&self, flow: u16, number: u8) -> Option<&HeaderContext> {
        let (known, context) = self.flows.get(&flow)?[usize::from(number % 2)].as_ref()?;
        (*known == number).then_some(context)
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.flows = IndexMap::default();
    }

    /// The packet with its header in front; `None` if its context isn't known, or it's none of it.
    pub fn restore(&mut self, flow: u16, mut packet: CarriedPacket) -> Option<InnerPacket> {
        if let Form::Compressed(_) = packet.form {
            let len = packet.bytes.len();
            self.expand(flow, len, &mut packet)?;
        }
        match packet.form {
            Form::Full(offload) => Some(InnerPacket { bytes: packet.bytes, offload }),
            Form::Compressed(_) => None,
        }
    }

    /// Puts the header in front of a compressed packet of `len` bytes, of which those to begin with
    /// are there; by how many it's longer thereby, which may be below zero. `None`, and the
    /// packet as it was, if that can't be done.
    pub fn expand(&mut self, flow: u16, len: usize, packet: &mut CarriedPacket) -> Option<isize> {
        let Form::Compressed(segmentation) = packet.form else { return None };
        let (&number, compressed) = packet.bytes.split_first()?;
        let mut header = std::mem::take(&mut self.header);
        header.clear();
        let context = self.get(flow, number);
        let expanded = context.and_then(|it| it.expand(compressed, len - 1, &mut header));
        if let Some((payload, offload)) = expanded {
            packet.replace_front(1 + payload, &header);
            packet.form = Form::Full(Offload { segmentation, ..offload });
        }
        let more = expanded.map(|(payload, _)| header.len() as isize - 1 - payload as isize);
        self.header = header;
        more
    }
}
