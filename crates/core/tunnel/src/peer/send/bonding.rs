//! The modes of the kernel's bonding driver (Documentation/networking/
//! bonding.rst), as it does them: each packet whole by one path (or all), at
//! once, without congestion control, repair or order.

use super::datagram::{Datagram, Outlet, Transmit};
use crate::config::Mode;
use crate::peer::ingress::ForBonding;
use crate::peer::paths::PathSet;
use braid_inner::{InnerPacket, Layer, split_all};
use braid_wire::{Chunk, ChunkPosition};
use std::collections::VecDeque;

/// Packets that wait for the socket at the most (the kernel's txqueuelen).
const QUEUE: usize = 1000;
/// These flows are counted apart from the fair queue's.
const FIRST_FLOW: u16 = 0x8000;
/// Largest header of a chunk of a single packet, bytes.
const BONDED_HEADER: usize = 20;

/// Packets of those modes.
#[derive(Debug)]
pub(super) struct Bonding {
    layer: Layer,
    packets: VecDeque<(InnerPacket, Mode, u32)>,
    turn: usize,
    sequence: u32,
    /// A packet of which copies for further paths are still to be sent.
    current: Option<Bonded>,
}

/// A whole packet for some paths.
#[derive(Debug)]
struct Bonded {
    packet: InnerPacket,
    sequence: u32,
    /// Bytes sent by the path whose turn it is.
    sent: u32,
    /// Places of the paths, that whose turn it is last.
    paths: Vec<usize>,
}

impl Bonding {
    /// Nothing waits.
    pub fn new(layer: Layer) -> Self {
        Self { layer, packets: VecDeque::new(), turn: 0, sequence: 0, current: None }
    }

    /// Queues a packet.
    pub fn push(&mut self, ForBonding { packet, mode, headers }: ForBonding) {
        let hash = match mode {
            Mode::BalanceXor(policy) => policy.hash(&packet.bytes, &headers),
            _ => 0,
        };
        // The driver sees single packets where the device below has no TSO.
        let Ok(singles) = split_all(&packet, self.layer) else { return };
        for single in singles {
            if self.packets.len() < QUEUE {
                self.packets.push_back((single, mode, hash));
            }
        }
    }

    /// Nothing waits.
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty() && self.current.is_none()
    }

    /// The peer restarted: numbers begin anew.
    pub fn restart(&mut self) {
        self.sequence = 0;
        self.current = None;
    }

    /// Paths have other places now, and nothing here is repaired.
    pub fn on_paths_closed(&mut self, freed: &mut Vec<Vec<u8>>) {
        freed.extend(self.current.take().map(|bonded| bonded.packet.bytes));
    }

    /// The next packet and its paths. Packets are dropped while no path works,
    /// as a bond without slaves does.
    fn next(&mut self, paths: &PathSet, freed: &mut Vec<Vec<u8>>) -> Option<Bonded> {
        loop {
            let (packet, mode, hash) = self.packets.pop_front()?;
            let mut up: Vec<usize> = (0..paths.len())
                .filter(|&i| paths[i].liveness.is_up() && !paths[i].policy.standby)
                .collect();
            if up.is_empty() {
                up = (0..paths.len()).filter(|&i| paths[i].liveness.is_up()).collect();
            }
            up.sort_by_key(|&i| paths[i].id);
            if up.is_empty() {
                freed.push(packet.bytes);
                continue;
            }
            let paths = match mode {
                Mode::BalanceXor(_) => vec![up[hash as usize % up.len()]],
                Mode::Broadcast => up,
                Mode::ActiveBackup => {
                    let active = up.iter().min_by_key(|&&i| {
                        (paths[i].policy.standby, paths[i].policy.tier, paths[i].id)
                    });
                    active.copied().into_iter().collect()
                }
                _ => {
                    self.turn = self.turn.wrapping_add(1);
                    vec![up[self.turn % up.len()]]
                }
            };
            let sequence = self.sequence;
            self.sequence = sequence.wrapping_add(1) & 0xff_ffff;
            return Some(Bonded { packet, sequence, sent: 0, paths });
        }
    }

    /// Whole packets, in two datagrams or more where they don't fit the path's.
    #[inline]
    pub fn poll(&mut self, outlet: &mut Outlet<'_>) -> Option<Transmit> {
        if self.is_empty() { None } else { self.send_next(outlet) }
    }

    fn send_next(&mut self, outlet: &mut Outlet<'_>) -> Option<Transmit> {
        if self.current.is_none() {
            self.current = self.next(outlet.paths, outlet.freed);
        }
        let mut bonded = self.current.take()?;
        let &index = bonded.paths.last()?;
        let total = bonded.packet.bytes.len() as u32;
        let room = outlet.paths.get(index)?.room();
        let mut datagram = Datagram::begin(index, room, outlet.out);
        let offset = bonded.sent;
        let rest = ChunkPosition::of(bonded.packet.offload, total, offset, total - offset);
        let header = rest.header_len(total - offset).max(BONDED_HEADER);
        let len = (total - offset).min(datagram.room.saturating_sub(header) as u32);
        Chunk {
            flow: FIRST_FLOW,
            sequence: bonded.sequence,
            unordered: true,
            realtime: true,
            position: ChunkPosition::of(bonded.packet.offload, total, offset, len),
            data: &bonded.packet.bytes[offset as usize..(offset + len) as usize],
        }
        .write(outlet.out, true);
        datagram.eliciting = true;
        datagram.closed = true;
        bonded.sent += len;
        if bonded.sent >= total {
            bonded.sent = 0;
            bonded.paths.pop();
        }
        if bonded.paths.is_empty() {
            outlet.freed.push(bonded.packet.bytes);
        } else {
            self.current = Some(bonded);
        }
        outlet.send_single(datagram, false)
    }
}
