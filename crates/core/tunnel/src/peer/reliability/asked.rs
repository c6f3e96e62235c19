//! Copies that somebody has asked for: every chunk of a flow a second time. No budget bounds
//! them; what the peer has meanwhile isn't sent again.

use crate::outgoing::{OutgoingPackets, PacketKey};
use crate::path::sent::SentFrame;
use std::collections::VecDeque;

/// Copies that wait at the most; of more the oldest, whose chunks have most likely arrived, are
/// let go. At 1 Gbit/s and 1400 bytes a chunk this is 90 ms.
const MOST: usize = 8192;

/// The copies that wait for a path, by the path that each avoids.
#[derive(Debug, Default)]
pub(in crate::peer) struct AskedCopies {
    by_path: Vec<(u8, VecDeque<Copy>)>,
    count: usize,
}

#[derive(Clone, Copy, Debug)]
struct Copy {
    key: PacketKey,
    offset: u32,
    len: u32,
}

impl AskedCopies {
    /// A chunk was sent by path number `id`.
    pub fn push(&mut self, frame: SentFrame, id: u8) {
        let SentFrame::Chunk { key, offset, len } = frame else { return };
        let place = self.by_path.iter().position(|(path, _)| *path == id);
        let place = place.unwrap_or_else(|| {
            self.by_path.push((id, VecDeque::new()));
            self.by_path.len() - 1
        });
        self.by_path[place].1.push_back(Copy { key, offset, len });
        self.count += 1;
        if self.count > MOST {
            let longest = self.by_path.iter_mut().max_by_key(|(_, copies)| copies.len());
            self.count -= longest.and_then(|(_, copies)| copies.pop_front()).iter().count();
        }
    }

    /// None waits.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// How many paths copies avoid, most.
    pub fn paths(&self) -> usize {
        self.by_path.len()
    }

    /// Of those that avoid one path, by its place: that path's number, and the first chunk that
    /// the peer isn't known to have.
    pub fn next(
        &mut self,
        place: usize,
        outgoing: &OutgoingPackets,
    ) -> Option<(u8, (PacketKey, u32, u32))> {
        let (id, copies) = self.by_path.get_mut(place)?;
        while let Some(&Copy { key, offset, len }) = copies.front() {
            let packet = outgoing.get(key);
            if packet.is_some_and(|packet| packet.first_missing(offset, len).is_some()) {
                return Some((*id, (key, offset, len)));
            }
            copies.pop_front();
            self.count -= 1;
        }
        None
    }

    /// So many bytes of [`Self::next`] were sent; with none it's let go.
    pub fn on_sent(&mut self, place: usize, written: u32) {
        let Some((_, copies)) = self.by_path.get_mut(place) else { return };
        let Some(copy) = copies.front_mut() else { return };
        if (1..copy.len).contains(&written) {
            copy.offset += written;
            copy.len -= written;
            return;
        }
        copies.pop_front();
        self.count -= 1;
    }

    /// None waits any more.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::carried::CarriedPacket;
    use crate::entry::FlowRedundancy;
    use braid_inner::Class;
    use braid_wire::Form;

    fn packet(outgoing: &mut OutgoingPackets, sequence: u32) -> PacketKey {
        let packet = CarriedPacket { bytes: vec![0; 100], form: Form::default() };
        outgoing.insert(packet, 1, sequence, (Class::Bulk, FlowRedundancy::Twice))
    }

    #[test]
    fn what_has_arrived_needs_no_copy_and_one_that_does_not_fit_goes_in_parts() {
        let mut outgoing = OutgoingPackets::default();
        let [first, second] = [1, 2].map(|sequence| packet(&mut outgoing, sequence));
        let mut copies = AskedCopies::default();
        for key in [first, second] {
            copies.push(SentFrame::Chunk { key, offset: 0, len: 100 }, 7);
        }
        outgoing.remove(first);
        assert_eq!(copies.next(0, &outgoing), Some((7, (second, 0, 100))));
        copies.on_sent(0, 60);
        assert_eq!(copies.next(0, &outgoing), Some((7, (second, 60, 40))));
        copies.on_sent(0, 40);
        assert!(copies.next(0, &outgoing).is_none() && copies.is_empty());
    }

    #[test]
    fn only_so_many_wait() {
        let mut outgoing = OutgoingPackets::default();
        let key = packet(&mut outgoing, 1);
        let mut copies = AskedCopies::default();
        for offset in 0..2 * MOST {
            let id = u8::from(offset % 3 == 0);
            copies.push(SentFrame::Chunk { key, offset: offset as u32, len: 1 }, id);
        }
        let held: usize = copies.by_path.iter().map(|(_, copies)| copies.len()).sum();
        assert_eq!((copies.count, held), (MOST, MOST));
    }
}
