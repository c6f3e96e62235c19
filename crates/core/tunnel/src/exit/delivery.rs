//! What comes out of the tunnel, and the account of what is held until then.

use super::assembly::{Assembly, Notes};
use crate::carried::CarriedPacket;
use crate::header_contexts::HeaderContexts;
use braid_inner::{InnerPacket, Layer};
use std::collections::VecDeque;

/// Most assemblies whose memory is kept for others: a megabyte's worth of chunks. Ours.
const NOTES_KEPT: usize = 256;

/// Counters.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
pub struct ExitStatus {
    /// Bytes of memory held for packets that are incomplete or wait.
    pub held_bytes: u64,
    /// Packets that are incomplete or wait for an earlier one.
    pub waiting: u64,
    /// Packets delivered.
    pub delivered: u64,
    /// Chunks that had come before.
    pub duplicates: u64,
    /// Packets never completed in time.
    pub missed: u64,
    /// Chunks of packets that were no longer waited for.
    pub late: u64,
    /// Packets that had to wait for an earlier one.
    pub reordered: u64,
    /// Chunks refused: contradictory.
    pub rejected: u64,
}

/// A packet that leaves the tunnel.
#[derive(Debug)]
pub struct Delivered {
    /// Its flow, as the peer numbers them.
    pub flow: u16,
    /// The packet.
    pub packet: InnerPacket,
}

/// A packet whose turn it is.
#[derive(Debug)]
pub(super) struct Ready {
    /// Its flow.
    pub flow: u16,
    /// As it came.
    pub packet: CarriedPacket,
}

/// Takes packets of all flows as they become due.
#[derive(Debug)]
pub(super) struct Delivery {
    layer: Layer,
    /// In the order in which they leave.
    pub ready: VecDeque<Ready>,
    /// The flow of which packets are delivered at the moment.
    flow: u16,
    /// The counters.
    pub status: ExitStatus,
    /// The headers by which the peer compresses.
    pub contexts: HeaderContexts,
    /// Memory of assemblies that are done.
    notes: Vec<Notes>,
}

impl Delivery {
    /// Nothing yet.
    pub fn new(layer: Layer) -> Self {
        Self {
            layer,
            ready: VecDeque::new(),
            flow: 0,
            status: ExitStatus::default(),
            contexts: HeaderContexts::new(layer),
            notes: Vec::new(),
        }
    }

    /// What leaves from now on is of this flow.
    pub fn turn_to(&mut self, flow: u16) {
        self.flow = flow;
    }

    /// A packet leaves.
    pub fn deliver(&mut self, packet: CarriedPacket) {
        self.status.delivered += 1;
        self.ready.push_back(Ready { flow: self.flow, packet });
    }

    /// Of a packet that won't be completed what can be used leaves.
    pub fn salvage(&mut self, assembly: Assembly) {
        self.status.missed += 1;
        let (layer, flow) = (self.layer, self.flow);
        let Self { status, ready, contexts, .. } = self;
        assembly.expand(|len, packet| contexts.expand(flow, len, packet)).salvage(
            layer,
            |packet| {
                status.delivered += 1;
                ready.push_back(Ready { flow, packet: packet.into() });
            },
        );
    }

    /// An assembly that fills this buffer.
    pub fn assembly(&mut self, buffer: Vec<u8>) -> Assembly {
        Assembly::new(buffer, self.notes.pop().unwrap_or_default())
    }

    /// The memory of an assembly that is done can be used again.
    pub fn keep(&mut self, notes: Notes) {
        if self.notes.len() < NOTES_KEPT {
            self.notes.push(notes);
        }
    }

    /// So many bytes more are held.
    pub fn hold(&mut self, bytes: u64) {
        self.status.held_bytes += bytes;
    }

    /// So many bytes fewer are held.
    pub fn release(&mut self, bytes: u64) {
        self.status.held_bytes -= bytes;
    }
}
