//! The order of one flow: which packet it waits for, and what has come of later ones.

use super::assembly::{Assembly, Rejected};
use super::delivery::Delivery;
use super::sequence_map::SequenceMap;
use crate::carried::CarriedPacket;
use braid_units::Time;
use braid_wire::{Chunk, ChunkPosition, expand};
use std::collections::BTreeSet;

/// How far a flow's packets may be ahead of the one it waits for: of full packets 24 MB,
/// more than a peer may hold by default.
const WINDOW: u64 = 16_384;
/// A packet farther ahead than this isn't believed: a quarter of the 24-bit numbers on the
/// wire.
const FARTHEST: u64 = 1 << 22;
/// Bits of a packet's number on the wire, and those that it may have.
const SEQUENCE_BITS: u32 = 24;
const SEQUENCE_MASK: u64 = (1 << SEQUENCE_BITS) - 1;
/// What a place in a flow's window costs, in bytes: the entries of map and set, rounded up.
const SLOT_COST: u64 = 64;
/// A packet whose length isn't known yet gets so much room, in bytes; it's grown if need
/// be. Ours.
const LIKELY_LENGTH: usize = 4096;

/// The order of one flow. Sparse: a packet far ahead costs no more than one
/// that is near.
#[derive(Debug, Default)]
pub(super) struct FlowOrder {
    /// The packet waited for.
    next: u64,
    /// Later ones that have come, whole or in part.
    held: SequenceMap<Held>,
    /// Later ones that were delivered already, or won't come.
    gone: BTreeSet<u64>,
    blocked_since: Option<Time>,
    realtime: bool,
}

/// A packet that has come, whole or in part, and since when.
#[derive(Debug)]
struct Held {
    since: Time,
    state: State,
}

#[derive(Debug)]
enum State {
    Partial(Assembly),
    /// Incomplete, and nothing more will come.
    Abandoned(Assembly),
    Complete(CarriedPacket),
}

impl Held {
    fn memory(&self) -> u64 {
        SLOT_COST
            + match &self.state {
                State::Partial(assembly) | State::Abandoned(assembly) => assembly.memory(),
                State::Complete(packet) => packet.bytes.capacity() as u64,
            }
    }
}

impl FlowOrder {
    /// Since when it has waited.
    pub fn blocked_since(&self) -> Option<Time> {
        self.blocked_since
    }

    /// Its packets are worth nothing soon.
    pub fn is_realtime(&self) -> bool {
        self.realtime
    }

    /// Whether its packets are worth nothing soon; false if that's nothing new.
    pub fn set_realtime(&mut self, realtime: bool) -> bool {
        std::mem::replace(&mut self.realtime, realtime) != realtime
    }

    /// Packets that are incomplete or wait for an earlier one.
    pub fn waiting(&self) -> u64 {
        self.held.len() as u64
    }

    /// The full number of a packet; `None` if it isn't waited for any more, or isn't
    /// believed.
    pub fn number_of(&self, sequence: u32) -> Option<u64> {
        let number = expand(sequence, SEQUENCE_BITS, self.next);
        (self.next..=self.next + FARTHEST).contains(&number).then_some(number)
    }

    /// The common case of large packets: the next part, but not the last, of the packet
    /// waited for. False, and nothing is taken, if it isn't that.
    #[inline]
    pub fn append(&mut self, chunk: &Chunk<'_>, offset: u32) -> bool {
        if self.realtime != chunk.realtime {
            return false;
        }
        let Some((first, Held { state: State::Partial(assembly), .. })) = self.held.first_mut()
        else {
            return false;
        };
        first == self.next
            && chunk.sequence == (first & SEQUENCE_MASK) as u32
            && assembly.append(offset, chunk.data)
    }

    /// The common case of others: whole, the one waited for, and nothing waits behind
    /// it. True if it's that; the flow goes on behind it then.
    #[inline]
    pub fn passes(&mut self, number: u64) -> bool {
        let passes = number == self.next && self.held.is_empty() && self.gone.is_empty();
        self.next += u64::from(passes);
        passes
    }

    /// Takes a chunk of any packet in. `buffer` gives an empty buffer of some capacity.
    pub fn insert(
        &mut self,
        now: Time,
        number: u64,
        chunk: &Chunk<'_>,
        buffer: impl FnOnce(usize) -> Vec<u8>,
        out: &mut Delivery,
    ) -> Result<(), Rejected> {
        self.make_room(number, out);
        if number < self.next || self.gone.contains(&number) {
            out.status.duplicates += 1;
            return Err(Rejected::Duplicate);
        }
        let mut before = 0;
        match self.held.get_mut(number) {
            Some(held) => before = held.memory(),
            None => {
                let state = State::Partial(out.assembly(buffer(likely_length(chunk))));
                self.held.insert(number, Held { since: now, state });
            }
        }
        let Some(held) = self.held.get_mut(number) else { return Ok(()) };
        let result = match &mut held.state {
            State::Complete(_) | State::Abandoned(_) => Err(Rejected::Duplicate),
            State::Partial(assembly) => assembly.insert(chunk),
        };
        out.hold(held.memory());
        out.release(before);
        match result {
            Ok(true) => self.complete(chunk.unordered, number, out),
            Ok(false) => {}
            Err(Rejected::Duplicate) => out.status.duplicates += 1,
            Err(Rejected::Contradiction) => out.status.rejected += 1,
        }
        result.map(|_| ())
    }

