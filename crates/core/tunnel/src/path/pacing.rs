//! Spreads a path's datagrams over time.

use braid_units::{Rate, Time};
use std::time::Duration;

/// How far behind schedule the pacer may catch up: a late timer must not cost
/// throughput, a burst must not fill the modem's buffer. Ours; not measured apart.
const CATCH_UP: Duration = Duration::from_millis(4);
/// A slow path may catch up two full packets, in bytes, but no more than this: one alone would
/// make it wait for each timer. Ours; not measured apart.
const CATCH_UP_BYTES: u64 = 2 * 1500;
const CATCH_UP_MOST: Duration = Duration::from_millis(20);
/// Datagrams may leave this much before their time, so that fast paths send
/// several by one system call. Ours (docs/experiments/line-speed.md).
const AHEAD: Duration = Duration::from_micros(500);
/// Once that is used up, datagrams of so long a time are let go together, if that
/// is several: one at a time they would cost a wake-up and a system call each.
const GATHERED: Duration = Duration::from_micros(250);

/// When a path may send next.
#[derive(Debug, Default)]
pub struct Pacer {
    next: Time,
    /// All that may leave early has left.
    spent: bool,
}

impl Pacer {
    /// When the next datagram may leave.
    pub fn release_at(&self) -> Time {
        match self.spent {
            true => self.next.saturating_sub(AHEAD - GATHERED),
            false => self.free_at(),
        }
    }

    /// When there is room for it, though it may have to wait for others to go
    /// along with.
    pub fn free_at(&self) -> Time {
        self.next.saturating_sub(AHEAD)
    }

    /// More could have been sent by now.
    pub fn is_behind(&self, now: Time) -> bool {
        self.next + CATCH_UP < now
    }

    /// `bytes` left at `now`, at `rate`.
    pub fn on_sent(&mut self, bytes: u64, rate: Rate, now: Time) {
        if self.is_behind(now) {
            let catch_up = CATCH_UP.max(rate.time_for(CATCH_UP_BYTES).min(CATCH_UP_MOST));
            self.next = self.next.max(now.saturating_sub(catch_up));
        }
        let time = rate.time_for(bytes);
        if self.spent {
            self.spent = now < self.release_at();
        }
        self.next += time;
        if now < self.free_at() && time <= GATHERED / 2 {
            self.spent = true;
        }
    }

    /// The rate fell: don't wait for what was scheduled at the old one, nor
    /// longer than `limit`.
    pub fn clamp(&mut self, now: Time, limit: Duration) {
        self.next = self.next.min(now + limit);
    }
}
