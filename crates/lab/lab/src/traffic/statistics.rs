//! Statistics of arrivals: bins, stalls, percentiles, losses.

use std::time::{Duration, Instant};

/// Width of the bins in which receivers count bytes.
pub const BIN: Duration = Duration::from_millis(10);

/// Bytes delivered to the application per [`BIN`] since the traffic's start.
/// Bytes before the start or after the stop are not counted.
#[derive(Clone, Debug)]
pub struct Bins {
    start: Instant,
    stop: Instant,
    bytes: Vec<u64>,
}

impl Bins {
    /// Empty bins from `start` to `stop`.
    pub fn new(start: Instant, stop: Instant) -> Self {
        let length = stop.saturating_duration_since(start);
        let count = length.as_nanos().div_ceil(BIN.as_nanos());
        Bins { start, stop, bytes: vec![0; usize::try_from(count).unwrap_or(0)] }
    }

    /// Counts `bytes` that arrived at `now`.
    pub fn add(&mut self, now: Instant, bytes: u64) {
        if now < self.start || now >= self.stop {
            return;
        }
        let index = now.duration_since(self.start).as_nanos() / BIN.as_nanos();
        if let Some(bin) = usize::try_from(index).ok().and_then(|i| self.bytes.get_mut(i)) {
            *bin += bytes;
        }
    }

    /// Adds the counts of `other`, which has the same start.
    pub fn merge(&mut self, other: &Bins) {
        for (mine, theirs) in self.bytes.iter_mut().zip(&other.bytes) {
            *mine += theirs;
        }
    }

    /// All bytes counted.
    pub fn total(&self) -> u64 {
        self.bytes.iter().sum()
    }

    /// Megabits per second over the whole time.
    pub fn mean_mbps(&self) -> f64 {
        let seconds = self.stop.saturating_duration_since(self.start).as_secs_f64();
        if seconds > 0.0 { self.total() as f64 * 8.0 / 1e6 / seconds } else { 0.0 }
    }

    /// `(time since the start in s, Mbit/s)` in steps of `bins` bins; the time is a step's
    /// beginning.
    pub fn series(&self, bins: usize) -> Vec<(f64, f64)> {
        let width = bins.max(1);
        self.bytes
            .chunks(width)
            .enumerate()
            .map(|(i, chunk)| {
                let seconds = BIN.as_secs_f64() * chunk.len() as f64;
                let mbps = chunk.iter().sum::<u64>() as f64 * 8.0 / 1e6 / seconds;
                (BIN.as_secs_f64() * (i * width) as f64, mbps)
            })
            .collect()
    }
}

/// The longest time in which nothing new arrived, between the first arrival
/// and the end.
#[derive(Clone, Copy, Debug, Default)]
pub struct StallClock {
    last: Option<Instant>,
    longest: Duration,
}

impl StallClock {
    /// Something new arrived at `now`.
    pub fn arrival(&mut self, now: Instant) {
        if let Some(last) = self.last {
            self.longest = self.longest.max(now.saturating_duration_since(last));
        }
        self.last = Some(now);
    }

    /// The longest gap up to `end`; `None` if nothing ever arrived.
    pub fn longest_until(&self, end: Instant) -> Option<Duration> {
        let last = self.last?;
        Some(self.longest.max(end.saturating_duration_since(last)))
    }
}

/// A distribution's nearest-rank percentiles.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Percentiles {
    /// Half of the samples are at most this.
    pub p50: f64,
    /// 95 % of the samples are at most this.
    pub p95: f64,
    /// 99 % of the samples are at most this.
    pub p99: f64,
    /// The largest sample.
    pub max: f64,
}

impl Percentiles {
    /// The percentiles of `samples` in any order; `None` without samples. NaN is ignored.
    pub fn of(samples: &[f64]) -> Option<Self> {
        let mut sorted: Vec<f64> = samples.iter().copied().filter(|s| !s.is_nan()).collect();
        sorted.sort_by(f64::total_cmp);
        let rank = |share: f64| {
            let rank = (share * sorted.len() as f64).ceil().max(1.0) as usize;
            sorted.get(rank - 1).copied()
        };
        Some(Percentiles {
            p50: rank(0.50)?,
            p95: rank(0.95)?,
            p99: rank(0.99)?,
            max: sorted.last().copied()?,
        })
    }
}

/// The middle of `values`, the mean of both middles for an even count;
/// `None` without values.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|v| !v.is_nan()).collect();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle)?;
    if sorted.len() % 2 == 1 {
        return Some(upper);
    }
    Some((sorted.get(middle - 1)? + upper) / 2.0)
}

