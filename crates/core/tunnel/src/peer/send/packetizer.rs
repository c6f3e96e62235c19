//! Gives packets of the queue their numbers, one of each flow at a time.

use super::datagram::Outlet;
use super::header_compressor::HeaderCompressor;
use crate::entry::FLOWS;
use crate::outgoing::PacketKey;
use crate::peer::ingress::Ingress;
use crate::peer::reliability::Reliability;
use braid_inner::Layer;

/// How far each flow has come.
#[derive(Debug)]
pub(super) struct Packetizer {
    pub compressor: HeaderCompressor,
    /// Of each flow: the number of its next packet.
    sequences: Vec<u32>,
    /// Of each flow: the packet of which a part has been sent.
    cutting: Vec<Option<PacketKey>>,
}

impl Packetizer {
    /// No flow has sent anything.
    pub fn new(layer: Layer, compresses: bool) -> Self {
        let compressor = HeaderCompressor::new(layer, compresses);
        Self { compressor, sequences: Vec::new(), cutting: Vec::new() }
    }

    /// The packet of a flow of which a part has been sent.
    pub fn current(&self, flow: u16) -> Option<PacketKey> {
        self.cutting.get(usize::from(flow)).copied().flatten()
    }

    /// All of a flow's packet has been sent.
    pub fn finish(&mut self, flow: u16, ingress: &mut Ingress) {
        if let Some(cutting) = self.cutting.get_mut(usize::from(flow)) {
            *cutting = None;
            ingress.on_cut(flow);
        }
    }

    /// A packet isn't sent any further.
    pub fn on_abandoned(&mut self, flow: u16, key: PacketKey, ingress: &mut Ingress) {
        if self.current(flow) == Some(key) {
            self.finish(flow, ingress);
        }
    }

    /// The peer restarted: numbers begin anew.
    pub fn restart(&mut self, ingress: &mut Ingress) {
        for (flow, cutting) in self.cutting.iter_mut().enumerate() {
            if cutting.take().is_some() {
                ingress.on_cut(flow as u16);
            }
        }
        self.sequences.fill(0);
        self.compressor.restart();
    }

    /// Gives back memory that isn't in use.
    pub fn rest(&mut self) {
        // Numbers go on.
        self.cutting = Vec::new();
        self.compressor.forget();
    }

    /// The packet of `flow` that is being cut, or the next one from the queue,
    /// which gets its number now: what the queue drops leaves no hole.
    pub fn head_packet(
        &mut self,
        flow: u16,
        ingress: &mut Ingress,
        reliability: &mut Reliability,
        outlet: &mut Outlet<'_>,
    ) -> Option<PacketKey> {
        let working = outlet.working;
        let index = usize::from(flow);
        if self.cutting.len() <= index {
            self.sequences.resize(FLOWS, 0);
            self.cutting.resize(FLOWS, None);
        }
        if let Some(key) = self.cutting[index]
            && reliability.get(key).is_some()
        {
            return Some(key);
        }
        let queued = ingress.next_packet(flow, outlet.freed, working)?;
        let sequence = self.sequences[index];
        self.sequences[index] = sequence.wrapping_add(1) & 0xff_ffff;
        let (worth, stream) = ((queued.class, queued.treatment.redundancy), queued.stream);
        let packet = self.compressor.compress(flow, queued.packet, outlet.cpu_bound);
        let key = reliability.insert(packet, (flow, sequence), worth, stream, working);
        self.cutting[index] = Some(key);
        Some(key)
    }
}
