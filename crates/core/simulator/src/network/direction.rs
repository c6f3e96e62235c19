use super::trace::OPPORTUNITY;
use super::{Capacity, Datagram, DirectionSpec, Loss};
use braid_units::Time;
use fastrand::Rng;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Bytes of IPv4 and UDP headers around a payload.
pub(crate) const HEADERS: u64 = 28;

/// One direction of a link: a drop-tail queue, a serialiser, then loss, delay
/// and jitter.
#[derive(Debug)]
pub(crate) struct Direction {
    spec: DirectionSpec,
    rng: Rng,
    /// The moment that a trace's offset stands for.
    trace_start: Time,
    /// Next opportunity of a trace, and what is left of it.
    opportunity: (u64, u64),
    head: Option<Head>,
    queue: VecDeque<Datagram>,
    queued: u64,
    flying: BTreeMap<(Time, u64), Datagram>,
    last_arrival: Time,
    sent: u64,
    bad: bool,
    dark: bool,
    /// IP bytes that were serialised.
    served_bytes: u64,
    /// IP bytes that were delivered.
    pub delivered_bytes: u64,
}

#[derive(Debug)]
struct Head {
    datagram: Datagram,
    finish: Time,
    /// Constant rates only: what is left since when.
    left: u64,
    since: Time,
}

impl Direction {
    pub fn new(spec: DirectionSpec, seed: u64) -> Self {
        let mut direction = Self {
            spec,
            rng: Rng::with_seed(seed),
            trace_start: Time::ZERO,
            opportunity: (0, OPPORTUNITY),
            head: None,
            queue: VecDeque::new(),
            queued: 0,
            flying: BTreeMap::new(),
            last_arrival: Time::ZERO,
            sent: 0,
            bad: false,
            dark: false,
            served_bytes: 0,
            delivered_bytes: 0,
        };
        direction.restart_trace(Time::ZERO);
        direction
    }

    /// Offers a datagram; it may vanish.
    pub fn send(&mut self, now: Time, datagram: Datagram) {
        self.advance(now);
        if self.dark {
            return;
        }
        if self.head.is_none() {
            self.start(now, datagram);
            return;
        }
        let bytes = ip_bytes(&datagram);
        if self.queued + bytes <= self.spec.queue {
            self.queued += bytes;
            self.queue.push_back(datagram);
        }
    }

    /// The next datagram that has arrived.
    pub fn poll(&mut self, now: Time) -> Option<Datagram> {
        self.advance(now);
        let entry = self.flying.first_entry().filter(|e| e.key().0 <= now)?;
        let datagram = entry.remove();
        self.delivered_bytes += ip_bytes(&datagram);
        Some(datagram)
    }

    /// IP bytes that were serialised until now.
    pub fn served(&mut self, now: Time) -> u64 {
        self.advance(now);
        self.served_bytes
    }

    /// When something happens next.
    pub fn next_deadline(&self) -> Option<Time> {
        let flying = self.flying.first_key_value().map(|((at, _), _)| *at);
        [flying, self.head.as_ref().map(|h| h.finish)].into_iter().flatten().min()
    }

    /// A silent blackout begins or ends: what waits is lost, what flies arrives.
    pub fn set_dark(&mut self, now: Time, dark: bool) {
        self.advance(now);
        self.dark = dark;
        if dark {
            self.head = None;
            self.queue.clear();
            self.queued = 0;
        }
    }

    /// Becomes another direction from now on.
    pub fn set(&mut self, now: Time, spec: DirectionSpec) {
        self.advance(now);
        if let (Some(head), Capacity::Rate(rate)) = (&mut self.head, &self.spec.capacity) {
            head.left = head.left.saturating_sub(rate.bytes_in(now - head.since));
            head.since = now;
        }
        self.spec = spec;
        self.restart_trace(now);
        if let Some(mut head) = self.head.take() {
            head.finish = self.finish_time(now, head.left);
            self.head = Some(head);
        }
    }

    fn restart_trace(&mut self, now: Time) {
        self.trace_start = now;
        if let Capacity::Trace(trace, offset) = &self.spec.capacity {
            self.opportunity = (trace.first_from(*offset), OPPORTUNITY);
        }
    }

    fn advance(&mut self, now: Time) {
        while self.head.as_ref().is_some_and(|h| h.finish <= now) {
            let Some(head) = self.head.take() else { return };
            let finish = head.finish;
            self.launch(finish, head.datagram);
            if let Some(next) = self.queue.pop_front() {
                self.queued -= ip_bytes(&next);
                self.start(finish, next);
            }
        }
    }

    fn start(&mut self, now: Time, datagram: Datagram) {
        let left = ip_bytes(&datagram);
        let finish = self.finish_time(now, left);
        self.head = Some(Head { datagram, finish, left, since: now });
    }

