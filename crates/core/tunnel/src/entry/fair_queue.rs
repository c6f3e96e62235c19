//! Deficit round robin over flows, weighted by their devices and priorities, with a preference
//! for sparse ones, as FQ-CoDel (RFC 8290), but handing out *bytes* of the head packet, so that
//! a 64 KB super-packet of one flow doesn't hold up another's ping.

use super::account::{Account, EntryStatus};
use super::device_loads::DeviceLoads;
use super::flow_queue::{FlowQueue, Parameters};
use super::queued::Queued;
use super::treatment::{Priority, Treatment};
use crate::heuristics::Heuristics;
use braid_inner::{InnerPacket, Layer};
use braid_units::Time;
use std::collections::VecDeque;

/// So many queues for flows (RFC 8290: 1024).
pub const FLOWS: usize = 1024;
/// Bytes a flow may send in its turn (RFC 8290, section 5.2.2: one MTU).
const QUANTUM: i64 = 1514;
/// The least of it, bytes, whatever the flow's weight: a full packet's turn comes after a
/// hundred others at the latest.
const LEAST_QUANTUM: i64 = 16;
/// Flows that send while those in turn wait for a path owe at most so much, bytes, until all
/// have a turn again. Ours; not measured apart.
const MOST_DEBT: i64 = 8 * QUANTUM;
/// Of so many of them the one that owes least is next: all of them, mostly, and no more than
/// can be looked at with each packet. Ours.
const LOOKED_AT: usize = 32;

/// The flow whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The flow.
    pub flow: u16,
    /// It has sent little lately.
    pub sparse: bool,
    /// Since when it has had packets waiting.
    pub backlogged_since: Time,
    /// Bytes waiting.
    pub backlog: u64,
}

#[derive(Debug)]
struct Flow {
    queue: FlowQueue,
    deficit: i64,
    device: u16,
    priority: Priority,
    list: List,
    /// A packet was taken out of which not all has been sent.
    cutting: bool,
}

impl Flow {
    fn is_empty(&self) -> bool {
        self.queue.is_empty() && !self.cutting
    }
}

/// The list that a flow waits in for its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum List {
    None,
    New,
    Old,
}

/// The queue of one peer.
#[derive(Debug)]
pub struct EntryQueue {
    layer: Layer,
    /// Flows send on credit while those in turn wait for a path.
    on_credit: bool,
    flows: Vec<Option<Box<Flow>>>,
    new: VecDeque<u16>,
    old: VecDeque<u16>,
    account: Account,
    /// Of the flows in the lists.
    loads: DeviceLoads,
    /// Flows with a packet that is half sent.
    cutting: usize,
    /// Those in turn that wait for another path, in order; the lists lack them.
    skipped: Vec<(u16, List)>,
}

impl EntryQueue {
    /// An empty queue.
    pub fn new(layer: Layer, heuristics: Heuristics) -> Self {
        Self {
            layer,
            on_credit: heuristics.skipping_on_credit,
            flows: Vec::new(),
            new: VecDeque::new(),
            old: VecDeque::new(),
            account: Account::default(),
            loads: DeviceLoads::default(),
            cutting: 0,
            skipped: Vec::new(),
        }
    }

    /// Appends a packet. When the queue is full, packets of the longest flow
    /// are dropped: the oldest (RFC 8290, section 4.1), or, where several flows together
    /// have to wait for too long, the newest, as a link without the tunnel does.
    pub fn push(&mut self, flow: u16, queued: Queued, parameters: &Parameters) {
        if self.flows.is_empty() {
            self.flows.resize_with(FLOWS, || None);
        }
        let Some(place) = self.flows.get_mut(usize::from(flow)) else { return };
        let (at, Treatment { device, priority, .. }) = (queued.at, queued.treatment);
        let entry = place.get_or_insert_with(|| {
            let queue = FlowQueue::new(at);
            let (deficit, list, cutting) = (0, List::None, false);
            Box::new(Flow { queue, deficit, device, priority, list, cutting })
        });
        if entry.is_empty() {
            entry.queue.begin_backlog(at);
        }
        entry.queue.push(queued, &mut self.account);
        entry.priority = priority;
        if entry.device != device {
            if entry.list != List::None {
                self.loads.end(entry.device);
                self.loads.begin(device);
            }
            entry.device = device;
        }
        if entry.list == List::None {
            self.loads.begin(device);
            entry.list = List::New;
            entry.deficit = QUANTUM;
            self.new.push_back(flow);
        }
        while self.account.status.bytes > parameters.limit && self.account.status.packets > 1 {
            self.drop_from_longest();
        }
        while self.account.status.bytes > parameters.room && self.drop_last_of_longest(flow) {}
    }

