//! Copies and parities: what goes twice so that nothing waits for a repair.

use super::REPAIR_REALTIME;
use super::asked::AskedCopies;
use crate::entry::FlowRedundancy;
use crate::outgoing::OutgoingPackets;
use crate::path::Path;
use crate::path::sent::SentFrame;
use crate::peer::paths::PathSet;
use crate::redundancy::budget::{Budget, ErasureConditions, erasure_rate};
use crate::redundancy::erasure::{Encoder, GroupSize, OutgoingParity, Parity, SourceId};
use braid_inner::Class;
use braid_units::{ByteSize, Rate, Ratio, Time};
use std::collections::VecDeque;
use std::time::Duration;

/// A path that loses more than this share of its datagrams holds flows up
/// noticeably. Ours; not measured apart.
pub(in crate::peer) const LOSSY: f64 = 0.0005;
/// Repairs of bulk by a path that loses more get copies. Below that a copy of
/// each costs more than waiting for the few that are lost (six 3G links, 0.5 %; commit
/// abe01768).
const FRAGILE: f64 = 0.008;
/// Real-time chunks shorter than this, in bytes, are rather copied than coded: voice, of which
/// copies cost little. Ours.
const LEAST_CODED: u32 = 300;
/// Parities that wait to be sent at the most; more would come too late. Ours.
const MOST_PARITIES: usize = 16;
/// Redundancy that may be saved up for a burst: a super-packet's. Ours.
const BURST: ByteSize = ByteSize::from_bytes(64 << 10);
/// Budget isn't earned for a longer pause than this. Ours.
const LONGEST_EARNED: Duration = Duration::from_secs(1);
/// An unfinished group gets its parity after this, a packet's pause of most calls; so many
/// groups are filled at a time, so that two packets lost in a row are in two of them. Ours.
const GROUP_AGE: Duration = Duration::from_millis(20);
const INTERLEAVED: u8 = 2;
/// Where parities are asked for: one for so many chunks, a quarter more bytes, or for what was
/// sent within this time, so that two of a call's 50 packets a second share one, and what it
/// recovers is there before [`REPAIR_REALTIME`].
const ASKED_GROUP: u8 = 4;
const ASKED_AGE: Duration = Duration::from_millis(60);

/// What is sent beside the packets themselves.
#[derive(Debug)]
pub(in crate::peer) struct Redundancy {
    budget: Budget,
    earned_at: Time,
    /// Chunks to be sent a second time, and the path of the first.
    duplicates: VecDeque<(SentFrame, u8)>,
    /// Those of flows that are sent twice by a rule.
    pub asked: AskedCopies,
    coding: bool,
    encoder: Encoder,
    /// Of flows that have parities by a rule.
    asked_encoder: Encoder,
    /// Parities to be sent, and the path that they avoid.
    parities: VecDeque<(Parity, u8)>,
    scratch: Vec<u8>,
}

impl Redundancy {
    pub fn new(share: Ratio) -> Self {
        let mut asked_encoder = Encoder::new(ASKED_AGE, 1);
        asked_encoder.set_size(GroupSize::new(ASKED_GROUP));
        Self {
            budget: Budget::new(share, BURST),
            earned_at: Time::ZERO,
            duplicates: VecDeque::new(),
            asked: AskedCopies::default(),
            coding: false,
            encoder: Encoder::new(GROUP_AGE, INTERLEAVED),
            asked_encoder,
            parities: VecDeque::new(),
            scratch: Vec::new(),
        }
    }

    /// What waits means nothing to the peer any more.
    pub fn restart(&mut self) {
        self.duplicates.clear();
        self.asked.clear();
        self.parities.clear();
    }

    /// Nothing waits to be sent.
    pub fn is_empty(&self) -> bool {
        self.duplicates.is_empty() && self.asked.is_empty() && self.parities.is_empty()
    }

    /// Copies wait to be sent.
    pub fn has_duplicates(&self) -> bool {
        !self.duplicates.is_empty()
    }

    /// Time passes in which the paths could have carried so much.
    pub fn earn(&mut self, capacity: Rate, now: Time) {
        let elapsed = (now - self.earned_at).min(LONGEST_EARNED);
        self.earned_at = now;
        self.budget.earn(capacity.bytes_in(elapsed));
    }

