use super::{Capacity, Trace};
use braid_units::{Rate, Time};
use std::sync::Arc;
use std::time::Duration;

/// Work is counted in billionths of a byte: what a rate of one byte per second does in a
/// nanosecond. So only the instant of a finish is rounded, and that error is carried over, not
/// summed up.
const NANO_BYTES: u64 = 1_000_000_000;
const OPPORTUNITY: u64 = Trace::OPPORTUNITY_BYTES as u64 * NANO_BYTES;

/// Puts one packet after another on the wire at a [`Capacity`], and knows exactly when each is
/// finished, even if the capacity changes in the middle.
#[derive(Debug)]
pub(super) struct Serializer {
    pace: Pace,
    /// The rest of the packet being serialised at `at`, in nano-bytes.
    left: u64,
    /// The time up to which `left` accounts for finished work.
    at: Time,
    /// When it will be finished; cached, since it is read far more often than it changes.
    finish: Time,
}

#[derive(Debug)]
enum Pace {
    Instant,
    Constant {
        rate: Rate,
        /// Unused work of the nanosecond in which the last packet finished.
        credit: u64,
    },
    Recorded(Playback),
}

impl Serializer {
    pub(super) fn new(capacity: &Capacity, now: Time) -> Self {
        Serializer { pace: Pace::new(capacity, now), left: 0, at: now, finish: now }
    }

    /// Starts a packet at `now`, the instant the previous one finished, or later.
    pub(super) fn start(&mut self, now: Time, bytes: u32) {
        let contiguous = now == self.at;
        self.at = now;
        self.left = u64::from(bytes) * NANO_BYTES;
        match &mut self.pace {
            Pace::Instant => self.left = 0,
            Pace::Constant { credit, .. } => {
                let unused = std::mem::take(credit);
                if contiguous {
                    self.left = self.left.saturating_sub(unused);
                }
            }
            Pace::Recorded(playback) => {
                if !contiguous {
                    playback.skip_to(now);
                }
            }
        }
        self.finish = self.pace.finish_time(self.at, self.left);
    }

    /// When the packet being serialised will be finished.
    pub(super) fn finish_time(&self) -> Time {
        self.finish
    }

    /// Ends the packet at its [`Serializer::finish_time`].
    pub(super) fn finish(&mut self) {
        let finish = self.finish;
        match &mut self.pace {
            Pace::Instant => {}
            Pace::Constant { rate, credit } => {
                let done = finish.since(self.at).as_nanos() * u128::from(rate.bytes_per_sec());
                *credit = u64::try_from(done).unwrap_or(0).saturating_sub(self.left);
            }
            Pace::Recorded(playback) => playback.take(self.left),
        }
        self.left = 0;
        self.at = finish;
    }

    /// Changes the capacity at `now`, before the current packet's finish.
    pub(super) fn set(&mut self, capacity: &Capacity, now: Time) {
        let done = match &mut self.pace {
            Pace::Instant => self.left,
            Pace::Constant { rate, .. } => {
                let work = now.since(self.at).as_nanos() * u128::from(rate.bytes_per_sec());
                u64::try_from(work).unwrap_or(u64::MAX)
            }
            Pace::Recorded(playback) => playback.work_until(now),
        };
        self.left = self.left.saturating_sub(done);
        self.at = now;
        self.pace = Pace::new(capacity, now);
        self.finish = self.pace.finish_time(now, self.left);
    }

    /// Forgets the packet being serialised at `now`.
    pub(super) fn abort(&mut self, now: Time) {
        self.left = 0;
        self.at = now;
        if let Pace::Constant { credit, .. } = &mut self.pace {
            *credit = 0;
        }
    }
}

impl Pace {
    fn new(capacity: &Capacity, now: Time) -> Self {
        match capacity {
            Capacity::Unlimited => Pace::Instant,
            Capacity::Rate(rate) => Pace::Constant { rate: *rate, credit: 0 },
            Capacity::Trace { trace, offset } => {
                Pace::Recorded(Playback::new(Arc::clone(trace), *offset, now))
            }
        }
    }

    /// When `left` nano-bytes started at `at` are finished.
    fn finish_time(&self, at: Time, left: u64) -> Time {
        match self {
            Pace::Instant => at,
            Pace::Constant { rate, .. } if *rate == Rate::ZERO => Time::FAR_FUTURE,
            Pace::Constant { rate, .. } => {
                at + Duration::from_nanos(left.div_ceil(rate.bytes_per_sec()))
            }
            Pace::Recorded(playback) => playback.finish_time(at, left),
        }
    }
}

/// Playback of a trace.
#[derive(Debug)]
struct Playback {
    trace: Arc<Trace>,
    /// The position in the trace that corresponds to `started`.
    offset: Duration,
    started: Time,
    /// The first opportunity not yet begun.
    next: u64,
    /// The rest of the previous one, while its instant lasts.
    budget: u64,
}