    /// As [`Self::push`], but an acknowledgement that waits last in the flow's queue
    /// gives its place to this one and is returned.
    pub fn push_superseding(
        &mut self,
        flow: u16,
        queued: Queued,
        parameters: &Parameters,
    ) -> Option<Queued> {
        let rejected = match self.flows.get_mut(usize::from(flow)) {
            Some(Some(entry)) => match entry.queue.supersede(queued, &mut self.account) {
                Ok(gave_way) => return Some(gave_way),
                Err(rejected) => rejected,
            },
            _ => queued,
        };
        self.push(flow, rejected, parameters);
        None
    }

    /// Whose turn it is. `None` when nothing waits.
    pub fn head(&mut self) -> Option<Head> {
        loop {
            let sparse = !self.new.is_empty();
            let credit = if self.on_credit && !self.skipped.is_empty() { MOST_DEBT } else { 0 };
            if !sparse && credit > 0 {
                self.bring_forward_least_debt();
            }
            let flow = *if sparse { self.new.front() } else { self.old.front() }?;
            let Some(entry) = self.flows[usize::from(flow)].as_mut() else {
                pop(&mut self.new, &mut self.old, sparse);
                continue;
            };
            if entry.is_empty() {
                // RFC 8290, section 4.2: an emptied new flow goes to the old
                // ones first, so that it can't stay new by sending one by one.
                pop(&mut self.new, &mut self.old, sparse);
                if sparse && !self.old.is_empty() {
                    entry.list = List::Old;
                    self.old.push_back(flow);
                } else {
                    entry.list = List::None;
                    self.loads.end(entry.device);
                }
                continue;
            }
            if entry.deficit <= 0 && sparse {
                entry.list = List::Old;
                pop(&mut self.new, &mut self.old, sparse);
                self.old.push_back(flow);
                if credit == 0 {
                    entry.deficit += quantum(&self.loads, entry);
                }
                continue;
            }
            if entry.deficit <= 0 {
                // A flow that waits for a path keeps its turn: others send on credit meanwhile.
                if entry.deficit + credit <= 0 {
                    entry.deficit += quantum(&self.loads, entry);
                    self.old.rotate_left(1);
                    continue;
                }
            }
            return Some(Head {
                flow,
                sparse,
                backlogged_since: entry.queue.backlogged_since(),
                backlog: entry.queue.bytes(),
            });
        }
    }

    /// Flows that were skipped are in turn again.
    #[inline]
    pub fn unskip(&mut self) {
        if self.skipped.is_empty() {
            return;
        }
        while let Some((flow, list)) = self.skipped.pop() {
            match list {
                List::New => self.new.push_front(flow),
                _ => self.old.push_front(flow),
            }
        }
    }

    /// The flow, whose turn it is, waits for another path: others are in turn until
    /// [`Self::unskip`], but on credit. If it went to the end, as one whose turn is over, weights
    /// would mean nothing: it would have a turn whenever some path has room, as all others.
    pub fn skip(&mut self, flow: u16) {
        let list = if self.new.front() == Some(&flow) { List::New } else { List::Old };
        let waiting = if list == List::New { &mut self.new } else { &mut self.old };
        if waiting.front() == Some(&flow) {
            waiting.pop_front();
            self.skipped.push((flow, list));
        }
    }

    /// Forgets the flows, of which none has anything to send.
    pub fn rest(&mut self) {
        if self.is_empty() {
            self.flows = Vec::new();
            self.new = VecDeque::new();
            self.old = VecDeque::new();
            self.skipped = Vec::new();
            self.loads = DeviceLoads::default();
        }
    }

