//! What was put in, and what came out of it.

use crate::packet::Segment;

/// One flow's segments in one direction.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    sent: Vec<Entry>,
    newest_out: Option<u32>,
    pub delivered: u64,
    pub duplicates: u64,
    pub reordered: u64,
    pub delivered_bytes: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    len: u16,
    timestamp: u32,
    delivered: bool,
    /// What the flow wants to know when it's delivered.
    note: u32,
}

/// What a delivered segment was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Delivered {
    /// The flow's note.
    pub note: u32,
    /// It came for the first time.
    pub first: bool,
    /// A later one came before.
    pub overtaken: bool,
}

impl Ledger {
    /// A segment goes in; returns its number.
    pub fn send(&mut self, len: usize, note: u32) -> u32 {
        self.send_stamped(len, note, 0)
    }

    /// As [`Self::send`], with a timestamp.
    pub fn send_stamped(&mut self, len: usize, note: u32, timestamp: u32) -> u32 {
        self.sent.push(Entry { len: len as u16, timestamp, delivered: false, note });
        self.sent.len() as u32 - 1
    }

    /// The number that the next segment gets.
    pub fn next(&self) -> u32 {
        self.sent.len() as u32
    }

    /// A segment came out. `Err`: it was never put in like that.
    pub fn deliver(&mut self, segment: &Segment) -> Result<Delivered, String> {
        let entry = self
            .sent
            .get_mut(segment.number as usize)
            .ok_or_else(|| format!("segment {} was never sent", segment.number))?;
        if usize::from(entry.len) != segment.len {
            return Err(format!(
                "segment {} has {} bytes instead of {}",
                segment.number, segment.len, entry.len
            ));
        }
        if entry.timestamp != segment.timestamp {
            return Err(format!(
                "segment {} of {} ms says {} ms",
                segment.number, entry.timestamp, segment.timestamp
            ));
        }
        let first = !std::mem::replace(&mut entry.delivered, true);
        let overtaken = first && self.newest_out.is_some_and(|n| n > segment.number);
        self.newest_out = self.newest_out.max(Some(segment.number));
        if first {
            self.delivered += 1;
            self.delivered_bytes += segment.len as u64;
        } else {
            self.duplicates += 1;
        }
        self.reordered += u64::from(overtaken);
        Ok(Delivered { note: entry.note, first, overtaken })
    }

    /// Segments put in.
    pub fn sent(&self) -> u64 {
        self.sent.len() as u64
    }
}
