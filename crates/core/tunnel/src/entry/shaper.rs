//! Limits of rate that flows share. What is above a limit waits here, in a queue of its own
//! for each: fair and with CoDel, as the queue behind it, so that senders notice the limit as
//! they would notice a slow link.

use super::account::EntryStatus;
use super::fair_queue::EntryQueue;
use super::flow_queue::Parameters;
use super::queued::Queued;
use super::treatment::{LimitId, LimitRate};
use crate::heuristics::Heuristics;
use braid_inner::Layer;
use braid_units::{Rate, Time};
use std::time::Duration;

/// What may leave at once, as time at the limit's rate: timers that come late lose nothing.
/// Ours; not measured apart.
const BURST: Duration = Duration::from_millis(10);
/// CoDel's target of a limited flow, at least: some packets of a slow limit wait for each
/// other (RFC 8289, section 4.3).
const TARGET: Duration = Duration::from_millis(20);
const TARGET_PACKETS: u64 = 4 * 1514;
/// What waits for longer than this at a limit is too much: the queue's length, as time at the
/// limit's rate, and at least so many bytes: a super-packet. Ours.
const LONGEST_WAIT: Duration = Duration::from_secs(1);
const LEAST_ROOM: u64 = 64 << 10;

/// All limits of a peer.
#[derive(Debug)]
pub struct Shaper {
    layer: Layer,
    limits: Vec<Limit>,
}

#[derive(Debug)]
struct Limit {
    id: LimitId,
    rate: Rate,
    /// When all that has left would have left at just this rate.
    due: Time,
    queue: EntryQueue,
}

impl Shaper {
    /// None.
    pub fn new(layer: Layer) -> Self {
        Self { layer, limits: Vec::new() }
    }

    /// These limits have these rates now. What waits at one that has none any more leaves by
    /// the next [`Self::poll`].
    pub fn set(&mut self, limits: impl IntoIterator<Item = LimitRate>) {
        for (id, rate) in limits {
            let known = self.limits.iter_mut().find(|limit| limit.id == id);
            let rate = rate.filter(|rate| *rate > Rate::ZERO);
            match (known, rate) {
                (Some(limit), rate) => limit.set_rate(rate.unwrap_or(Rate::MAX)),
                (None, None) => {}
                (None, Some(rate)) => self.limits.push(Limit {
                    id,
                    rate,
                    due: Time::ZERO,
                    queue: EntryQueue::new(self.layer, Heuristics::ALL),
                }),
            }
        }
    }

    /// The rate of this limit, if it limits anything.
    pub fn rate(&self, id: LimitId) -> Option<Rate> {
        let limit = self.limits.iter().find(|limit| limit.id == id)?;
        (limit.rate < Rate::MAX).then_some(limit.rate)
    }

    /// So many bytes of a packet are as much as leaves at once at this limit: longer ones
    /// should come in parts. None where nothing limits it.
    pub fn burst_bytes(&self, id: LimitId) -> Option<usize> {
        self.rate(id).map(|rate| usize::try_from(rate.bytes_in(BURST)).unwrap_or(usize::MAX))
    }

    /// A packet of a flow that has this limit comes: it's given back where it may go on at
    /// once. `working` is the time that packets know, `now` that of the rate.
    pub fn offer(
        &mut self,
        id: LimitId,
        flow: u16,
        queued: Queued,
        parameters: &Parameters,
        now: Time,
    ) -> Option<Queued> {
        let share = parameters.limit / self.limits.len().max(1) as u64;
        let Some(limit) = self.limits.iter_mut().find(|limit| limit.id == id) else {
            return Some(queued);
        };
        if limit.queue.is_empty() && limit.due <= now {
            limit.charge(&queued, now);
            return Some(queued);
        }
        limit.queue.push(flow, queued, &limit.parameters(parameters, share));
        None
    }

    /// What may go on now, with its flow.
    pub fn poll(
        &mut self,
        parameters: &Parameters,
        working: Time,
        now: Time,
    ) -> Option<(u16, Queued)> {
        for limit in &mut self.limits {
            while limit.due <= now
                && let Some(head) = limit.queue.head()
            {
                let tuned = limit.parameters(parameters, parameters.limit);
                let Some(queued) = limit.queue.take(head.flow, working, &tuned) else { continue };
                limit.queue.cut(head.flow);
                limit.queue.charge(head.flow, queued.packet.bytes.len() as u64);
                limit.charge(&queued, now);
                // The queue that follows judges by how long it waited there.
                return Some((head.flow, Queued { at: working, ..queued }));
            }
        }
        None
    }

    /// One that waits, whether it may go on or not, with its flow.
    pub fn poll_any(&mut self, parameters: &Parameters, working: Time) -> Option<(u16, Queued)> {
        for limit in &mut self.limits {
            while let Some(head) = limit.queue.head() {
                if let Some(queued) = limit.queue.take(head.flow, working, parameters) {
                    limit.queue.cut(head.flow);
                    return Some((head.flow, queued));
                }
            }
        }
        None
    }

    /// When the next packet may go on.
    pub fn release_at(&self) -> Option<Time> {
        self.limits.iter().filter(|limit| !limit.queue.is_empty()).map(|limit| limit.due).min()
    }

    /// Whether something of this flow waits.
    pub fn waits(&self, flow: u16) -> bool {
        self.limits.iter().any(|limit| limit.queue.waits(flow))
    }

