use super::{CHECK_LEN, Member, Parity, SourceId, check, fold};
use braid_units::{ByteSize, Time};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// What bookkeeping of one stored chunk or parity costs, so that very small
/// ones are bounded as well.
const ENTRY_COST: usize = 64;
/// Most parities that wait for further chunks.
const MAX_PENDING: usize = 32;

/// A chunk that was lost and computed from the others of its group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// The chunk.
    pub id: SourceId,
    /// Its bytes as they were given to [`Encoder::push`].
    pub bytes: Vec<u8>,
}

/// Computes lost chunks from parities and the chunks that arrived.
#[derive(Clone, Debug)]
pub struct Decoder {
    age: Duration,
    source_budget: usize,
    parity_budget: usize,
    sources: BTreeMap<Member, Vec<u8>>,
    source_order: VecDeque<(Time, Member)>,
    source_cost: usize,
    pending: VecDeque<(Time, Parity)>,
    pending_cost: usize,
}

impl Decoder {
    /// A decoder that keeps chunks and parities for `age` and in `memory` at
    /// most.
    pub fn new(memory: ByteSize, age: Duration) -> Self {
        let memory = usize::try_from(memory.bytes()).unwrap_or(usize::MAX);
        Decoder {
            age,
            source_budget: memory / 4 * 3,
            parity_budget: memory / 4,
            sources: BTreeMap::new(),
            source_order: VecDeque::new(),
            source_cost: 0,
            pending: VecDeque::new(),
            pending_cost: 0,
        }
    }

    /// A chunk arrived, coded as on the sender's side. Returns what can be
    /// recovered now because a parity waited for it.
    pub fn on_source(&mut self, now: Time, id: SourceId, bytes: &[u8]) -> Vec<Recovered> {
        self.expire(now);
        let Ok(len) = u16::try_from(bytes.len()) else { return Vec::new() };
        if !self.store(now, Member { id, len }, bytes) {
            return Vec::new();
        }
        self.recover_from(now, Member { id, len })
    }

    /// A parity arrived. Returns what can be recovered by it, mostly one chunk
    /// or none; by that, others may become recoverable.
    pub fn on_parity(&mut self, now: Time, parity: Parity) -> Vec<Recovered> {
        self.expire(now);
        match self.solve(&parity) {
            Solution::Nothing => Vec::new(),
            Solution::Recovered(member, bytes) => self.accept(now, member, bytes),
            Solution::Waits => {
                self.keep_pending(now, parity);
                Vec::new()
            }
        }
    }

    /// Bytes held, including a sum for bookkeeping; never above the memory
    /// given.
    pub fn memory_used(&self) -> ByteSize {
        ByteSize::from_bytes((self.source_cost + self.pending_cost) as u64)
    }

    /// Drops what is too old. Also done by every other call.
    pub fn expire(&mut self, now: Time) {
        while self.source_order.front().is_some_and(|(at, _)| now.since(*at) > self.age) {
            self.drop_oldest_source();
        }
        while self.pending.front().is_some_and(|(at, _)| now.since(*at) > self.age) {
            self.drop_oldest_pending();
        }
    }

    fn accept(&mut self, now: Time, member: Member, bytes: Vec<u8>) -> Vec<Recovered> {
        self.store(now, member, &bytes);
        let mut recovered = vec![Recovered { id: member.id, bytes }];
        recovered.extend(self.recover_from(now, member));
        recovered
    }

    /// Follows the chain of pending parities that `arrived` sets off.
    fn recover_from(&mut self, now: Time, arrived: Member) -> Vec<Recovered> {
        let mut recovered = Vec::new();
        let mut news = vec![arrived];
        while let Some(arrived) = news.pop() {
            let mut index = 0;
            while let Some((_, parity)) = self.pending.get(index) {
                if !parity.members.contains(&arrived) {
                    index += 1;
                    continue;
                }
                let solution = self.solve(parity);
                if matches!(solution, Solution::Waits) {
                    index += 1;
                    continue;
                }
                if let Some((_, parity)) = self.pending.remove(index) {
                    self.pending_cost -= cost_of(&parity);
                }
                if let Solution::Recovered(member, bytes) = solution {
                    self.store(now, member, &bytes);
                    recovered.push(Recovered { id: member.id, bytes });
                    news.push(member);
                }
            }
        }
        recovered
    }

    fn solve(&self, parity: &Parity) -> Solution {
        let mut missing = parity.members.iter().filter(|m| !self.sources.contains_key(m));
        let Some(&lost) = missing.next() else { return Solution::Nothing };
        if missing.next().is_some() {
            return Solution::Waits;
        }
        let mut body = parity.body.clone();
        for member in parity.members.iter().filter(|m| **m != lost) {
            let Some(bytes) = self.sources.get(member) else { return Solution::Waits };
            fold(&mut body, *member, bytes);
        }
        let tail = body.split_off(CHECK_LEN);
        let (bytes, rest) = tail.split_at(usize::from(lost.len).min(tail.len()));
        // Beyond the chunk all must have cancelled out, and the check must be
        // its own: otherwise the two sides don't speak of the same chunks.
        let sound = rest.iter().all(|b| *b == 0) && body == check(lost, bytes);
        if sound { Solution::Recovered(lost, bytes.to_vec()) } else { Solution::Nothing }
    }

    /// Keeps a chunk; false if it's known already or too large to keep.
    fn store(&mut self, now: Time, member: Member, bytes: &[u8]) -> bool {
        let cost = ENTRY_COST + bytes.len();
        if cost > self.source_budget || self.sources.contains_key(&member) {
            return false;
        }
        while self.source_cost + cost > self.source_budget {
            self.drop_oldest_source();
        }
        self.source_cost += cost;
        self.sources.insert(member, bytes.to_vec());
        self.source_order.push_back((now, member));
        true
    }

    fn keep_pending(&mut self, now: Time, parity: Parity) {
        let cost = cost_of(&parity);
        if cost > self.parity_budget || self.pending.iter().any(|(_, p)| *p == parity) {
            return;
        }
        while self.pending_cost + cost > self.parity_budget || self.pending.len() >= MAX_PENDING {
            self.drop_oldest_pending();
        }
        self.pending_cost += cost;
        self.pending.push_back((now, parity));
    }

    fn drop_oldest_source(&mut self) {
        if let Some((_, member)) = self.source_order.pop_front()
            && let Some(bytes) = self.sources.remove(&member)
        {
            self.source_cost -= ENTRY_COST + bytes.len();
        }
    }

    fn drop_oldest_pending(&mut self) {
        if let Some((_, parity)) = self.pending.pop_front() {
            self.pending_cost -= cost_of(&parity);
        }
    }
}

enum Solution {
    /// No chunk is missing, or the parity is not of these chunks.
    Nothing,
    /// Several chunks are missing yet.
    Waits,
    /// The one missing chunk.
    Recovered(Member, Vec<u8>),
}

fn cost_of(parity: &Parity) -> usize {
    ENTRY_COST + parity.body.len() + size_of_val(parity.members.as_slice())
}

#[cfg(test)]
impl Decoder {
    /// Counts anew what [`memory_used`](Self::memory_used) keeps account of.
    pub(super) fn count_memory(&self) -> u64 {
        assert_eq!(self.sources.len(), self.source_order.len());
        let sources: usize = self.sources.values().map(|bytes| ENTRY_COST + bytes.len()).sum();
        let pending: usize = self.pending.iter().map(|(_, parity)| cost_of(parity)).sum();
        (sources + pending) as u64
    }
}