    /// How many flows have something to send.
    pub fn active_flows(&self) -> usize {
        self.new.len() + self.old.len() + self.skipped.len()
    }

    /// The flow in turn, if there is just one.
    pub fn only_flow(&self) -> Option<u16> {
        match (self.new.len(), self.old.len()) {
            (1, 0) if self.skipped.is_empty() => self.new.front().copied(),
            (0, 1) if self.skipped.is_empty() => self.old.front().copied(),
            _ => None,
        }
    }

    /// Takes the flow's next packet out, after CoDel has judged; packets that
    /// it drops on the way are gone. The flow stays in turn until [`Self::cut`]
    /// says that all of the packet has been sent.
    pub fn take(&mut self, flow: u16, now: Time, parameters: &Parameters) -> Option<Queued> {
        let entry = self.flows.get_mut(usize::from(flow))?.as_mut()?;
        let queued = entry.queue.take(now, self.layer, parameters, &mut self.account)?;
        self.cutting += usize::from(!std::mem::replace(&mut entry.cutting, true));
        Some(queued)
    }

    /// Takes what follows in the flow out while `join` adds it to the packet just
    /// taken, which CoDel has judged for all of them. The buffers go to
    /// [`Self::drain_dropped`].
    pub fn take_following(&mut self, flow: u16, join: impl FnMut(&InnerPacket) -> bool) {
        if let Some(Some(entry)) = self.flows.get_mut(usize::from(flow)) {
            entry.queue.take_following(&mut self.account, join);
        }
    }

    /// The packet taken last has been sent, or is given up.
    pub fn cut(&mut self, flow: u16) {
        if let Some(Some(entry)) = self.flows.get_mut(usize::from(flow)) {
            self.cutting -= usize::from(std::mem::take(&mut entry.cutting));
        }
    }

    /// The flow sent `bytes`.
    pub fn charge(&mut self, flow: u16, bytes: u64) {
        if let Some(Some(entry)) = self.flows.get_mut(usize::from(flow)) {
            entry.deficit -= bytes as i64;
        }
    }

    /// The flow in turn, if there is just one and it isn't sparse.
    pub fn only_old_flow(&self) -> Option<u16> {
        self.only_flow().filter(|_| self.new.is_empty())
    }

    /// As [`Self::charge`] where there is no other flow: its turn comes again.
    pub fn charge_alone(&mut self, flow: u16, bytes: u64) {
        if let Some(Some(entry)) = self.flows.get_mut(usize::from(flow)) {
            entry.deficit -= bytes as i64;
            while entry.deficit <= 0 {
                entry.deficit += QUANTUM;
            }
        }
    }

    /// Whether something of this flow waits.
    pub fn waits(&self, flow: u16) -> bool {
        let entry = self.flows.get(usize::from(flow)).and_then(|entry| entry.as_deref());
        entry.is_some_and(|entry| !entry.is_empty())
    }

    /// Nothing waits, nor is any packet half sent.
    pub fn is_empty(&self) -> bool {
        self.account.status.packets == 0 && self.cutting == 0
    }

    /// The counters.
    pub fn status(&self) -> EntryStatus {
        self.account.status
    }