    /// There is no limit.
    pub fn is_unused(&self) -> bool {
        self.limits.is_empty()
    }

    /// Nothing waits.
    pub fn is_empty(&self) -> bool {
        self.limits.iter().all(|limit| limit.queue.is_empty())
    }

    /// What waits and what was dropped, of all limits.
    pub fn status(&self) -> EntryStatus {
        self.limits.iter().fold(EntryStatus::default(), |sum, limit| sum + limit.queue.status())
    }

    /// Buffers of packets that were dropped since the last call.
    pub fn drain_dropped(&mut self) -> impl Iterator<Item = Vec<u8>> + '_ {
        self.limits.iter_mut().flat_map(|limit| limit.queue.drain_dropped())
    }
}

impl Limit {
    fn set_rate(&mut self, rate: Rate) {
        if rate == Rate::MAX {
            self.due = Time::ZERO;
        }
        self.rate = rate;
    }

    fn charge(&mut self, queued: &Queued, now: Time) {
        let since = now.saturating_sub(BURST);
        self.due = self.due.max(since) + self.rate.time_for(queued.packet.bytes.len() as u64);
    }

    /// `most` bytes may wait.
    fn parameters(&self, parameters: &Parameters, most: u64) -> Parameters {
        let room = self.rate.bytes_in(LONGEST_WAIT).max(LEAST_ROOM);
        let target = parameters.target.max(TARGET).max(self.rate.time_for(TARGET_PACKETS));
        let floor = parameters.floor.max(target);
        Parameters { limit: room.min(most), room: u64::MAX, target, floor, ..*parameters }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::Treatment;
    use braid_inner::{Class, InnerPacket, Offload};
    use std::num::NonZeroU8;

    const LIMIT: LimitId = LimitId(NonZeroU8::MIN);
    const OTHER: LimitId = LimitId(NonZeroU8::MAX);

    fn packet(len: usize, at: Time) -> Queued {
        let packet = InnerPacket { bytes: vec![0; len], offload: Offload::default() };
        let treatment = Treatment { limit: Some(LIMIT), ..Treatment::default() };
        Queued { packet, class: Class::Bulk, stream: true, rule: None, treatment, at }
    }

    fn shaper(mbit: u64) -> (Shaper, Parameters) {
        let mut shaper = Shaper::new(Layer::L3);
        shaper.set([(LIMIT, Some(Rate::from_mbit(mbit)))]);
        (shaper, Parameters::default())
    }

    /// What passes in two seconds when two flows offer this much each, by flow.
    fn passed(shaper: &mut Shaper, p: &Parameters, mbit_each: u64) -> [u64; 2] {
        let mut passed = [0; 2];
        let mut count = |flow: u16, queued: Queued| {
            passed[usize::from(flow)] += queued.packet.bytes.len() as u64;
        };
        let each = Rate::from_mbit(mbit_each).time_for(1250);
        let mut next = Time::ZERO;
        for ms in 0..2000 {
            let now = Time::from_millis(ms);
            while next <= now {
                for flow in 0..2 {
                    if let Some(queued) = shaper.offer(LIMIT, flow, packet(1250, now), p, now) {
                        count(flow, queued);
                    }
                }
                next += each;
            }
            while let Some((flow, queued)) = shaper.poll(p, now, now) {
                count(flow, queued);
            }
        }
        passed
    }

    #[test]
    fn what_is_below_the_limit_waits_for_nothing() {
        let (mut shaper, p) = shaper(8);
        for ms in 0..100 {
            let now = Time::from_millis(2 * ms);
            assert!(shaper.offer(LIMIT, 1, packet(1500, now), &p, now).is_some(), "{ms}");
        }
        assert!(shaper.is_empty() && shaper.release_at().is_none());
    }

    #[test]
    fn flows_of_a_limit_share_its_rate() {
        let (mut shaper, p) = shaper(8);
        let passed = passed(&mut shaper, &p, 20);
        // 8 Mbit/s for 2 s are 2 MB.
        let sum: u64 = passed.iter().sum();
        assert!((1_960_000..2_040_000).contains(&sum), "{passed:?}");
        assert!(passed[0].abs_diff(passed[1]) < sum / 20, "{passed:?}");
        assert!(shaper.status().dropped > 0, "senders hear of it");
        assert!(shaper.status().bytes <= 1_000_000 + 4096);
        assert!(shaper.drain_dropped().count() > 0);
    }

    #[test]
    fn another_limit_and_one_that_is_gone_hold_nothing_back() {
        let (mut shaper, p) = shaper(1);
        let now = Time::from_millis(5);
        let mut waits = 0;
        for _ in 0..10 {
            waits += usize::from(shaper.offer(LIMIT, 1, packet(1500, now), &p, now).is_none());
            assert!(shaper.offer(OTHER, 2, packet(1500, now), &p, now).is_some());
        }
        assert!(waits >= 8 && shaper.poll(&p, now, now).is_none());
        let at = shaper.release_at().expect("something waits");
        assert!(at > now && shaper.poll(&p, at, at).is_some());
        shaper.set([(LIMIT, None)]);
        assert!(shaper.rate(LIMIT).is_none());
        let left = std::iter::from_fn(|| shaper.poll(&p, at, at)).count();
        assert_eq!(left, waits - 1);
        assert!(shaper.is_empty());
    }
}
