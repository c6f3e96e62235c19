use super::loss::{Channel, happens};
use super::serializer::Serializer;
use super::{DirectionChange, DirectionModel, Packet};
use braid_units::Time;
use fastrand::Rng;
use std::collections::VecDeque;
use std::time::Duration;

/// One direction of a link as a pure model: packets go in at their time, and
/// come out at theirs. It reads no clock; the caller's `now` must not run
/// backwards.
///
/// A packet joins the queue (or is dropped at its tail), is serialised at the capacity, may then be
/// lost, duplicated or damaged, and is delivered after delay and jitter, never before the packet
/// ahead of it unless that is held back by [`super::Reorder`]. Jitter delays deliveries, not the
/// serialiser, so it doesn't lower the rate.
#[derive(Debug)]
pub struct Direction<P> {
    model: DirectionModel,
    serializer: Serializer,
    channel: Channel,
    rng: Rng,
    /// The packet being serialised.
    head: Option<SizedPacket<P>>,
    queue: VecDeque<SizedPacket<P>>,
    /// Serialised packets in transit; delivery times ascend.
    flying: VecDeque<(Time, SizedPacket<P>)>,
    /// The last delivery time of packets that keep their order.
    last_delivery: Time,
    blackout: bool,
    counters: DirectionCounters,
}

#[derive(Clone, Debug)]
struct SizedPacket<P> {
    bytes: u32,
    packet: P,
}

/// A direction's counters so far. Bytes are those of IP packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DirectionCounters {
    /// Packets offered, whatever became of them.
    pub packets_in: u64,
    /// Their bytes.
    pub bytes_in: u64,
    /// Serialised bytes, including those of packets lost afterwards.
    pub bytes_serialised: u64,
    /// Packets delivered, copies included.
    pub packets_out: u64,
    /// Their bytes.
    pub bytes_out: u64,
    /// Packets dropped at the queue's tail.
    pub dropped_queue: u64,
    /// Packets lost by [`super::Loss`].
    pub dropped_loss: u64,
    /// Packets that vanished in a blackout or without a carrier.
    pub dropped_blackout: u64,
    /// Packets refused before the queue: larger than the MTU, or without a
    /// mapping in the NAT.
    pub refused: u64,
    /// Packets held back, so that others could overtake them.
    pub reordered: u64,
    /// Copies made of packets.
    pub duplicated: u64,
    /// Packets in which a bit was flipped.
    pub corrupted: u64,
    /// Bytes in the queue now, including the rest in the serialiser.
    pub queued_bytes: u64,
}

impl<P: Packet> Direction<P> {
    /// A direction that behaves like `model` from `now` on, with random numbers from `seed`.
    pub fn new(model: DirectionModel, seed: u64, now: Time) -> Self {
        Direction {
            serializer: Serializer::new(&model.capacity, now),
            channel: Channel::new(model.loss),
            rng: Rng::with_seed(seed),
            head: None,
            queue: VecDeque::new(),
            flying: VecDeque::new(),
            last_delivery: Time::ZERO,
            blackout: false,
            counters: DirectionCounters::default(),
            model,
        }
    }

    /// Offers an IP packet of `bytes` bytes.
    ///
    /// # Errors
    /// Returns the packet if there is no room for it, or there is a blackout; it is counted as
    /// dropped.
    pub fn enqueue(&mut self, now: Time, bytes: u32, packet: P) -> Result<(), P> {
        self.serialise_until(now);
        self.counters.packets_in += 1;
        self.counters.bytes_in += u64::from(bytes);
        if self.blackout {
            self.counters.dropped_blackout += 1;
            return Err(packet);
        }
        let sized = SizedPacket { bytes, packet };
        if self.head.is_none() {
            self.counters.queued_bytes += u64::from(bytes);
            self.start(now, sized);
            return Ok(());
        }
        let waiting = self.counters.queued_bytes - self.head_bytes();
        if waiting + u64::from(bytes) > self.model.queue.bytes() {
            self.counters.dropped_queue += 1;
            return Err(sized.packet);
        }
        self.counters.queued_bytes += u64::from(bytes);
        self.queue.push_back(sized);
        Ok(())
    }

    /// The next packet that has arrived by `now`.
    pub fn poll(&mut self, now: Time) -> Option<P> {
        self.serialise_until(now);
        if self.flying.front()?.0 > now {
            return None;
        }
        let (_, arrived) = self.flying.pop_front()?;
        self.counters.packets_out += 1;
        self.counters.bytes_out += u64::from(arrived.bytes);
        Some(arrived.packet)
    }

