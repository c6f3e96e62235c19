//! The peers by their numbers, which are given one after another: found
//! without a search, however many there are.

use super::Entry;
use crate::config::PeerId;

/// All peers.
#[derive(Debug, Default)]
pub(super) struct Peers {
    /// By number; those gone leave an empty place.
    entries: Vec<Option<Box<Entry>>>,
}

impl Peers {
    /// Adds one; its number is the next.
    pub fn insert(&mut self, entry: Entry) -> PeerId {
        self.entries.push(Some(Box::new(entry)));
        PeerId(self.entries.len() as u32 - 1)
    }

    /// Takes one out.
    pub fn remove(&mut self, id: PeerId) -> Option<Box<Entry>> {
        self.entries.get_mut(id.0 as usize)?.take()
    }

    /// The one of this number.
    pub fn get_mut(&mut self, id: PeerId) -> Option<&mut Entry> {
        self.entries.get_mut(id.0 as usize)?.as_deref_mut()
    }

    /// The one of this number.
    pub fn get(&self, id: PeerId) -> Option<&Entry> {
        self.entries.get(id.0 as usize)?.as_deref()
    }

    /// All, in order.
    pub fn iter(&self) -> impl Iterator<Item = (PeerId, &Entry)> {
        let numbered = self.entries.iter().zip(0..);
        numbered.filter_map(|(entry, number)| Some((PeerId(number), entry.as_deref()?)))
    }

    /// All, in order.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (PeerId, &mut Entry)> {
        let numbered = self.entries.iter_mut().zip(0..);
        numbered.filter_map(|(entry, number)| Some((PeerId(number), entry.as_deref_mut()?)))
    }

    /// All, in order.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut Entry> {
        self.entries.iter_mut().filter_map(Option::as_deref_mut)
    }

    /// Their numbers.
    pub fn ids(&self) -> impl Iterator<Item = PeerId> {
        self.iter().map(|(id, _)| id)
    }
}
