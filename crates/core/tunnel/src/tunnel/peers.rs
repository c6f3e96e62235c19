//! The peers by their numbers, which are given one after another: found
//! without a search, however many there are.

use super::Entry;
use crate::id::PeerId;
use crate::worker::Worker;

/// All peers.
#[derive(Debug)]
pub(super) struct Peers {
    worker: Worker,
    /// By number; those gone leave an empty place.
    entries: Vec<Option<Box<Entry>>>,
}

impl Peers {
    /// None; their numbers will be this worker's.
    pub fn new(worker: Worker) -> Self {
        Self { worker, entries: Vec::new() }
    }

    /// Adds one; its number is the next.
    pub fn insert(&mut self, entry: Entry) -> PeerId {
        self.entries.push(Some(Box::new(entry)));
        self.worker.peer(self.entries.len() as u32 - 1)
    }

    /// Takes one out.
    pub fn remove(&mut self, id: PeerId) -> Option<Box<Entry>> {
        self.entries.get_mut(self.worker.place(id))?.take()
    }

    /// The one of this number.
    pub fn get_mut(&mut self, id: PeerId) -> Option<&mut Entry> {
        self.entries.get_mut(self.worker.place(id))?.as_deref_mut()
    }

    /// The one of this number.
    pub fn get(&self, id: PeerId) -> Option<&Entry> {
        self.entries.get(self.worker.place(id))?.as_deref()
    }

    /// All, in order.
    pub fn iter(&self) -> impl Iterator<Item = (PeerId, &Entry)> {
        let numbered = self.entries.iter().zip(0..);
        numbered.filter_map(|(entry, place)| Some((self.worker.peer(place), entry.as_deref()?)))
    }

    /// All, in order.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (PeerId, &mut Entry)> {
        let (worker, numbered) = (self.worker, self.entries.iter_mut().zip(0..));
        numbered.filter_map(move |(entry, place)| Some((worker.peer(place), entry.as_deref_mut()?)))
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
