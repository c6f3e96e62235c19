use super::{Measured, Outbox};
use braid_units::Time;
use std::time::Duration;

/// Echo requests and their answers.
#[derive(Debug)]
pub(super) struct Ping {
    interval: Duration,
    next_at: Time,
    asked: Vec<Time>,
    /// Requests that arrived and are to be answered.
    answers: Vec<(Time, u32)>,
}

impl Ping {
    pub fn new(interval: Duration, start: Time) -> Self {
        Self { interval, next_at: start, asked: Vec::new(), answers: Vec::new() }
    }

    pub fn next_deadline(&self, stop: Time) -> Option<Time> {
        let answer = self.answers.first().map(|a| a.0);
        [answer, Some(self.next_at).filter(|&at| at < stop)].into_iter().flatten().min()
    }

    pub fn poll(&mut self, now: Time, stopped: bool, outbox: &mut Outbox<'_>) {
        for (_, note) in self.answers.drain(..) {
            outbox.ping(true, note);
        }
        if now >= self.next_at && !stopped {
            outbox.ping(false, self.asked.len() as u32);
            self.asked.push(now);
            self.next_at = now + self.interval;
        }
    }

    pub fn on_arrival(&mut self, request: bool, note: u32, now: Time, measured: &mut Measured) {
        if request {
            self.answers.push((now, note));
        } else if let Some(&asked) = self.asked.get(note as usize) {
            measured.delays.push(now - asked);
            measured.got(64, now);
        }
    }
}
