//! One inner packet put together from its chunks.

use crate::carried::CarriedPacket;
use crate::ranges;
use braid_inner::{InnerPacket, Layer, Segments};
use braid_wire::{Chunk, ChunkPosition, Form};

/// Why a chunk wasn't taken. Only a broken or hostile peer sends such.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejected {
    /// It contradicts what came before (other length, other form).
    Contradiction,
    /// Nothing new in it.
    Duplicate,
}

/// Memory for an assembly's notes of what has come.
#[derive(Debug, Default)]
pub struct Notes(Vec<(u32, u32)>);

/// A packet of which some chunks have come.
#[derive(Debug, Default)]
pub struct Assembly {
    bytes: Vec<u8>,
    have: Vec<(u32, u32)>,
    form: Option<Form>,
    total: Option<u32>,
}

impl Assembly {
    /// Starts one with a buffer to fill, and memory for notes that was got
    /// from [`Self::finish`].
    pub fn new(mut buffer: Vec<u8>, mut notes: Notes) -> Self {
        buffer.clear();
        notes.0.clear();
        Self { bytes: buffer, have: notes.0, ..Self::default() }
    }

    /// Bytes of memory held.
    pub fn memory(&self) -> u64 {
        self.bytes.capacity() as u64
    }

    /// Takes a chunk in. True when the packet is complete.
    ///
    /// # Errors
    /// [`Rejected::Contradiction`] when its length or form isn't that of earlier chunks,
    /// [`Rejected::Duplicate`] when all of it is there already.
    pub fn insert(&mut self, chunk: &Chunk<'_>) -> Result<bool, Rejected> {
        let (low, high) =
            (chunk.position.offset(), chunk.position.offset() + chunk.data.len() as u32);
        let total = match chunk.position {
            ChunkPosition::Whole(_) | ChunkPosition::Last { .. } => Some(high),
            ChunkPosition::First { total, .. } => Some(total),
            ChunkPosition::Middle { .. } => None,
        };
        if let (Some(new), Some(old)) = (total, self.total)
            && new != old
        {
            return Err(Rejected::Contradiction);
        }
        let known_total = self.total.or(total);
        let highest = self.have.last().map_or(0, |r| r.1).max(high);
        if known_total.is_some_and(|t| highest > t) {
            return Err(Rejected::Contradiction);
        }
        if let ChunkPosition::Whole(form) | ChunkPosition::First { form, .. } = chunk.position {
            if self.form.is_some_and(|before| before != form) {
                return Err(Rejected::Contradiction);
            }
            self.form = Some(form);
        }
        self.total = known_total;
        if self.have.iter().any(|&(l, h)| l <= low && high <= h) {
            return Err(Rejected::Duplicate);
        }
        let needed = known_total.unwrap_or(high) as usize;
        if self.bytes.len() == low as usize {
            // In order: append, nothing is cleared first.
            if self.bytes.capacity() < needed {
                self.bytes.reserve_exact(needed - self.bytes.len());
            }
            self.bytes.extend_from_slice(chunk.data);
        } else {
            if self.bytes.len() < high as usize {
                self.bytes.resize(high as usize, 0);
            }
            self.bytes[low as usize..high as usize].copy_from_slice(chunk.data);
        }
        ranges::insert(&mut self.have, low, high);
        Ok(self.is_complete())
    }

    /// Takes bytes in that follow on those that have come and aren't the last
    /// ones; false, and nothing is taken, if that isn't so, or if there's no room
    /// for them yet.
    pub fn append(&mut self, offset: u32, data: &[u8]) -> bool {
        let high = self.bytes.len() + data.len();
        let follows = self.bytes.len() == offset as usize
            && high <= self.bytes.capacity()
            && self.total.is_some_and(|total| high < total as usize);
        match self.have.as_mut_slice() {
            [(0, end)] if follows && *end == offset => {
                self.bytes.extend_from_slice(data);
                *end = high as u32;
                true
            }
            _ => false,
        }
    }

    /// Every byte is there.
    pub fn is_complete(&self) -> bool {
        self.total.is_some_and(|t| self.have.first() == Some(&(0, t))) && self.form.is_some()
    }

    /// The packet, complete.
    pub fn finish(self) -> Option<(CarriedPacket, Notes)> {
        if !self.is_complete() {
            return None;
        }
        Some((CarriedPacket { bytes: self.bytes, form: self.form? }, Notes(self.have)))
    }

    /// With the header in front instead of what stands for it, if that has come: `expand` puts it
    /// there, of a packet of so many bytes, and says by how many it's longer then.
    pub fn expand(
        mut self,
        expand: impl FnOnce(usize, &mut CarriedPacket) -> Option<isize>,
    ) -> Self {
        let (Some(form @ Form::Compressed(_)), Some(total)) = (self.form, self.total) else {
            return self;
        };
        let Some(&(0, end)) = self.have.first() else { return self };
        let rest = self.bytes.split_off(end as usize);
        let mut front = CarriedPacket { bytes: std::mem::take(&mut self.bytes), form };
        let more = expand(total as usize, &mut front);
        self.bytes = front.bytes;
        self.bytes.extend_from_slice(&rest);
        let Some(more) = more else { return self };
        let move_by = |at: &mut u32| *at = at.saturating_add_signed(more as i32);
        for (low, high) in &mut self.have {
            if *low > 0 {
                move_by(low);
            }
            move_by(high);
        }
        self.form = Some(front.form);
        self.total = self.total.map(|total| total.saturating_add_signed(more as i32));
        self
    }

    /// What can be saved of an incomplete super-packet: whole segments as
    /// packets of their own, in order. Returns the buffer for reuse.
    pub fn salvage(self, layer: Layer, mut deliver: impl FnMut(InnerPacket)) -> Vec<u8> {
        let (Some(Form::Full(offload)), Some(total)) = (self.form, self.total) else {
            return self.bytes;
        };
        let Some(&(0, header_end)) = self.have.first() else { return self.bytes };
        let Some(header) = self.bytes.get(..header_end as usize) else { return self.bytes };
        let Ok(segments) = Segments::of(header, total as usize, offload, layer) else {
            return self.bytes;
        };
        for &(low, high) in &self.have {
            let whole = segments.whole_within(low as usize..high as usize);
            let Some(payload) =
                segments.payload(whole.clone()).and_then(|place| self.bytes.get(place))
            else {
                continue;
            };
            let mut bytes = Vec::with_capacity(segments.header_len() + payload.len());
            if let Ok(offload) = segments.extract(header, payload, whole, &mut bytes) {
                deliver(InnerPacket { bytes, offload });
            }
        }
        self.bytes
    }
}