    /// When [`Direction::poll`] may next have a packet; `None` while it is empty. With jitter this
    /// may be too early by as much.
    pub fn next_deadline(&self) -> Option<Time> {
        let flying = self.flying.front().map(|(delivery, _)| *delivery);
        if flying.is_some_and(|delivery| delivery <= self.last_delivery) {
            // A packet still being serialised can't overtake it.
            return flying;
        }
        let head = self
            .head
            .as_ref()
            .map(|_| (self.serializer.finish_time() + self.model.delay).max(self.last_delivery));
        flying.into_iter().chain(head).min()
    }

    /// Bytes serialised until `now`.
    pub fn serialised(&mut self, now: Time) -> u64 {
        self.serialise_until(now);
        self.counters.bytes_serialised
    }

    /// Starts or ends a blackout. At its start, queued and partly serialised packets are lost;
    /// packets in transit still arrive.
    pub fn set_blackout(&mut self, now: Time, blackout: bool) {
        self.serialise_until(now);
        self.blackout = blackout;
        if blackout {
            let lost = self.queue.len() as u64 + u64::from(self.head.is_some());
            self.counters.dropped_blackout += lost;
            self.counters.queued_bytes = 0;
            self.queue.clear();
            if self.head.take().is_some() {
                self.serializer.abort(now);
            }
        }
    }

    /// Changes the model from `now` on, exactly, even for the packet being serialised. A smaller
    /// queue keeps its content. Packets in transit keep their delivery time.
    pub fn change(&mut self, now: Time, change: &DirectionChange) {
        self.serialise_until(now);
        self.model.apply(change);
        if let Some(capacity) = &change.capacity {
            self.serializer.set(capacity, now);
        }
        if let Some(loss) = change.loss {
            self.channel.set(loss);
        }
    }

    /// Replaces the model from `now` on, like a [`Direction::change`] of everything.
    pub fn set(&mut self, now: Time, model: DirectionModel) {
        self.serialise_until(now);
        self.serializer.set(&model.capacity, now);
        self.channel.set(model.loss);
        self.model = model;
    }

    /// Restarts a trace at its offset, as if the emulation started at `now`.
    pub fn restart_trace(&mut self, now: Time) {
        self.serialise_until(now);
        self.serializer.set(&self.model.capacity, now);
    }

    /// Counts a packet refused before the queue.
    pub fn count_refused(&mut self, bytes: u32) {
        self.counters.packets_in += 1;
        self.counters.bytes_in += u64::from(bytes);
        self.counters.refused += 1;
    }

    /// The counters so far.
    pub fn counters(&self) -> DirectionCounters {
        self.counters
    }

    /// The current model, including changes.
    pub fn model(&self) -> &DirectionModel {
        &self.model
    }

    fn serialise_until(&mut self, now: Time) {
        while self.head.is_some() {
            let finish = self.serializer.finish_time();
            if finish > now {
                return;
            }
            self.serializer.finish();
            self.launch(finish);
            if let Some(next) = self.queue.pop_front() {
                self.start(finish, next);
            }
        }
    }

    fn start(&mut self, at: Time, sized: SizedPacket<P>) {
        self.serializer.start(at, sized.bytes);
        self.head = Some(sized);
    }

    /// Sends the packet at the head, serialised at `finish`, on its way.
    fn launch(&mut self, finish: Time) {
        let Some(head) = self.head.take() else { return };
        self.counters.queued_bytes -= u64::from(head.bytes);
        self.counters.bytes_serialised += u64::from(head.bytes);
        if self.channel.loses_next(&mut self.rng) {
            self.counters.dropped_loss += 1;
            return;
        }
        if happens(self.model.duplicate, &mut self.rng) {
            self.counters.duplicated += 1;
            self.fly(finish, head.clone());
        }
        self.fly(finish, head);
    }

