use super::Outbox;
use braid_units::Time;
use std::time::Duration;

/// UDP that fills the tunnel's entry queue up to a bound.
#[derive(Debug)]
pub(super) struct Greedy {
    backlog: u64,
    size: usize,
    pub next_at: Time,
}

impl Greedy {
    pub fn new(backlog: u64, size: usize, start: Time) -> Self {
        Self { backlog, size, next_at: start }
    }

    pub fn poll(&mut self, now: Time, waiting: u64, outbox: &mut Outbox<'_>) {
        let room = self.backlog.saturating_sub(waiting);
        for _ in 0..room / self.size.max(1) as u64 {
            outbox.udp(self.size, 0);
        }
        self.next_at = now + Duration::from_millis(1);
    }
}
