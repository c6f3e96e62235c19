//! How flows are treated in the queue, where somebody has said so: which device a flow is
//! of, how important it is, and whether its rate is limited.

use crate::index_map::IndexMap;
use braid_inner::Class;
use braid_units::Rate;
use std::collections::VecDeque;
use std::num::NonZeroU8;

/// How the packets of a flow are treated at the tunnel's entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Treatment {
    /// The device that the flow is of. Devices share equally, whatever number of flows they
    /// have; all flows of which nothing is known are 0's.
    pub device: u16,
    /// Its share beside other flows.
    pub priority: Priority,
    /// What its packets are worth, where that isn't told by looking at them.
    pub class: Option<Class>,
    /// The limit that it shares with all other flows that have it.
    pub limit: Option<LimitId>,
    /// What is sent beside its packets.
    pub redundancy: FlowRedundancy,
}

/// What is sent of a flow beside its packets, so that nothing waits for a repair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FlowRedundancy {
    /// What its packets' class is worth, within the tunnel's budget.
    #[default]
    Usual,
    /// Every packet a second time, by another path, whatever that costs.
    Twice,
    /// A parity for every few packets, whatever is lost now; for real-time packets alone, as
    /// repairs of others come in time.
    Parity,
}

/// What share a flow gets beside others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Priority {
    /// Nearly nothing while others want to send.
    Low,
    /// As most.
    #[default]
    Normal,
    /// More than others.
    High,
}

impl Priority {
    /// The weight of a flow, as a numerator over [`Self::NORMAL`]. CAKE gives its tins a
    /// sixteenth, all, and a quarter of the rate at most (Høiland-Jørgensen et al., LANMAN
    /// 2018, table 1); weights keep the ratios and need no rate to be known.
    pub const fn weight(self) -> i64 {
        match self {
            Self::Low => 1,
            Self::Normal => Self::NORMAL,
            Self::High => 4 * Self::NORMAL,
        }
    }

    /// That of packets whose sender wants no more than what others leave: DSCP LE (RFC 8622)
    /// and, as it was before, CS1 (RFC 4594, section 2.3).
    pub const fn of_dscp(dscp: u8) -> Self {
        match dscp {
            1 | 8 => Self::Low,
            _ => Self::Normal,
        }
    }

    /// The weight of most flows.
    pub const NORMAL: i64 = 16;
}

/// Names a limit that flows share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LimitId(pub NonZeroU8);

/// The treatments of one peer's flows, by the hashes of their keys; the oldest are forgotten
/// when there are too many.
#[derive(Debug)]
pub struct TreatmentTable {
    by_hash: IndexMap<u64, Treatment>,
    oldest: VecDeque<u64>,
    most: usize,
}

/// A limit, and its rate now; none where it limits nothing.
pub type LimitRate = (LimitId, Option<Rate>);

impl TreatmentTable {
    /// None; `most` flows have one at the most.
    pub fn new(most: usize) -> Self {
        Self { by_hash: IndexMap::default(), oldest: VecDeque::new(), most }
    }

    /// How packets of the flow with this hash are treated.
    #[inline]
    pub fn of(&self, hash: u64) -> Treatment {
        if self.by_hash.is_empty() {
            return Treatment::default();
        }
        self.by_hash.get(&hash).copied().unwrap_or_default()
    }

    /// From now on the flow is treated so.
    pub fn set(&mut self, hash: u64, treatment: Treatment) {
        if self.by_hash.insert(hash, treatment).is_some() {
            return;
        }
        self.oldest.push_back(hash);
        if self.oldest.len() > self.most
            && let Some(oldest) = self.oldest.pop_front()
        {
            self.by_hash.remove(&oldest);
        }
    }

    /// Nothing is known of any flow.
    pub fn clear(&mut self) {
        self.by_hash = IndexMap::default();
        self.oldest = VecDeque::new();
    }
}

impl Treatment {
    /// Who says nothing of a flow's priority leaves it to its packets.
    #[inline]
    pub fn with_dscp(self, dscp: u8) -> Self {
        match self.priority {
            Priority::Normal => Self { priority: Priority::of_dscp(dscp), ..self },
            _ => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_are_forgotten_and_a_new_word_on_a_flow_counts() {
        let mut treatments = TreatmentTable::new(3);
        let of = |device| Treatment { device, ..Treatment::default() };
        for hash in 1..=3 {
            treatments.set(hash, of(hash as u16));
        }
        treatments.set(1, of(9));
        assert_eq!(treatments.of(1).device, 9);
        treatments.set(4, of(4));
        assert_eq!(treatments.of(1), Treatment::default(), "it was the first");
        assert_eq!((treatments.of(2).device, treatments.of(4).device), (2, 4));
        treatments.clear();
        assert_eq!(treatments.of(4), Treatment::default());
    }
}
