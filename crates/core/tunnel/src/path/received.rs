//! What has arrived by a path, and when it must be acknowledged.

use braid_units::Time;
use braid_wire::{AckWriter, MAX_ACK_RANGES, MAX_ARRIVALS};
use std::collections::VecDeque;
use std::time::Duration;

/// An acknowledgement repeats what the last ones said, so that the loss of a
/// few of them loses nothing. Ours; not measured apart.
const REPEATS: usize = 8;
/// After this many packets an acknowledgement doesn't wait for the interval. Ours.
const MAX_UNACKNOWLEDGED: u32 = 256;
/// A gap is reported with this packet behind it: the sender takes none for lost
/// before (RFC 9002, section 6.1.1), and would have to wait for the report after.
const GAP_TELLING: u64 = 3;
/// Gaps are reported at once, but not more often than this: under heavy loss
/// every packet would be followed by an acknowledgement. Ours; not measured apart.
const GAP_REPORT_SPACING: Duration = Duration::from_millis(3);

/// Of an acknowledgement, bytes: its fixed part at most, and each range (two numbers) or arrival
/// (two numbers and, in practice, less).
const FIXED_PART: usize = 22;
const EACH_PART: usize = 8;
/// Arrivals kept, as a multiple of those of a report, before they are thinned out.
const ARRIVALS_KEPT: usize = 4 * MAX_ARRIVALS;

/// The receiving half of a path's packet number space.
#[derive(Debug, Default)]
pub struct ReceivedPackets {
    /// Disjoint, newest first.
    ranges: VecDeque<(u64, u64)>,
    largest_at: Time,
    arrivals: Vec<(u64, Time)>,
    /// Take every n-th arrival time only, so that those of one report fit.
    arrival_stride: u64,
    /// `largest` of the last reports.
    reported: VecDeque<u64>,
    unacknowledged: u32,
    oldest_unacknowledged_at: Option<Time>,
    /// There is a gap, and so far must the numbers have come.
    gap_tells_at: Option<u64>,
    last_report_at: Time,
    received: u64,
    /// What there is to report is in a datagram, of which a copy may follow.
    written: bool,
    scratch_ranges: Vec<(u64, u64)>,
    scratch_arrivals: Vec<(u64, u32)>,
}

impl ReceivedPackets {
    /// As if `largest` had been received, and nobody asked for more news of it.
    pub fn up_to(largest: u64) -> Self {
        Self { ranges: VecDeque::from([(largest, largest)]), ..Self::default() }
    }

    /// Notes a packet that authenticated and wasn't a replay. `eliciting`: it
    /// wants to be acknowledged.
    pub fn on_packet(&mut self, number: u64, now: Time, eliciting: bool) {
        self.received += 1;
        let largest = self.largest();
        if largest.is_none_or(|l| number > l) {
            if largest.is_some_and(|l| number > l + 1) && eliciting {
                self.gap_tells_at.get_or_insert(number + GAP_TELLING - 1);
            }
            self.largest_at = now;
            if number.is_multiple_of(self.arrival_stride.max(1)) {
                self.note_arrival(number, now);
            }
        }
        self.insert(number);
        if eliciting {
            self.unacknowledged += 1;
            self.oldest_unacknowledged_at.get_or_insert(now);
        }
    }

    /// The largest packet number so far.
    pub fn largest(&self) -> Option<u64> {
        self.ranges.front().map(|r| r.1)
    }

    /// Gives back the memory that isn't in use.
    pub fn rest(&mut self) {
        self.ranges.shrink_to_fit();
        self.arrivals.shrink_to_fit();
        self.scratch_ranges = Vec::new();
        self.scratch_arrivals = Vec::new();
    }

