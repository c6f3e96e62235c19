//! CoDel (RFC 8289): drops or marks when packets have waited too long for too
//! long.

use braid_units::Time;
use std::time::Duration;

/// A queue of no more than this, bytes, is not too long: one packet (RFC 8289, section 4.2,
/// `MTU`).
const ONE_PACKET: u64 = 1514;
/// Since a queue was last controlled, so many intervals may have passed for what controlled it
/// to hold still (section 5.4).
const RECENT_INTERVALS: u32 = 16;

/// What to do with the packet at the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// Send it.
    Pass,
    /// Signal congestion by it: mark it, or else drop.
    Signal,
}

/// The state of one flow's queue.
#[derive(Clone, Debug, Default)]
pub struct CoDel {
    first_above: Option<Time>,
    dropping: bool,
    drop_next: Time,
    count: u32,
    last_count: u32,
}

impl CoDel {
    /// Judges the packet that is about to leave at `now` after waiting for
    /// `sojourn`; `backlog` is what the flow has left in bytes. `target` and
    /// `interval` as in RFC 8289, section 4.2.
    pub fn judge(
        &mut self,
        now: Time,
        sojourn: Duration,
        backlog: u64,
        target: Duration,
        interval: Duration,
    ) -> Judgement {
        let above = self.above_for_an_interval(now, sojourn, backlog, target, interval);
        if self.dropping {
            if !above {
                self.dropping = false;
                return Judgement::Pass;
            }
            if now >= self.drop_next {
                self.count += 1;
                self.drop_next += self.spacing(interval);
                return Judgement::Signal;
            }
            return Judgement::Pass;
        }
        if !above {
            return Judgement::Pass;
        }
        self.dropping = true;
        // Section 5.4: resume near the rate that controlled the queue last time.
        let delta = self.count.saturating_sub(self.last_count);
        let recent = now - self.drop_next < interval * RECENT_INTERVALS;
        self.count = if recent && delta > 1 { delta } else { 1 };
        self.last_count = self.count;
        self.drop_next = now + self.spacing(interval);
        Judgement::Signal
    }

    fn above_for_an_interval(
        &mut self,
        now: Time,
        sojourn: Duration,
        backlog: u64,
        target: Duration,
        interval: Duration,
    ) -> bool {
        if sojourn < target || backlog <= ONE_PACKET {
            self.first_above = None;
            return false;
        }
        match self.first_above {
            None => {
                self.first_above = Some(now + interval);
                false
            }
            Some(at) => now >= at,
        }
    }

    /// interval / sqrt(count), the control law.
    fn spacing(&self, interval: Duration) -> Duration {
        interval.div_f64(f64::from(self.count.max(1)).sqrt())
    }
}
