//! Initiations that were answered last. A home sends each by all its links: copies
//! get the same answer, each by the link that it came by, since the way back of the
//! quickest one may be dead or lose much. Nothing is computed again for them.

use crate::path::Origin;
use braid_units::Time;
use std::collections::VecDeque;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::net::SocketAddr;
use std::time::Duration;

/// So many are known.
const ANSWERED: usize = 256;
/// Copies by other links come within this: by the slowest link that is of use, and a
/// stalled processor. Ours.
const COPIES_FOR: Duration = Duration::from_secs(2);
/// So many addresses hear of one at the most: whoever recorded it can have no more
/// than that sent to others, and less than he sends himself. Ours.
const ADDRESSES: usize = 8;
/// mac2 is another one by each path.
const MAC2_LEN: usize = 16;

/// Those that were answered last.
#[derive(Debug)]
pub(super) struct Answered {
    hasher: RandomState,
    entries: VecDeque<Entry>,
}

#[derive(Debug)]
struct Entry {
    /// By a key that nobody outside knows.
    hash: u64,
    at: Time,
    answer: CachedAnswer,
    /// From where it came so far.
    from: Vec<SocketAddr>,
}

/// What became of an initiation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CachedAnswer {
    /// This was sent.
    Message(Vec<u8>),
    /// It's this worker's.
    Worker(u8),
    /// Nothing was said.
    Silence,
}

impl Answered {
    pub fn new() -> Self {
        Self { hasher: RandomState::new(), entries: VecDeque::with_capacity(ANSWERED) }
    }

    /// If one of them is the same but for mac2: what is said to this copy.
    pub fn answer_to_copy(
        &mut self,
        initiation: &[u8],
        from: Origin,
        now: Time,
    ) -> Option<CachedAnswer> {
        let hash = self.hash(initiation);
        let entry = self.entries.iter_mut().rev().find(|entry| entry.hash == hash)?;
        let (from, known) = (from.remote, &mut entry.from);
        if now - entry.at > COPIES_FOR || known.len() >= ADDRESSES || known.contains(&from) {
            return Some(CachedAnswer::Silence);
        }
        known.push(from);
        Some(entry.answer.clone())
    }

    /// Takes note of one that was answered so.
    pub fn note(&mut self, initiation: &[u8], from: Origin, answer: CachedAnswer, now: Time) {
        if self.entries.len() >= ANSWERED {
            self.entries.pop_front();
        }
        let hash = self.hash(initiation);
        self.entries.push_back(Entry { hash, at: now, answer, from: vec![from.remote] });
    }

    fn hash(&self, initiation: &[u8]) -> u64 {
        let before_mac2 = initiation.len().saturating_sub(MAC2_LEN);
        self.hasher.hash_one(initiation.get(..before_mac2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::LinkId;

    const NOW: Time = Time::from_millis(5000);

    fn initiation(number: u16, mac2: u8) -> Vec<u8> {
        [vec![7; 398], number.to_le_bytes().to_vec(), vec![mac2; MAC2_LEN]].concat()
    }

    fn by(port: u16) -> Origin {
        let remote = SocketAddr::from(([192, 0, 2, 1], port));
        Origin { link: LinkId(0), remote, local: None }
    }

    #[test]
    fn copies_are_known_until_many_others_came() {
        let mut answered = Answered::new();
        assert_eq!(answered.answer_to_copy(&initiation(0, 1), by(1), NOW), None);
        answered.note(&initiation(0, 1), by(1), CachedAnswer::Silence, NOW);
        assert!(answered.answer_to_copy(&initiation(0, 2), by(2), NOW).is_some());
        assert_eq!(answered.answer_to_copy(&initiation(1, 1), by(1), NOW), None);
        for number in 1..=ANSWERED as u16 {
            answered.note(&initiation(number, 1), by(1), CachedAnswer::Silence, NOW);
        }
        assert_eq!(
            answered.answer_to_copy(&initiation(0, 2), by(2), NOW),
            None,
            "memory is bounded"
        );
        assert_eq!(answered.entries.len(), ANSWERED);
    }

    #[test]
    fn each_address_gets_the_answer_once_soon_and_not_many_do() {
        let mut answered = Answered::new();
        let answer = CachedAnswer::Message(vec![1; 200]);
        answered.note(&initiation(0, 1), by(1), answer.clone(), NOW);
        let mut to = |port, at| answered.answer_to_copy(&initiation(0, 2), by(port), at);
        assert_eq!(to(1, NOW), Some(CachedAnswer::Silence), "it has it");
        assert_eq!(to(2, NOW + COPIES_FOR), Some(answer.clone()));
        assert_eq!(to(2, NOW + COPIES_FOR), Some(CachedAnswer::Silence));
        let late = NOW + COPIES_FOR + Duration::from_millis(1);
        assert_eq!(to(3, late), Some(CachedAnswer::Silence));
        let heard = (3..1000).filter(|port| to(*port, NOW) == Some(answer.clone())).count();
        assert_eq!(heard, ADDRESSES - 2);
    }
}