    /// Packets received so far.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// When a report is due at the latest, given the feedback `interval`.
    pub fn report_at(&self, interval: Duration) -> Option<Time> {
        let oldest = self.oldest_unacknowledged_at?;
        if self.unacknowledged >= MAX_UNACKNOWLEDGED {
            return Some(oldest);
        }
        if self.tells_gap() {
            return Some((self.last_report_at + GAP_REPORT_SPACING).max(oldest));
        }
        Some(oldest + interval)
    }

    /// Something is waiting to be acknowledged.
    pub fn has_news(&self) -> bool {
        self.oldest_unacknowledged_at.is_some()
    }

    /// It tells of a loss, or of much.
    pub fn is_urgent(&self) -> bool {
        self.has_news() && (self.tells_gap() || self.unacknowledged >= MAX_UNACKNOWLEDGED)
    }

    fn tells_gap(&self) -> bool {
        self.gap_tells_at.is_some_and(|at| self.largest() >= Some(at))
    }

    /// It may go with a datagram that goes anyway: half the `interval` has passed since the last
    /// report. With all of it paths are taken for silent more often (docs/design/018).
    pub fn may_ride(&self, interval: Duration, now: Time) -> bool {
        self.has_news() && now >= self.last_report_at + interval / 2
    }

    /// A report was written since the last one that was sent.
    pub fn is_written(&self) -> bool {
        self.written
    }

    /// Appends the acknowledgement of `path` to a datagram's plaintext. Nothing
    /// is appended when nothing was received or when it could exceed `room`.
    pub fn write_report(&mut self, path: u8, now: Time, room: usize, out: &mut Vec<u8>) -> bool {
        let Some(largest) = self.largest() else { return false };
        let fits = room.saturating_sub(FIXED_PART) / EACH_PART;
        if fits == 0 {
            return false;
        }
        self.scratch_ranges.clear();
        let floor = self.reported.front().copied().unwrap_or(0);
        for &(low, high) in self.ranges.iter().take(fits.min(MAX_ACK_RANGES)) {
            if high < floor {
                break;
            }
            self.scratch_ranges.push((low, high));
        }
        // What is below the floor was reported often enough: leave it out.
        if let Some(oldest) = self.scratch_ranges.last_mut() {
            oldest.0 = oldest.0.max(floor.min(oldest.1));
        }
        let left = fits - self.scratch_ranges.len();
        self.scratch_arrivals.clear();
        let at = self.largest_at;
        self.scratch_arrivals.extend(
            self.arrivals
                .iter()
                .rev()
                .take(left.min(MAX_ARRIVALS))
                .filter(|(number, _)| *number < largest)
                .map(|&(number, t)| (number, micros(at - t))),
        );
        AckWriter {
            path,
            largest,
            largest_received_us: at.as_micros() as u32,
            delay_us: micros(now - at),
            ranges: &self.scratch_ranges,
            arrivals: &self.scratch_arrivals,
        }
        .write(out);
        self.written = true;
        true
    }

    /// The report was sent (by all the paths that it should go by).
    pub fn on_reported(&mut self, now: Time) {
        self.written = false;
        if let Some(largest) = self.largest() {
            self.reported.push_back(largest);
            if self.reported.len() > REPEATS {
                self.reported.pop_front();
            }
        }
        let per_report = self.arrivals.len() as u64 * self.arrival_stride.max(1);
        self.arrival_stride = (per_report / MAX_ARRIVALS as u64).max(1);
        self.arrivals.clear();
        self.unacknowledged = 0;
        self.oldest_unacknowledged_at = None;
        self.gap_tells_at = self.gap_tells_at.filter(|&at| Some(at) > self.largest());
        self.last_report_at = now;
        if let Some(&floor) = self.reported.front() {
            while self.ranges.len() > 1 && self.ranges.back().is_some_and(|r| r.1 < floor) {
                self.ranges.pop_back();
            }
        }
    }