    /// Whether parities pay follows from the paths as they are.
    pub fn tune(&mut self, paths: &PathSet) {
        let size = erasure_rate(&ErasureConditions {
            loss: Ratio::from_fraction(paths.up().map(Path::loss_share).fold(0.0, f64::max)),
            rtt: paths.up().map(|p| p.rtt.base()).max().unwrap_or_default(),
            feedback_interval: paths.feedback_interval(),
            deadline: REPAIR_REALTIME,
            share: self.budget.share(),
        });
        self.coding = size.is_some();
        self.encoder.set_size(size);
    }

    /// Groups that waited long enough get their parity.
    pub fn on_timeout(&mut self, now: Time) {
        while let Some(parity) = self.encoder.poll(now).or_else(|| self.asked_encoder.poll(now)) {
            self.queue_parity(parity);
        }
    }

    /// When [`Self::on_timeout`] has something to do.
    pub fn deadline(&self) -> Option<Time> {
        [&self.encoder, &self.asked_encoder].into_iter().filter_map(Encoder::next_deadline).min()
    }

    /// A sparse packet's chunk was sent by path number `id`: it gets a copy by a
    /// second path while the budget allows; real-time ones get parities where even
    /// that would be too dear. A rule may ask for more than that; true if the chunk is sent
    /// twice whatever that costs.
    pub fn copy_or_code(
        &mut self,
        frame: SentFrame,
        outgoing: &OutgoingPackets,
        id: u8,
        now: Time,
    ) -> bool {
        let SentFrame::Chunk { key, offset, len } = frame else { return false };
        let Some(outgoing) = outgoing.get(key) else { return false };
        let asked = outgoing.redundancy;
        if asked == FlowRedundancy::Twice {
            self.asked.push(frame, id);
            return true;
        }
        let worth_it =
            matches!(outgoing.class, Class::Precious | Class::Realtime | Class::Interactive);
        let parities = asked == FlowRedundancy::Parity && outgoing.is_realtime();
        let coded = self.coding && outgoing.is_realtime() && len >= LEAST_CODED;
        if !coded && worth_it && self.budget.available().bytes() >= u64::from(len) {
            self.duplicates.push_back((frame, id));
        }
        if !coded && !parities {
            return false;
        }
        let source = SourceId { flow: outgoing.flow, sequence: outgoing.sequence, offset };
        self.scratch.clear();
        outgoing.chunk(offset, len).write(&mut self.scratch, false);
        let usual = coded.then(|| self.encoder.push(now, source, &self.scratch, id)).flatten();
        let asked = parities.then(|| self.asked_encoder.push(now, source, &self.scratch, id));
        for parity in usual.into_iter().chain(asked.flatten()) {
            self.queue_parity(parity);
        }
        false
    }

    /// A repair of this class was sent by the path of this place. Losing it too
    /// would hold the flow up for another round trip. Where nothing is lost, only
    /// late, a copy would be a third of the same. Bulk waits rather than send all
    /// repairs twice, unless its path loses many.
    pub fn copy_repair(&mut self, repair: SentFrame, class: Class, paths: &[Path], index: usize) {
        let by = &paths[index];
        let risky = match class {
            Class::Bulk => by.loss_share() > FRAGILE,
            _ => paths.iter().any(|path| path.loss_share() > LOSSY),
        };
        if risky {
            self.duplicates.push_back((repair, by.id));
        }
    }

    fn queue_parity(&mut self, parity: OutgoingParity) {
        if self.parities.len() < MOST_PARITIES {
            let except = parity.paths.last().copied().unwrap_or(u8::MAX);
            self.parities.push_back((parity.parity, except));
        }
    }

    /// The next parity to be sent, and the number of the path that it avoids.
    pub fn pop_parity(&mut self) -> Option<(Parity, u8)> {
        self.parities.pop_front()
    }

    /// The next chunk to be sent a second time, and the number of the first one's path.
    pub fn pop_duplicate(&mut self) -> Option<(SentFrame, u8)> {
        self.duplicates.pop_front()
    }

    /// Takes what a copy costs from the budget, if it's there.
    pub fn try_spend(&mut self, bytes: u64) -> bool {
        self.budget.try_spend(bytes)
    }

    /// Gives back memory that isn't in use.
    pub fn rest(&mut self) {
        // All of them have arrived: nothing is on its way.
        self.asked.clear();
        self.duplicates.shrink_to_fit();
        self.scratch = Vec::new();
    }
}
