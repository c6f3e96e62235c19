use crate::bucket::{Bucket, Sample};
use crate::level::Level;
use crate::series::Series;
use std::collections::{BTreeMap, VecDeque};

/// Adds up samples: seconds for an hour, and sums of ten seconds that are yet to be written. Its
/// memory is bounded.
#[derive(Debug, Default)]
pub struct RollUp {
    seconds: BTreeMap<Series, VecDeque<(i64, Bucket)>>,
    /// By start and series. The latest may still grow.
    unwritten: BTreeMap<(i64, Series), Bucket>,
    lost: u64,
}

/// Maximum number of series with seconds: each takes 3600 × 64 bytes, allocated for 4096.
const MOST_WITH_SECONDS: usize = 32;
/// Maximum number of sums that wait for a disk; some 100 bytes each.
const MOST_UNWRITTEN: usize = 40_000;

impl RollUp {
    /// An empty one.
    pub fn new() -> RollUp {
        RollUp::default()
    }

    /// Adds a second of a series. A clock that was set back is harmless: sums of the same time are
    /// added up.
    pub fn add(&mut self, unix: i64, series: &Series, sample: Sample) {
        let bucket = Bucket::from(sample);
        self.add_second(unix, series, bucket);
        let key = (Level::TenSeconds.start(unix), series.clone());
        self.unwritten.entry(key).or_default().add(&bucket);
        while self.unwritten.len() > MOST_UNWRITTEN {
            self.unwritten.pop_first();
            self.lost += 1;
        }
    }

    /// Takes out the sums to write: all that begin before `before`.
    pub fn take(&mut self, before: i64) -> Vec<(i64, Series, Bucket)> {
        let later = self.unwritten.split_off(&(before, Series::Tunnel));
        let taken = std::mem::replace(&mut self.unwritten, later);
        taken.into_iter().map(|((start, series), bucket)| (start, series, bucket)).collect()
    }

    /// Takes back sums that couldn't be written.
    pub fn put_back(&mut self, rows: &[(i64, Series, Bucket)]) {
        for (start, series, bucket) in rows {
            self.unwritten.entry((*start, series.clone())).or_default().add(bucket);
        }
    }

    /// Seconds of a series from `from` until before `to`.
    pub fn seconds(&self, series: &Series, from: i64, to: i64) -> Vec<(i64, Bucket)> {
        let all = self.seconds.get(series).into_iter().flatten();
        all.filter(|(at, _)| (from..to).contains(at)).copied().collect()
    }

    /// A series' unwritten data, added up by `level`.
    pub fn unwritten(
        &self,
        series: &Series,
        level: Level,
        from: i64,
        to: i64,
    ) -> Vec<(i64, Bucket)> {
        let mut sums: BTreeMap<i64, Bucket> = BTreeMap::new();
        for ((start, of), bucket) in &self.unwritten {
            let start = level.start(*start);
            if of == series && (from..to).contains(&start) {
                sums.entry(start).or_default().add(bucket);
            }
        }
        sums.into_iter().collect()
    }

    /// All series that have data here.
    pub fn series(&self) -> Vec<Series> {
        let mut all: Vec<Series> =
            self.unwritten.keys().map(|(_, series)| series.clone()).collect();
        all.extend(self.seconds.keys().cloned());
        all.sort();
        all.dedup();
        all
    }

    /// Sums lost because nothing could be written for a long time.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Number of unwritten sums.
    pub fn waiting(&self) -> usize {
        self.unwritten.len()
    }