    fn finish_time(&mut self, start: Time, bytes: u64) -> Time {
        let (trace, offset) = match &self.spec.capacity {
            Capacity::Rate(rate) => return start + rate.time_for(bytes),
            Capacity::Trace(trace, offset) => (trace, *offset),
        };
        let moment = (start - self.trace_start) + offset;
        let (mut index, mut left) = self.opportunity;
        if trace.at(index) < moment {
            (index, left) = (trace.first_from(moment), OPPORTUNITY);
        }
        let mut need = bytes;
        while left < need {
            need -= left;
            (index, left) = (index + 1, OPPORTUNITY);
        }
        self.opportunity = (index, left - need);
        self.trace_start + trace.at(index).saturating_sub(offset)
    }

    fn launch(&mut self, now: Time, mut datagram: Datagram) {
        self.served_bytes += ip_bytes(&datagram);
        if self.loses_next() {
            return;
        }
        let mut arrival = now + self.spec.delay + self.spec.jitter.mul_f64(self.rng.f64());
        if self.rng.f64() < self.spec.reorder {
            arrival += Duration::from_micros(self.rng.u64(500..20_000));
        } else {
            arrival = arrival.max(self.last_arrival);
            self.last_arrival = arrival;
        }
        if self.rng.f64() < self.spec.duplicate {
            let later = arrival + Duration::from_micros(self.rng.u64(0..30_000));
            self.fly(later, datagram.clone());
        }
        if self.rng.f64() < self.spec.corrupt {
            let bit = self.rng.usize(0..datagram.bytes.len().max(1) * 8);
            if let Some(byte) = datagram.bytes.get_mut(bit / 8) {
                *byte ^= 1 << (bit % 8);
            }
        }
        self.fly(arrival, datagram);
    }

    fn fly(&mut self, arrival: Time, datagram: Datagram) {
        self.flying.insert((arrival, self.sent), datagram);
        self.sent += 1;
    }

    fn loses_next(&mut self) -> bool {
        match self.spec.loss {
            Loss::None => false,
            Loss::Random(share) => self.rng.f64() < share,
            Loss::Burst { share, length } => {
                // Gilbert's two-state channel that loses all while bad.
                let leave = 1.0 / length.max(1.0);
                let enter = leave * share / (1.0 - share).max(1e-9);
                let flip = if self.bad { leave } else { enter };
                self.bad ^= self.rng.f64() < flip;
                self.bad
            }
        }
    }
}

fn ip_bytes(datagram: &Datagram) -> u64 {
    datagram.bytes.len() as u64 + HEADERS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::Trace;
    use braid_units::Rate;
    use std::sync::Arc;

    fn datagram(len: usize) -> Datagram {
        let address = ([127, 0, 0, 1], 1).into();
        Datagram { from: address, to: address, bytes: vec![0; len] }
    }

    fn saturate(direction: &mut Direction, seconds: u64) -> u64 {
        for ms in 0..seconds * 1000 {
            let now = Time::from_millis(ms);
            while direction.poll(now).is_some() {}
            while direction.queued < 20_000 {
                direction.send(now, datagram(1372));
            }
        }
        direction.delivered_bytes
    }

    #[test]
    fn it_delivers_at_its_rate() {
        let spec = DirectionSpec::clean(Rate::from_mbit(8), Duration::from_millis(5));
        let delivered = saturate(&mut Direction::new(spec, 1), 10);
        assert!((9_900_000..=10_000_000).contains(&delivered), "{delivered}");
    }

    #[test]
    fn it_delivers_what_a_trace_recorded() {
        let trace = Arc::new(Trace::new((0..1000).map(|i| i * 3).collect()).unwrap());
        let mut spec = DirectionSpec::clean(Rate::from_mbit(8), Duration::ZERO);
        spec.capacity = Capacity::Trace(trace, Duration::from_millis(700));
        let expected = spec.capacity.bytes_between(Duration::ZERO, Duration::from_secs(9));
        let delivered = saturate(&mut Direction::new(spec, 1), 9);
        assert!(delivered.abs_diff(expected) < expected / 100, "{delivered} {expected}");
    }

    #[test]
    fn a_changed_rate_holds_for_the_packet_being_serialised() {
        let slow = DirectionSpec::clean(Rate::from_bytes_per_sec(1000), Duration::ZERO);
        let fast = DirectionSpec::clean(Rate::from_bytes_per_sec(10_000), Duration::ZERO);
        let mut direction = Direction::new(slow, 1);
        direction.send(Time::ZERO, datagram(972));
        direction.set(Time::from_millis(500), fast);
        assert_eq!(direction.next_deadline(), Some(Time::from_millis(550)));
    }
}