    /// What is too far behind `number` is given up for it.
    fn make_room(&mut self, number: u64, out: &mut Delivery) {
        while number >= self.next + WINDOW {
            let held = self.held.first().map(|(number, _)| number);
            let first = held.into_iter().chain(self.gone.first().copied()).min();
            match first.filter(|first| first + WINDOW <= number) {
                Some(first) => {
                    self.next = first;
                    self.close(first, out);
                }
                None => self.next = number - WINDOW + 1,
            }
        }
    }

    /// A packet is whole now: it goes at once, or waits for its turn.
    fn complete(&mut self, unordered: bool, number: u64, out: &mut Delivery) {
        let Some(held) = self.held.get_mut(number) else { return };
        out.release(held.memory());
        let State::Partial(assembly) = &mut held.state else { return };
        let Some((packet, notes)) = std::mem::take(assembly).finish() else { return };
        out.keep(notes);
        if unordered {
            self.held.remove(number);
            out.deliver(packet);
            self.gone.insert(number);
            out.hold(SLOT_COST);
        } else {
            out.status.reordered += u64::from(number > self.next);
            held.state = State::Complete(packet);
            out.hold(held.memory());
        }
    }

    /// The sender won't complete so many packets from this number on. Notes of them take
    /// no more than `limit` bytes of all that is held.
    pub fn abandon(&mut self, sequence: u32, count: u8, limit: u64, out: &mut Delivery) {
        let first = expand(sequence, SEQUENCE_BITS, self.next);
        for number in first..first + u64::from(count) {
            if number < self.next || number >= self.next + WINDOW {
                continue;
            }
            // What has come of it is saved when its turn comes.
            if let Some(held) = self.held.get_mut(number) {
                if let State::Partial(assembly) = &mut held.state {
                    held.state = State::Abandoned(std::mem::take(assembly));
                }
                continue;
            }
            // Nothing else would ever remove these notes: they have to fit.
            if out.status.held_bytes + SLOT_COST > limit {
                break;
            }
            if self.gone.insert(number) {
                out.hold(SLOT_COST);
            }
        }
    }

    /// Delivers what is in order now, and notes since when it waits for the rest.
    pub fn advance(&mut self, out: &mut Delivery) {
        loop {
            if self.gone.remove(&self.next) {
                out.release(SLOT_COST);
                self.next += 1;
                continue;
            }
            match self.held.first() {
                Some((first, held))
                    if first == self.next && !matches!(held.state, State::Partial(_)) =>
                {
                    self.close(first, out);
                }
                _ => break,
            }
        }
        // A hole began when the first packet behind it came.
        self.blocked_since = self.held.first().map(|(_, held)| held.since);
    }

    /// Gives up what it waits for; to be followed by [`Self::advance`].
    pub fn skip_hole(&mut self, out: &mut Delivery) {
        let Some((first, held)) = self.held.first() else { return };
        let noted = self.gone.range(self.next..first).count() as u64;
        out.status.missed += first - self.next - noted;
        out.release(SLOT_COST * noted);
        self.gone = self.gone.split_off(&first);
        let partial = matches!(held.state, State::Partial(_));
        self.next = first;
        if partial {
            self.close(first, out);
        }
    }

    /// Forgets packets that were delivered out of order, or won't come: only duplicates
    /// could want the notes of them, if nothing waits any more.
    pub fn forget_gone(&mut self, out: &mut Delivery) {
        if let Some(last) = self.gone.last() {
            self.next = self.next.max(last + 1);
            out.release(SLOT_COST * self.gone.len() as u64);
            self.gone.clear();
        }
    }

    /// Ends the waiting for a packet that is held, and what has come of it is delivered;
    /// if it's the next one, the flow goes on behind it.
    fn close(&mut self, number: u64, out: &mut Delivery) {
        if number == self.next {
            self.next += 1;
        }
        if self.gone.remove(&number) {
            out.release(SLOT_COST);
        }
        let Some(held) = self.held.remove(number) else { return };
        out.release(held.memory());
        match held.state {
            State::Complete(packet) => out.deliver(packet),
            State::Partial(assembly) | State::Abandoned(assembly) => out.salvage(assembly),
        }
    }

    /// Bytes of memory held.
    #[cfg(test)]
    pub fn memory(&self) -> u64 {
        SLOT_COST * self.gone.len() as u64 + self.held.values().map(Held::memory).sum::<u64>()
    }
}

/// Bytes of a packet, by the first of its chunks that has come.
fn likely_length(chunk: &Chunk<'_>) -> usize {
    match chunk.position {
        ChunkPosition::Whole(_) => chunk.data.len(),
        ChunkPosition::First { total, .. } => total as usize,
        ChunkPosition::Last { offset } => offset as usize + chunk.data.len(),
        ChunkPosition::Middle { offset } => (offset as usize + chunk.data.len()).max(LIKELY_LENGTH),
    }
}