    /// Puts a packet, serialised at `finish`, in transit.
    fn fly(&mut self, finish: Time, mut sized: SizedPacket<P>) {
        if happens(self.model.corrupt, &mut self.rng) {
            self.counters.corrupted += 1;
            sized.packet.flip_bit(&mut self.rng);
        }
        let jitter = uniform(self.model.jitter, &mut self.rng);
        let delivery = (finish + self.model.delay + jitter).max(self.last_delivery);
        let reorder = self.model.reorder;
        let delivery = if !reorder.is_none() && happens(reorder.share, &mut self.rng) {
            self.counters.reordered += 1;
            delivery + uniform(reorder.by, &mut self.rng)
        } else {
            self.last_delivery = delivery;
            delivery
        };
        if self.flying.back().is_none_or(|(last, _)| *last <= delivery) {
            self.flying.push_back((delivery, sized));
        } else {
            let place = self.flying.partition_point(|(other, _)| *other <= delivery);
            self.flying.insert(place, (delivery, sized));
        }
    }

    fn head_bytes(&self) -> u64 {
        self.head.as_ref().map_or(0, |head| u64::from(head.bytes))
    }
}

/// Uniform from zero to `most`.
fn uniform(most: Duration, rng: &mut Rng) -> Duration {
    match u64::try_from(most.as_nanos()).unwrap_or(u64::MAX) {
        0 => Duration::ZERO,
        most => Duration::from_nanos(rng.u64(0..=most)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Capacity, Loss, Reorder, Trace};
    use super::*;
    use braid_units::{ByteSize, Rate, Ratio};
    use fastrand::Rng;
    use proptest::prelude::*;
    use std::sync::Arc;

    /// A numbered packet.
    #[derive(Clone, Debug, PartialEq)]
    struct Numbered {
        number: usize,
        damaged: bool,
    }

    impl Packet for Numbered {
        fn flip_bit(&mut self, _: &mut Rng) {
            self.damaged ^= true;
        }
    }

    fn numbered(number: usize) -> Numbered {
        Numbered { number, damaged: false }
    }

    /// Offers packets (time, bytes), numbered, and returns (number, arrival).
    fn play(direction: &mut Direction<Numbered>, offered: &[(Time, u32)]) -> Vec<(usize, Time)> {
        let mut arrivals = Vec::new();
        let mut offers = offered.iter().copied().enumerate().peekable();
        loop {
            let deadline = direction.next_deadline().unwrap_or(Time::FAR_FUTURE);
            let offer = offers.next_if(|(_, (at, _))| *at <= deadline);
            let now = match (offer, deadline) {
                (Some((number, (at, bytes))), _) => {
                    let _ = direction.enqueue(at, bytes, numbered(number));
                    at
                }
                (None, Time::FAR_FUTURE) => return arrivals,
                (None, deadline) => deadline,
            };
            while let Some(packet) = direction.poll(now) {
                arrivals.push((packet.number, now));
            }
        }
    }

    fn saturate(direction: &mut Direction<Numbered>, bytes: u32, rate: Rate, seconds: u64) -> f64 {
        let gap = rate.time_for(u64::from(bytes));
        let count = Duration::from_secs(seconds).as_nanos() / gap.as_nanos();
        let offers: Vec<_> = (0..count as u32).map(|i| (Time::ZERO + gap * i, bytes)).collect();
        let end = Time::ZERO + Duration::from_secs(seconds);
        let arrived = play(direction, &offers).iter().filter(|(_, at)| *at <= end).count();
        arrived as f64 * f64::from(bytes) / seconds as f64
    }

    fn model(rate: Rate) -> DirectionModel {
        DirectionModel { capacity: Capacity::Rate(rate), ..DirectionModel::ideal() }
    }

    #[test]
    fn the_rate_is_exact_whatever_the_jitter() {
        for jitter in [0, 20] {
            let rate = Rate::from_bits_per_sec(6_100_000);
            let mut model = model(rate);
            model.jitter = Duration::from_millis(jitter);
            let mut direction = Direction::new(model, 1, Time::ZERO);
            let measured = saturate(&mut direction, 1492, rate.scaled(1.5), 100);
            let share = measured / rate.bytes_per_sec() as f64;
            assert!((share - 1.0).abs() < 1e-3, "{share}");
        }
    }

    #[test]
    fn a_trace_delivers_what_it_recorded() {
        let millis: Vec<u32> = (0..5000u32).map(|i| i * 7 % 13 + i * 3).collect();
        let mut sorted = millis;
        sorted.sort_unstable();
        let trace = Arc::new(Trace::from_millis(sorted).unwrap());
        let rate = trace.mean_rate();
        let capacity = Capacity::Trace { trace, offset: Duration::from_secs(9) };
        let model = DirectionModel { capacity, ..DirectionModel::ideal() };
        let mut direction = Direction::new(model, 1, Time::ZERO);
        let measured = saturate(&mut direction, 300, rate.scaled(2.0), 100);
        let share = measured / rate.bytes_per_sec() as f64;
        assert!((share - 1.0).abs() < 1e-3, "{share}");
    }

    #[test]
    fn the_queue_drops_at_its_tail() {
        let mut model = model(Rate::from_bytes_per_sec(1000));
        model.queue = ByteSize::from_bytes(250);
        let mut direction = Direction::new(model, 1, Time::ZERO);
        let offers = [(Time::ZERO, 100); 5];
        let arrived: Vec<usize> =
            play(&mut direction, &offers).iter().map(|(number, _)| *number).collect();
        assert_eq!(arrived, [0, 1, 2]);
        assert_eq!(direction.counters().dropped_queue, 2);
        assert_eq!(direction.counters().queued_bytes, 0);
    }

    #[test]
    fn a_blackout_takes_the_queue_but_not_what_is_on_its_way() {
        let mut model = model(Rate::from_bytes_per_sec(1000));
        model.delay = Duration::from_secs(1);
        let mut direction = Direction::new(model, 1, Time::ZERO);
        for number in 0..3 {
            direction.enqueue(Time::ZERO, 100, numbered(number)).unwrap();
        }
        direction.set_blackout(Time::from_millis(150), true);
        assert_eq!(direction.enqueue(Time::from_millis(160), 100, numbered(3)), Err(numbered(3)));
        direction.set_blackout(Time::from_millis(170), false);
        direction.enqueue(Time::from_millis(180), 100, numbered(4)).unwrap();
        let arrivals = play(&mut direction, &[]);
        assert_eq!(arrivals, [(0, Time::from_millis(1100)), (4, Time::from_millis(1280))]);
        assert_eq!(direction.counters().dropped_blackout, 3);
    }

    #[test]
    fn loss_uses_capacity_and_is_counted() {
        let mut model = model(Rate::from_mbit(8));
        model.loss = Loss::Random(Ratio::from_fraction(0.1));
        let mut direction = Direction::new(model, 3, Time::ZERO);
        let measured = saturate(&mut direction, 1000, Rate::from_mbit(9), 50);
        assert!((measured / 1e6 - 0.9).abs() < 0.01, "{measured}");
        let counters = direction.counters();
        let share = counters.dropped_loss as f64 / (counters.packets_out as f64 / 0.9);
        assert!((share - 0.1).abs() < 0.01, "{share}");
    }

    #[test]
    fn a_shorter_delay_does_not_reorder() {
        let mut model = DirectionModel::ideal();
        model.delay = Duration::from_millis(80);
        let mut direction = Direction::new(model, 1, Time::ZERO);
        direction.enqueue(Time::ZERO, 100, numbered(0)).unwrap();
        let shorter =
            DirectionChange { delay: Some(Duration::from_millis(5)), ..Default::default() };
        direction.change(Time::from_millis(1), &shorter);
        direction.enqueue(Time::from_millis(1), 100, numbered(1)).unwrap();
        let at = Time::from_millis(80);
        assert_eq!(play(&mut direction, &[]), [(0, at), (1, at)]);
    }

    #[test]
    fn packets_held_back_are_overtaken_by_those_behind() {
        let mut model = model(Rate::from_mbit(8));
        model.delay = Duration::from_millis(30);
        model.reorder = Reorder { share: Ratio::from_fraction(0.1), by: Duration::from_millis(20) };
        let mut direction = Direction::new(model.clone(), 5, Time::ZERO);
        // One packet in a millisecond.
        let offers: Vec<_> = (0..10_000).map(|i| (Time::from_millis(i), 1000)).collect();
        let arrivals = play(&mut direction, &offers);
        assert_eq!(arrivals.len(), 10_000);
        let soonest = |number: usize| Time::from_millis(number as u64 + 31);
        let late: Vec<_> = arrivals.iter().filter(|(n, at)| *at != soonest(*n)).collect();
        assert!((900..1100).contains(&late.len()), "{}", late.len());
        assert_eq!(direction.counters().reordered, late.len() as u64);
        assert!(late.iter().all(|(n, at)| *at <= soonest(*n) + model.reorder.by));
        let overtaken = arrivals.windows(2).filter(|pair| pair[0].0 > pair[1].0).count();
        assert!(overtaken > 500, "{overtaken}");
    }

    #[test]
    fn a_packet_held_back_is_no_longer_waited_for_than_the_next_one() {
        let mut model = DirectionModel::ideal();
        model.capacity = Capacity::Rate(Rate::from_bytes_per_sec(1_000_000));
        let certain = Ratio::from_fraction(1.0);
        model.reorder = Reorder { share: certain, by: Duration::from_secs(3600) };
        let mut direction = Direction::new(model, 1, Time::ZERO);
        direction.enqueue(Time::ZERO, 1000, numbered(0)).unwrap();
        assert!(direction.poll(Time::from_millis(1)).is_none());
        let in_order =
            DirectionChange { reorder: Some(Reorder::NONE), ..DirectionChange::default() };
        direction.change(Time::from_millis(1), &in_order);
        direction.enqueue(Time::from_millis(1), 1000, numbered(1)).unwrap();
        assert_eq!(direction.next_deadline(), Some(Time::from_millis(2)));
        assert_eq!(direction.poll(Time::from_millis(2)), Some(numbered(1)));
    }

    #[test]
    fn copies_and_damages_are_as_frequent_as_configured_and_take_no_capacity() {
        let mut model = model(Rate::from_mbit(8));
        model.duplicate = Ratio::from_fraction(0.05);
        model.corrupt = Ratio::from_fraction(0.02);
        let mut direction = Direction::new(model, 9, Time::ZERO);
        let (mut seen, mut damaged) = (vec![0; 20_000], 0);
        for number in 0..seen.len() {
            let now = Time::from_millis(number as u64);
            direction.enqueue(now, 1000, numbered(number)).unwrap();
            while let Some(packet) = direction.poll(now + Duration::from_millis(1)) {
                seen[packet.number] += 1;
                damaged += u64::from(packet.damaged);
            }
        }
        assert!(seen.iter().all(|times| (1..=2).contains(times)));
        let twice = seen.iter().filter(|times| **times == 2).count();
        assert!((900..1100).contains(&twice), "{twice}");
        assert!((350..500).contains(&damaged), "{damaged}");
        let counters = direction.counters();
        assert_eq!((counters.duplicated, counters.corrupted), (twice as u64, damaged));
        assert_eq!(counters.bytes_serialised, counters.bytes_in);
    }

    proptest! {
        /// Packets are in order, delays within bounds, nothing is invented, everything is counted.
        #[test]
        fn packets_arrive_in_order_within_the_delay_bounds(
            gaps in proptest::collection::vec((0u64..20_000, 1u32..3000), 1..200),
            kbytes in 1u64..2000,
            delay_ms in 0u64..50,
            jitter_ms in 0u64..50,
            queue in 0u64..50_000,
            loss in 0.0..0.3f64,
            seed: u64,
        ) {
            let rate = Rate::from_bytes_per_sec(kbytes * 1000);
            let model = DirectionModel {
                capacity: Capacity::Rate(rate),
                delay: Duration::from_millis(delay_ms),
                jitter: Duration::from_millis(jitter_ms),
                loss: Loss::Random(Ratio::from_fraction(loss)),
                queue: ByteSize::from_bytes(queue),
                ..DirectionModel::ideal()
            };
            let mut at = Time::ZERO;
            let offers: Vec<_> = gaps.iter().map(|&(gap, bytes)| {
                at += Duration::from_micros(gap);
                (at, bytes)
            }).collect();
            let mut direction = Direction::new(model.clone(), seed, Time::ZERO);
            let arrivals = play(&mut direction, &offers);
            prop_assert!(arrivals.is_sorted());
            for &(number, arrival) in &arrivals {
                let (offered, bytes) = offers[number];
                let soonest = offered + rate.time_for(bytes.into()) + model.delay;
                let latest = soonest + model.jitter + rate.time_for(queue + 3000)
                    + Duration::from_micros(2);
                prop_assert!(arrival + Duration::from_nanos(1) >= soonest);
                prop_assert!(arrival <= latest);
            }
            let counters = direction.counters();
            prop_assert_eq!(counters.packets_in, offers.len() as u64);
            prop_assert_eq!(counters.packets_out, arrivals.len() as u64);
            prop_assert_eq!(
                counters.packets_in,
                counters.packets_out + counters.dropped_queue + counters.dropped_loss
            );
            prop_assert_eq!(counters.queued_bytes, 0);
        }
    }
}