    /// Buffers of packets that were dropped since the last call.
    pub fn drain_dropped(&mut self) -> impl Iterator<Item = Vec<u8>> + '_ {
        self.account.freed.drain(..)
    }

    /// The old flow that has most credit, or owes least, comes first.
    fn bring_forward_least_debt(&mut self) {
        let deficit = |flow: &u16| match self.flows.get(usize::from(*flow)) {
            Some(Some(entry)) => entry.deficit,
            _ => i64::MIN,
        };
        if self.old.front().is_none_or(|first| deficit(first) > 0) {
            return;
        }
        // The first of equals.
        let candidates = self.old.iter().take(LOOKED_AT).enumerate().rev();
        if let Some((place, _)) = candidates.max_by_key(|(_, flow)| deficit(flow)) {
            self.old.swap(0, place);
        }
    }

    #[cfg(test)]
    fn backlog(&self, flow: u16) -> u64 {
        let entry = self.flows.get(usize::from(flow)).and_then(|entry| entry.as_deref());
        entry.map_or(0, |entry| entry.queue.bytes())
    }

    fn drop_from_longest(&mut self) {
        let longest = longest(&self.new, &self.old, &self.skipped, &self.flows);
        let Some(Some(entry)) = longest.and_then(|flow| self.flows.get_mut(usize::from(flow)))
        else {
            return;
        };
        let Some(queued) = entry.queue.pop(&mut self.account) else { return };
        self.account.status.overflowed += 1;
        self.account.freed.push(queued.packet.bytes);
    }

    /// Of flows that are as long it's `newest`, to which a packet has just come: who comes last is
    /// turned away, and what waits comes out. False if one flow is most of what waits: CoDel
    /// tells its sender.
    fn drop_last_of_longest(&mut self, newest: u16) -> bool {
        let all = self.account.status.bytes;
        let bytes = |flow: u16| bytes_of(&self.flows, flow);
        let longest = longest(&self.new, &self.old, &self.skipped, &self.flows);
        let Some(longest) = longest.filter(|flow| bytes(*flow) <= all / 2) else { return false };
        let flow = if bytes(newest) == bytes(longest) { newest } else { longest };
        let Some(Some(entry)) = self.flows.get_mut(usize::from(flow)) else { return false };
        let Some(queued) = entry.queue.pop_last(&mut self.account) else { return false };
        self.account.status.overflowed += 1;
        self.account.freed.push(queued.packet.bytes);
        true
    }
}

/// The flow with most bytes: whatever has packets waits for its turn in one of the lists.
fn longest(
    new: &VecDeque<u16>,
    old: &VecDeque<u16>,
    skipped: &[(u16, List)],
    flows: &[Option<Box<Flow>>],
) -> Option<u16> {
    let skipped = skipped.iter().map(|(flow, _)| flow);
    let waiting = new.iter().chain(old).chain(skipped).copied();
    waiting.max_by_key(|flow| bytes_of(flows, *flow))
}

/// Bytes that wait of this flow.
fn bytes_of(flows: &[Option<Box<Flow>>], flow: u16) -> u64 {
    match flows.get(usize::from(flow)) {
        Some(Some(entry)) => entry.queue.bytes(),
        _ => 0,
    }
}

/// Bytes that a flow may send in its turn.
#[inline]
fn quantum(loads: &DeviceLoads, flow: &Flow) -> i64 {
    let weighed = QUANTUM * flow.priority.weight() / Priority::NORMAL;
    loads.part(weighed, flow.device).max(LEAST_QUANTUM)
}