    fn note_arrival(&mut self, number: u64, now: Time) {
        if self.arrivals.len() >= ARRIVALS_KEPT {
            // Faster than foreseen: thin out.
            let mut keep = false;
            self.arrivals.retain(|_| {
                keep = !keep;
                keep
            });
            self.arrival_stride = self.arrival_stride.max(1) * 2;
        }
        self.arrivals.push((number, now));
    }

    fn insert(&mut self, number: u64) {
        // Nearly always the newest range is extended.
        for i in 0..self.ranges.len() {
            let (low, high) = self.ranges[i];
            if number > high + 1 {
                self.ranges.insert(i, (number, number));
                self.bound();
                return;
            }
            if number == high + 1 {
                self.ranges[i].1 = number;
                if i > 0 && self.ranges[i - 1].0 == number + 1 {
                    self.ranges[i].1 = self.ranges[i - 1].1;
                    self.ranges.remove(i - 1);
                }
                return;
            }
            if number >= low {
                return;
            }
            if number + 1 == low {
                self.ranges[i].0 = number;
                if let Some(&(older_low, older_high)) = self.ranges.get(i + 1)
                    && older_high + 1 == number
                {
                    self.ranges[i].0 = older_low;
                    self.ranges.remove(i + 1);
                }
                return;
            }
        }
        self.ranges.push_back((number, number));
        self.bound();
    }

    fn bound(&mut self) {
        self.ranges.truncate(2 * MAX_ACK_RANGES);
    }
}

fn micros(duration: Duration) -> u32 {
    u32::try_from(duration.as_micros()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use braid_wire::{Frame, Frames};

    fn reported(received: &mut ReceivedPackets, now: Time) -> Vec<(u64, u64)> {
        let mut out = Vec::new();
        assert!(received.write_report(3, now, 1200, &mut out));
        received.on_reported(now);
        match Frames::new(&out).next() {
            Some(Ok(Frame::Ack(ack))) => ack.ranges(u64::from(ack.largest)).collect(),
            other => panic!("not an acknowledgement: {other:?}"),
        }
    }

    #[test]
    fn ranges_merge_in_any_order() {
        let mut r = ReceivedPackets::default();
        for n in [5, 7, 6, 1, 0, 3] {
            r.on_packet(n, Time::from_millis(n), true);
        }
        assert_eq!(reported(&mut r, Time::from_millis(9)), [(5, 7), (3, 3), (0, 1)]);
    }

    #[test]
    fn a_gap_is_reported_with_three_packets_behind_it_and_the_rest_after_the_interval() {
        let interval = Duration::from_millis(20);
        let mut r = ReceivedPackets::default();
        r.on_packet(0, Time::from_millis(100), true);
        assert_eq!(r.report_at(interval), Some(Time::from_millis(120)));
        r.on_packet(2, Time::from_millis(101), true);
        r.on_packet(3, Time::from_millis(102), true);
        assert_eq!(r.report_at(interval), Some(Time::from_millis(120)));
        r.on_packet(4, Time::from_millis(103), true);
        assert!(r.report_at(interval) <= Some(Time::from_millis(103)));
        // Reported once, then again after the interval.
        assert_eq!(reported(&mut r, Time::from_millis(103)), [(2, 4), (0, 0)]);
        r.on_packet(5, Time::from_millis(104), true);
        assert_eq!(r.report_at(interval), Some(Time::from_millis(124)));
    }

    #[test]
    fn acknowledgements_alone_are_not_acknowledged() {
        let mut r = ReceivedPackets::default();
        r.on_packet(0, Time::from_millis(1), false);
        assert_eq!(r.report_at(Duration::ZERO), None);
    }

    #[test]
    fn what_was_reported_often_is_dropped() {
        let mut r = ReceivedPackets::default();
        for n in 0..100 {
            r.on_packet(n * 2, Time::from_millis(n), true);
            reported(&mut r, Time::from_millis(n));
        }
        assert!(r.ranges.len() <= REPEATS + 1, "{}", r.ranges.len());
    }
}
