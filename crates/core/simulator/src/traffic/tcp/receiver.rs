use braid_units::Time;
use std::collections::BTreeSet;
use std::time::Duration;

/// Linux's TCP_DELACK_MIN.
const DELAYED: Duration = Duration::from_millis(40);
/// Ranges that a SACK option has room for beside timestamps.
const RANGES: usize = 3;

/// The receiving end.
#[derive(Debug, Default)]
pub(super) struct Receiver {
    next: u32,
    ahead: BTreeSet<u32>,
    unacknowledged: u32,
    ack_at: Option<Time>,
    newest: u32,
    /// When the packet was sent that the next acknowledgement answers (RFC 7323,
    /// `TS.Recent`), and what the last one acknowledged.
    recent: Time,
    acknowledged: u32,
}

/// All segments before `next`, and these ranges (end excluded).
#[derive(Clone, Debug, Default)]
pub(super) struct Acknowledgement {
    pub next: u32,
    /// When the packet was sent that it answers (RFC 7323, `TSecr`), in whole
    /// milliseconds.
    pub echo: Time,
    pub ranges: Vec<(u32, u32)>,
}

impl Receiver {
    /// The segments of one packet, sent at `stamp`. Returns how many are in order now
    /// that weren't before.
    pub fn on_data(&mut self, places: &[u32], stamp: Time, now: Time) -> u64 {
        let before = self.next;
        let mut duplicate = false;
        // RFC 7323, section 4.3: that which begins where the last acknowledgement ended.
        if places.first().is_some_and(|&first| first <= self.acknowledged) {
            self.recent = self.recent.max(stamp);
        }
        for &place in places {
            self.newest = place;
            if place < self.next || !self.ahead.insert(place) {
                duplicate = true;
            }
        }
        while self.ahead.remove(&self.next) {
            self.next += 1;
        }
        self.unacknowledged += places.len() as u32;
        let at_once = duplicate || !self.ahead.is_empty() || self.unacknowledged >= 2;
        let due = if at_once { now } else { now + DELAYED };
        self.ack_at = Some(self.ack_at.map_or(due, |at| at.min(due)));
        u64::from(self.next - before)
    }

    /// When an acknowledgement is due.
    pub fn ack_at(&self) -> Option<Time> {
        self.ack_at
    }

    pub fn acknowledge(&mut self) -> Acknowledgement {
        self.ack_at = None;
        self.unacknowledged = 0;
        self.acknowledged = self.next;
        Acknowledgement { next: self.next, echo: self.recent, ranges: self.ranges() }
    }

    /// The range of the newest segment first, then the highest (RFC 2018,
    /// section 4).
    fn ranges(&self) -> Vec<(u32, u32)> {
        let mut all: Vec<(u32, u32)> = Vec::new();
        for &place in &self.ahead {
            match all.last_mut() {
                Some(last) if last.1 == place => last.1 += 1,
                _ => all.push((place, place + 1)),
            }
        }
        all.reverse();
        if let Some(at) = all.iter().position(|r| (r.0..r.1).contains(&self.newest)) {
            let newest = all.remove(at);
            all.insert(0, newest);
        }
        all.truncate(RANGES);
        all
    }
}