/// Analyses a stream of datagrams by its sequence numbers.
#[derive(Clone, Debug, Default)]
pub struct SequenceLog {
    seen: Vec<u64>,
    highest: Option<u64>,
    received: u64,
    duplicates: u64,
    reordered: u64,
}

/// Sequence numbers from here on are not remembered (16 MB of bitmap).
const MOST_NUMBERS: u64 = 1 << 27;

impl SequenceLog {
    /// Records that datagram `number` arrived; returns whether it is new.
    pub fn arrival(&mut self, number: u64) -> bool {
        if number >= MOST_NUMBERS {
            return false;
        }
        let (word, bit) = ((number / 64) as usize, 1u64 << (number % 64));
        if self.seen.len() <= word {
            self.seen.resize(word + 1, 0);
        }
        let Some(slot) = self.seen.get_mut(word) else { return false };
        if *slot & bit != 0 {
            self.duplicates += 1;
            return false;
        }
        *slot |= bit;
        self.received += 1;
        match self.highest {
            Some(highest) if number < highest => self.reordered += 1,
            _ => self.highest = Some(number),
        }
        true
    }

    /// Number of distinct datagrams that arrived.
    pub fn received(&self) -> u64 {
        self.received
    }
    /// Number of datagrams that arrived again.
    pub fn duplicates(&self) -> u64 {
        self.duplicates
    }
    /// Number of datagrams that arrived after one with a higher number.
    pub fn reordered(&self) -> u64 {
        self.reordered
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn percentiles_split_the_samples(samples in prop::collection::vec(0.0f64..1e6, 1..200)) {
            let found = Percentiles::of(&samples).unwrap();
            for (share, value) in [(0.5, found.p50), (0.95, found.p95), (0.99, found.p99)] {
                prop_assert!(samples.contains(&value));
                let at_most = samples.iter().filter(|s| **s <= value).count() as f64;
                let below = samples.iter().filter(|s| **s < value).count() as f64;
                prop_assert!(at_most >= share * samples.len() as f64);
                prop_assert!(below < share * samples.len() as f64);
            }
            prop_assert_eq!(found.max, samples.iter().copied().fold(0.0, f64::max));
        }

        #[test]
        fn the_stall_clock_finds_the_longest_gap(gaps in prop::collection::vec(0u64..5_000, 0..50),
                                                 tail in 0u64..5_000) {
            let origin = Instant::now();
            let mut clock = StallClock::default();
            prop_assert_eq!(clock.longest_until(origin), None);
            let mut now = origin + Duration::from_secs(1);
            clock.arrival(now);
            for gap in &gaps {
                now += Duration::from_millis(*gap);
                clock.arrival(now);
            }
            let naive = gaps.iter().copied().chain([tail]).max().unwrap();
            let end = now + Duration::from_millis(tail);
            prop_assert_eq!(clock.longest_until(end), Some(Duration::from_millis(naive)));
        }

        #[test]
        fn the_sequence_log_counts_as_a_set_does(numbers in prop::collection::vec(0u64..300, 0..400)) {
            let mut log = SequenceLog::default();
            let mut set = BTreeSet::new();
            let (mut duplicates, mut reordered) = (0, 0);
            for &number in &numbers {
                let late = set.last().is_some_and(|highest| number < *highest);
                let new = set.insert(number);
                duplicates += u64::from(!new);
                reordered += u64::from(new && late);
                prop_assert_eq!(log.arrival(number), new);
            }
            prop_assert_eq!(log.received(), set.len() as u64);
            prop_assert_eq!(log.duplicates(), duplicates);
            prop_assert_eq!(log.reordered(), reordered);
        }

        #[test]
        fn bins_keep_every_byte_of_the_window(at in prop::collection::vec((0u64..3_000, 1u64..9_000), 0..80)) {
            let start = Instant::now() + Duration::from_secs(1);
            let stop = start + Duration::from_millis(1_995);
            let mut bins = Bins::new(start, stop);
            for &(ms, bytes) in &at {
                bins.add(start - Duration::from_millis(500) + Duration::from_millis(ms), bytes);
            }
            let inside: u64 = at.iter().filter(|(ms, _)| (500..2_495).contains(ms)).map(|(_, b)| b).sum();
            prop_assert_eq!(bins.total(), inside);
            let drawn: f64 = bins.series(10).iter().map(|(_, mbps)| mbps * 0.1).sum();
            prop_assert!((drawn * 1e6 / 8.0 - inside as f64).abs() <= 0.1 + inside as f64 * 1e-6);
        }
    }

    #[test]
    fn medians_of_few_values() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0]), Some(2.5));
        assert_eq!(Percentiles::of(&[]), None);
    }
}
