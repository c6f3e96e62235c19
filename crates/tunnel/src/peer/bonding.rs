//! The modes of the kernel's bonding driver (Documentation/networking/
//! bonding.rst), as it does them: each packet whole by one path (or all), at
//! once, without congestion control, repair or order.

use super::datagram::Datagram;
use super::{Peer, Transmit};
use crate::config::Mode;
use braid_inner::{Headers, InnerPacket, Layer, split_all};
use braid_units::Time;
use braid_wire::{Chunk, ChunkPosition};
use std::collections::VecDeque;

/// Packets that wait for the socket at the most (the kernel's txqueuelen).
const QUEUE: usize = 1000;
/// These flows are counted apart from the fair queue's.
const FIRST_FLOW: u16 = 0x8000;
/// Largest header of a chunk of a single packet.
const BONDED_HEADER: usize = 20;

#[derive(Debug, Default)]
pub(super) struct BondingQueue {
    packets: VecDeque<(InnerPacket, Mode, u32)>,
    turn: usize,
    sequence: u32,
}

/// A whole packet for some paths.
#[derive(Debug)]
pub(super) struct Bonded {
    pub packet: InnerPacket,
    pub flow: u16,
    pub sequence: u32,
    /// Bytes sent by the path whose turn it is.
    pub sent: u32,
    /// Indices of the paths, that whose turn it is last.
    pub paths: Vec<usize>,
}

impl BondingQueue {
    pub fn push(&mut self, packet: InnerPacket, mode: Mode, layer: Layer, headers: &Headers) {
        let hash = match mode {
            Mode::BalanceXor(policy) => policy.hash(&packet.bytes, headers),
            _ => 0,
        };
        // The driver sees single packets where the device below has no TSO.
        let Ok(singles) = split_all(&packet, layer) else { return };
        for single in singles {
            if self.packets.len() < QUEUE {
                self.packets.push_back((single, mode, hash));
            }
        }
    }

    /// Nothing waits.
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// The peer restarted: numbers begin anew.
    pub fn restart(&mut self) {
        self.sequence = 0;
    }
}

impl Peer {
    /// The next packet and its paths. Packets are dropped while no path works,
    /// as a bond without slaves does.
    pub(super) fn next_bonded(&mut self, _now: Time) -> Option<Bonded> {
        loop {
            let (packet, mode, hash) = self.bonding.packets.pop_front()?;
            let mut up: Vec<usize> = (0..self.paths.len())
                .filter(|&i| self.paths[i].liveness.is_up() && !self.paths[i].wish.standby)
                .collect();
            if up.is_empty() {
                up = (0..self.paths.len()).filter(|&i| self.paths[i].liveness.is_up()).collect();
            }
            up.sort_by_key(|&i| self.paths[i].id);
            if up.is_empty() {
                self.recycle(packet.bytes);
                continue;
            }
            let paths = match mode {
                Mode::BalanceXor(_) => vec![up[hash as usize % up.len()]],
                Mode::Broadcast => up,
                Mode::ActiveBackup => {
                    let active = up.iter().min_by_key(|&&i| {
                        (self.paths[i].wish.standby, self.paths[i].wish.tier, self.paths[i].id)
                    });
                    active.copied().into_iter().collect()
                }
                _ => {
                    self.bonding.turn = self.bonding.turn.wrapping_add(1);
                    vec![up[self.bonding.turn % up.len()]]
                }
            };
            let sequence = self.bonding.sequence;
            self.bonding.sequence = sequence.wrapping_add(1) & 0xff_ffff;
            return Some(Bonded { packet, flow: FIRST_FLOW, sequence, sent: 0, paths });
        }
    }

    /// Whole packets of the bonding modes, in two datagrams or more where they
    /// don't fit the path's.
    pub(super) fn poll_bonded(&mut self, now: Time, out: &mut Vec<u8>) -> Option<Transmit> {
        if self.bonded.is_none() {
            self.bonded = self.next_bonded(now);
        }
        let mut bonded = self.bonded.take()?;
        let &index = bonded.paths.last()?;
        let total = bonded.packet.bytes.len() as u32;
        let mut datagram = Datagram::begin(index, self.paths.get(index)?.room(), out);
        let offset = bonded.sent;
        let rest = ChunkPosition::of(bonded.packet.offload, total, offset, total - offset);
        let header = rest.header_len(total - offset).max(BONDED_HEADER);
        let len = (total - offset).min(datagram.room.saturating_sub(header) as u32);
        Chunk {
            flow: bonded.flow,
            sequence: bonded.sequence,
            unordered: true,
            realtime: true,
            position: ChunkPosition::of(bonded.packet.offload, total, offset, len),
            data: &bonded.packet.bytes[offset as usize..(offset + len) as usize],
        }
        .write(out, true);
        datagram.eliciting = true;
        datagram.closed = true;
        bonded.sent += len;
        if bonded.sent >= total {
            bonded.sent = 0;
            bonded.paths.pop();
        }
        if bonded.paths.is_empty() {
            self.recycle(bonded.packet.bytes);
        } else {
            self.bonded = Some(bonded);
        }
        self.send_single(datagram, false, now, out)
    }
}