impl Playback {
    fn new(trace: Arc<Trace>, offset: Duration, now: Time) -> Self {
        let next = trace.first_at(offset);
        Playback { trace, offset, started: now, next, budget: 0 }
    }

    /// Skips opportunities before `now`, which found nothing to send.
    fn skip_to(&mut self, now: Time) {
        self.budget = 0;
        self.next = self.next.max(self.trace.first_at(self.position(now)));
    }

    fn finish_time(&self, at: Time, work: u64) -> Time {
        match self.needed(work) {
            0 => at,
            needed => self.time_of(self.next + needed - 1).max(at),
        }
    }

    fn take(&mut self, work: u64) {
        let needed = self.needed(work);
        self.next += needed;
        self.budget = (self.budget + needed * OPPORTUNITY).saturating_sub(work);
    }

    /// The part already sent of a packet that isn't finished at `now`.
    fn work_until(&self, now: Time) -> u64 {
        let after = self.trace.first_at(self.position(now) + Duration::from_nanos(1));
        self.budget + after.saturating_sub(self.next).saturating_mul(OPPORTUNITY)
    }

    /// How many further opportunities `work` needs.
    fn needed(&self, work: u64) -> u64 {
        work.saturating_sub(self.budget).div_ceil(OPPORTUNITY)
    }

    fn position(&self, now: Time) -> Duration {
        self.offset + now.since(self.started)
    }

    fn time_of(&self, index: u64) -> Time {
        self.started + self.trace.time_of(index).saturating_sub(self.offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finishes(serializer: &mut Serializer, start: Time, sizes: &[u32]) -> Vec<u64> {
        let mut at = start;
        sizes
            .iter()
            .map(|&bytes| {
                serializer.start(at, bytes);
                at = serializer.finish_time();
                serializer.finish();
                at.as_micros()
            })
            .collect()
    }

    fn trace(millis: &[u32]) -> Capacity {
        let trace = Arc::new(Trace::from_millis(millis.to_vec()).unwrap());
        Capacity::Trace { trace, offset: Duration::ZERO }
    }

    #[test]
    fn rounding_does_not_add_up() {
        // 7 bytes per second: a packet of 1 byte takes 142857142.857 ns.
        let capacity = Capacity::Rate(Rate::from_bytes_per_sec(7));
        let mut serializer = Serializer::new(&capacity, Time::ZERO);
        let last = *finishes(&mut serializer, Time::ZERO, &[1; 7000]).last().unwrap();
        assert_eq!(last, 1_000_000_000);
    }

    #[test]
    fn a_rate_change_in_the_middle_of_a_packet_is_exact() {
        let mut serializer =
            Serializer::new(&Capacity::Rate(Rate::from_bytes_per_sec(1_000_000)), Time::ZERO);
        serializer.start(Time::ZERO, 1000);
        // 0.4 ms at 1 MB/s, then 600 bytes at 0.5 MB/s.
        serializer.set(&Capacity::Rate(Rate::from_bytes_per_sec(500_000)), Time::from_micros(400));
        assert_eq!(serializer.finish_time(), Time::from_micros(1600));
        // At rate zero it never ends; afterwards it continues where it was.
        serializer.set(&Capacity::Rate(Rate::ZERO), Time::from_micros(600));
        assert_eq!(serializer.finish_time(), Time::FAR_FUTURE);
        serializer.set(&trace(&[2, 3]), Time::from_micros(1000));
        assert_eq!(serializer.finish_time(), Time::from_millis(3));
    }

    #[test]
    fn small_packets_share_an_opportunity_and_large_ones_span_several() {
        let mut serializer = Serializer::new(&trace(&[1, 2, 3, 3, 10]), Time::ZERO);
        let sizes = [500, 1000, 1000, 1000, 1000, 1500, 4000];
        assert_eq!(
            finishes(&mut serializer, Time::ZERO, &sizes),
            [1000, 1000, 2000, 3000, 3000, 3000, 12_000]
        );
    }

    #[test]
    fn an_idle_link_loses_its_opportunities() {
        let mut serializer = Serializer::new(&trace(&[1, 2, 3, 3, 10]), Time::ZERO);
        assert_eq!(finishes(&mut serializer, Time::ZERO, &[100]), [1000]);
        // The rest of opportunity 1 and the one at 2 ms are gone.
        assert_eq!(finishes(&mut serializer, Time::from_micros(2001), &[1500]), [3000]);
        assert_eq!(finishes(&mut serializer, Time::from_millis(9), &[1500]), [10_000]);
    }

    #[test]
    fn a_change_to_and_from_a_trace_keeps_the_work_done() {
        let mut serializer = Serializer::new(&trace(&[1, 2, 10]), Time::ZERO);
        serializer.start(Time::ZERO, 4500);
        let rate = Capacity::Rate(Rate::from_bytes_per_sec(1_000_000));
        serializer.set(&rate, Time::from_millis(5));
        assert_eq!(serializer.finish_time(), Time::from_micros(6500));
    }
}