fn pop(new: &mut VecDeque<u16>, old: &mut VecDeque<u16>, from_new: bool) {
    if from_new {
        new.pop_front()
    } else {
        old.pop_front()
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use braid_inner::{Class, Offload};
    use std::time::Duration;

    fn packet(len: usize, at: Time) -> Queued {
        let packet = InnerPacket { bytes: vec![0; len], offload: Offload::default() };
        let treatment = Treatment::default();
        Queued { packet, class: Class::Bulk, stream: true, rule: None, treatment, at }
    }

    fn queue() -> (EntryQueue, Parameters) {
        (EntryQueue::new(Layer::L3, Heuristics::ALL), Parameters::default())
    }

    #[test]
    fn flows_share_by_bytes() {
        let (mut q, p) = queue();
        for _ in 0..3000 {
            q.push(1, packet(1400, Time::ZERO), &p);
            q.push(2, packet(100, Time::ZERO), &p);
        }
        let mut sent = [0u64; 3];
        for _ in 0..1500 {
            let head = q.head().unwrap();
            let taken = q.take(head.flow, Time::ZERO, &p).unwrap();
            q.cut(head.flow);
            let len = taken.packet.bytes.len() as u64;
            q.charge(head.flow, len);
            sent[usize::from(head.flow)] += len;
        }
        let ratio = sent[1] as f64 / sent[2] as f64;
        assert!((0.9..1.12).contains(&ratio), "{sent:?}");
    }

    /// Bytes that flows send which always have packets waiting, by flow.
    fn shares(treatments: &[Treatment]) -> Vec<u64> {
        let (mut q, p) = queue();
        let mut sent = vec![0u64; treatments.len()];
        for _ in 0..10_000 {
            for (flow, treatment) in treatments.iter().enumerate() {
                while q.backlog(flow as u16) < 3000 {
                    let queued = Queued { treatment: *treatment, ..packet(1400, Time::ZERO) };
                    q.push(flow as u16, queued, &p);
                }
            }
            let head = q.head().unwrap();
            let taken = q.take(head.flow, Time::ZERO, &p).unwrap();
            q.cut(head.flow);
            q.charge(head.flow, taken.packet.bytes.len() as u64);
            sent[usize::from(head.flow)] += taken.packet.bytes.len() as u64;
        }
        sent
    }

    #[test]
    fn devices_share_equally_whatever_number_of_flows_they_have() {
        let of = |device| Treatment { device, ..Treatment::default() };
        // One, nine and two flows.
        let flows = [&[of(0)][..], &[of(7); 9], &[of(3); 2]].concat();
        let sent = shares(&flows);
        let sums = [sent[0], sent[1..10].iter().sum(), sent[10..].iter().sum()];
        let third = sums.iter().sum::<u64>() / 3;
        assert!(sums.iter().all(|sum| sum.abs_diff(third) < third / 20), "{sums:?}");
        assert!(sent[1..10].iter().all(|it| it.abs_diff(third / 9) < third / 90), "{sent:?}");
    }

    #[test]
    fn flows_share_by_their_priority() {
        let of = |priority| Treatment { priority, ..Treatment::default() };
        let sent = shares(&[of(Priority::High), of(Priority::Normal), of(Priority::Low)]);
        let ratio = |a: usize, b: usize| sent[a] as f64 / sent[b] as f64;
        assert!((3.7..4.3).contains(&ratio(0, 1)), "{sent:?}");
        assert!((14.0..17.0).contains(&ratio(1, 2)), "{sent:?}");
    }

    #[test]
    fn a_flow_whose_device_is_learnt_takes_its_load_along() {
        let (mut q, p) = queue();
        let of = |device| Treatment { device, ..Treatment::default() };
        for device in [0, 5, 0, 9] {
            let queued = Queued { treatment: of(device), ..packet(1400, Time::ZERO) };
            q.push(1, queued, &p);
        }
        while let Some(head) = q.head() {
            q.take(head.flow, Time::ZERO, &p);
            q.cut(head.flow);
            q.charge(head.flow, 1400);
        }
        // Nothing waits: no device has flows.
        q.push(2, packet(1400, Time::ZERO), &p);
        assert_eq!(q.loads.part(QUANTUM, 0), QUANTUM);
        assert_eq!(q.loads.part(QUANTUM, 9), QUANTUM);
    }

    #[test]
    fn a_sparse_flow_goes_before_a_backlogged_one() {
        let (mut q, p) = queue();
        for _ in 0..10 {
            q.push(1, packet(1400, Time::ZERO), &p);
        }
        for _ in 0..3 {
            let head = q.head().unwrap();
            q.take(head.flow, Time::ZERO, &p);
            q.charge(head.flow, 1400);
        }
        q.push(2, packet(80, Time::ZERO), &p);
        assert_eq!(q.head().map(|h| (h.flow, h.sparse)), Some((2, true)));
    }

    #[test]
    fn a_full_queue_drops_from_the_longest_flow() {
        let (mut q, _) = queue();
        let p = Parameters { limit: 100_000, ..Parameters::default() };
        q.push(2, packet(1000, Time::ZERO), &p);
        for _ in 0..200 {
            q.push(1, packet(1400, Time::ZERO), &p);
        }
        assert!(q.status().bytes <= p.limit && q.status().overflowed > 0);
        assert!(q.take(2, Time::ZERO, &p).is_some());
    }

    #[test]
    fn where_too_much_waits_what_came_last_is_dropped() {
        let (mut q, _) = queue();
        let p = Parameters { room: 20_000, ..Parameters::default() };
        for ms in 0..20 {
            for flow in 1..=4 {
                q.push(flow, packet(1400, Time::from_millis(ms)), &p);
            }
        }
        assert!(q.status().bytes <= p.room && q.status().overflowed > 0, "{:?}", q.status());
        assert_eq!(q.take(1, Time::ZERO, &p).map(|oldest| oldest.at), Some(Time::ZERO));
    }

    #[test]
    fn of_flows_that_are_as_long_who_comes_last_is_turned_away() {
        let (mut q, _) = queue();
        let p = Parameters { room: 8 * 1400, ..Parameters::default() };
        for flow in 1..=40 {
            q.push(flow, packet(1400, Time::ZERO), &p);
        }
        let waiting: Vec<u16> = (1..=40).filter(|flow| q.backlog(*flow) > 0).collect();
        let first = waiting.len() as u16;
        assert_eq!(waiting, (1..=first).collect::<Vec<_>>(), "the first that came");
        assert!(first >= 4, "{first}");
    }

    #[test]
    fn what_one_flow_has_waiting_is_for_codel_to_judge() {
        let (mut q, _) = queue();
        let p = Parameters { room: 20_000, ..Parameters::default() };
        for _ in 0..100 {
            q.push(1, packet(1400, Time::ZERO), &p);
        }
        q.push(2, packet(100, Time::ZERO), &p);
        assert_eq!((q.status().packets, q.status().overflowed), (101, 0));
    }

    #[test]
    fn only_an_acknowledgement_that_waits_last_gives_way() {
        let (mut q, p) = queue();
        let at = Time::from_millis;
        let ack = |len, ms| Queued { class: Class::PureAck, ..packet(len, at(ms)) };
        assert!(q.push_superseding(1, ack(52, 1), &p).is_none());
        assert_eq!(q.push_superseding(1, ack(40, 2), &p).map(|old| old.at), Some(at(1)));
        assert!(q.push_superseding(2, ack(40, 3), &p).is_none(), "another flow's stays");
        q.push(1, packet(1400, at(4)), &p);
        assert!(q.push_superseding(1, ack(40, 5), &p).is_none(), "data stays, and what's before");
        assert_eq!(q.status().packets, 4);
        let taken = std::iter::from_fn(|| q.take(1, at(6), &p)).map(|queued| queued.at);
        assert_eq!(taken.collect::<Vec<_>>(), [at(2), at(4), at(5)]);
        q.take(2, at(6), &p).unwrap();
        assert_eq!((q.status().packets, q.status().bytes), (0, 0));
    }

    /// Packets of flow 2, a stream's or not, that came one a millisecond from 0 on
    /// to this; two are taken, at 300 and 400 ms. How long the second one waited.
    fn waited_after_a_signal(stream: bool, to_ms: u64) -> Duration {
        let (mut q, p) = queue();
        for ms in 0..to_ms {
            let packet = Queued { stream, ..packet(1400, Time::from_millis(ms)) };
            q.push(2, packet, &p);
        }
        q.take(2, Time::from_millis(300), &p).unwrap();
        q.cut(2);
        let now = Time::from_millis(400);
        now - q.take(2, now, &p).unwrap().at
    }

    #[test]
    fn a_stream_that_is_signalled_to_waits_for_a_short_time_only() {
        assert!(waited_after_a_signal(true, 400) <= Duration::from_millis(100));
        assert!(waited_after_a_signal(false, 400) > Duration::from_millis(300));
    }

    #[test]
    fn of_a_stream_that_has_ended_enough_is_left_to_show_what_is_gone() {
        let waited = waited_after_a_signal(true, 100);
        // A quarter of 100 packets, one a millisecond.
        assert!(waited >= Duration::from_millis(400 - 80), "{waited:?}");
        assert!(waited < Duration::from_millis(400 - 60), "{waited:?}");
    }

    #[test]
    fn a_standing_queue_is_signalled_and_a_short_burst_is_not() {
        let (mut q, p) = queue();
        for i in 0..500u64 {
            q.push(1, packet(1400, Time::from_millis(i)), &p);
        }
        // Leaves 15 ms after it came: below the target.
        for i in 0..200u64 {
            q.take(1, Time::from_millis(i + 15), &p).unwrap();
        }
        assert_eq!(q.status().dropped, 0);
        for i in 200..400u64 {
            q.take(1, Time::from_millis(i + 60), &p);
        }
        assert!(q.status().dropped > 0);
    }
}
