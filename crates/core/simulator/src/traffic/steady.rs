use super::Outbox;
use braid_units::{Rate, Time};
use std::time::Duration;

/// UDP packets at a constant rate.
#[derive(Debug)]
pub(super) struct Steady {
    size: usize,
    start: Time,
    interval: Duration,
    count: u32,
    pub next_at: Time,
}

impl Steady {
    pub fn new(rate: Rate, size: usize, start: Time) -> Self {
        let interval = rate.time_for(size as u64).max(Duration::from_micros(1));
        Self { size, start, interval, count: 0, next_at: start }
    }

    pub fn poll(&mut self, _now: Time, outbox: &mut Outbox<'_>) {
        outbox.udp(self.size, self.count);
        self.count += 1;
        self.next_at = self.sent_at(self.count);
    }

    /// When packet number `count` left.
    pub fn sent_at(&self, count: u32) -> Time {
        self.start + self.interval * count
    }
}