    fn add_second(&mut self, unix: i64, series: &Series, bucket: Bucket) {
        // Devices come and go, and would take the links' places.
        if matches!(series, Series::Device(_)) {
            return;
        }
        let full = self.seconds.len() >= MOST_WITH_SECONDS;
        if full && !self.seconds.contains_key(series) {
            // A series without recent data makes room.
            self.seconds.retain(|_, kept| kept.back().is_some_and(|(at, _)| unix - at < 3600));
            if self.seconds.len() >= MOST_WITH_SECONDS {
                return;
            }
        }
        let seconds = self.seconds.entry(series.clone()).or_default();
        // After a clock was set back, its former future would be drawn over the present.
        while seconds.back().is_some_and(|(at, _)| *at > unix) {
            seconds.pop_back();
        }
        match seconds.back_mut() {
            Some((at, known)) if *at == unix => known.add(&bucket),
            _ => seconds.push_back((unix, bucket)),
        }
        while seconds.front().is_some_and(|(at, _)| unix - at >= Level::Second.kept()) {
            seconds.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample(rx_bytes: u64) -> Sample {
        Sample { up: true, rx_bytes, sent: 10, lost: 1, rtt_us: Some(20_000), ..Sample::default() }
    }

    #[test]
    fn what_was_taken_is_taken_once_and_comes_back_when_it_could_not_be_written() {
        let (mut roll_up, link) = (RollUp::new(), Series::Link("dsl".into()));
        for second in 0..25 {
            roll_up.add(1000 + second, &link, sample(1));
        }
        let rows = roll_up.take(1020);
        let sums: Vec<(i64, u64)> = rows.iter().map(|(at, _, b)| (*at, b.rx_bytes)).collect();
        assert_eq!(sums, [(1000, 10), (1010, 10)]);
        assert_eq!(roll_up.take(1020), []);
        roll_up.put_back(&rows);
        roll_up.add(1025, &link, sample(1));
        let minutes = roll_up.unwritten(&link, Level::Minute, 0, 2000);
        assert_eq!(
            minutes.iter().map(|(at, b)| (*at, b.seconds)).collect::<Vec<_>>(),
            [(960, 20), (1020, 6)]
        );
    }

    #[test]
    fn it_is_bounded_when_nothing_is_ever_written() {
        let mut roll_up = RollUp::new();
        for second in 0..50_000 {
            for link in 0..3 {
                roll_up.add(second * 10, &Series::Link(link.to_string()), sample(1));
            }
        }
        assert_eq!(roll_up.waiting(), MOST_UNWRITTEN);
        assert_eq!(roll_up.lost() as usize, 150_000 - MOST_UNWRITTEN);
        assert_eq!(roll_up.seconds(&Series::Link("0".into()), 0, i64::MAX).len(), 360);
        roll_up.add(500_000, &Series::Device("tablet".into()), sample(1));
        assert_eq!(roll_up.seconds(&Series::Device("tablet".into()), 0, i64::MAX), []);
        for home in 0..1000 {
            roll_up.add(500_000, &Series::Peer(home.to_string()), sample(1));
        }
        assert_eq!(roll_up.seconds.len(), MOST_WITH_SECONDS);
    }

    /// A daemon's memory grows in its first hour, and not after that.
    #[test]
    fn seconds_take_no_more_after_an_hour_than_at_its_end() {
        let (mut roll_up, link) = (RollUp::new(), Series::Link("dsl".into()));
        let mut taken = Vec::new();
        for second in 0..3 * 3600 {
            roll_up.add(second, &link, sample(1));
            if (second + 1) % 3600 == 0 {
                taken.push((roll_up.seconds[&link].len(), roll_up.seconds[&link].capacity()));
            }
        }
        assert_eq!(taken, [(3600, 4096); 3]);
    }

    proptest! {
        /// Whatever the clock does, nothing is lost or counted twice.
        #[test]
        fn all_that_came_is_in_the_sums(
            jumps in proptest::collection::vec(-500i64..500, 1..300),
            writes in proptest::collection::vec(any::<bool>(), 300),
        ) {
            let (mut roll_up, mut now) = (RollUp::new(), 1_000_000);
            let mut written = 0;
            for (jump, write) in jumps.iter().zip(&writes) {
                now += jump;
                roll_up.add(now, &Series::Tunnel, sample(1));
                if *write {
                    written += roll_up.take(now).iter().map(|(.., b)| b.rx_bytes).sum::<u64>();
                }
            }
            written += roll_up.take(i64::MAX).iter().map(|(.., b)| b.rx_bytes).sum::<u64>();
            prop_assert_eq!(written, jumps.len() as u64);
            let seconds = roll_up.seconds(&Series::Tunnel, i64::MIN, i64::MAX);
            prop_assert!(seconds.is_sorted_by_key(|(at, _)| *at));
        }
    }
}
