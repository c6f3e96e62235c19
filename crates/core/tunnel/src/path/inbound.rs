//! The datagrams that come by a path, and whether a stream of them stopped.

use braid_units::Time;
use std::time::Duration;

/// So many datagrams without a pause are a stream, whose end is worth a
/// question: a ping for 32 of them costs next to nothing. Ours.
const STREAM: u32 = 32;

/// The datagrams that come by a path. A NAT that forgot the path, or gave it
/// another address, lets nothing in until something goes out by it: so who
/// sits behind one asks when a stream stops, instead of leaving it to the
/// sender to miss acknowledgements.
#[derive(Debug)]
pub struct Inbound {
    last: Time,
    /// Datagrams since the last pause.
    run: u32,
}

impl Inbound {
    /// Of a path opened at `now`.
    pub fn new(now: Time) -> Self {
        Self { last: now, run: 0 }
    }

    /// A datagram came; one is missed after a `pause`. True if it makes a stream
    /// of those before.
    pub fn on_datagram(&mut self, now: Time, pause: Duration) -> bool {
        if now - self.last > pause {
            self.run = 0;
        }
        self.run = self.run.saturating_add(1);
        self.last = now;
        self.run == STREAM
    }

    /// When the last one came; when the path was opened if there was none.
    pub fn last(&self) -> Time {
        self.last
    }

    /// When a stream's pause is long enough to ask whether the path still works.
    pub fn ask_at(&self, pause: Duration) -> Option<Time> {
        (self.run >= STREAM).then(|| self.last + pause)
    }

    /// It was asked.
    pub fn on_asked(&mut self) {
        self.run = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSE: Duration = Duration::from_millis(30);

    #[test]
    fn the_end_of_a_stream_is_asked_about_once() {
        let mut inbound = Inbound::new(Time::ZERO);
        for ms in 1..32 {
            assert!(!inbound.on_datagram(Time::from_millis(ms), PAUSE));
            assert_eq!(inbound.ask_at(PAUSE), None);
        }
        assert!(inbound.on_datagram(Time::from_millis(32), PAUSE));
        assert_eq!(inbound.ask_at(PAUSE), Some(Time::from_millis(62)));
        inbound.on_asked();
        assert_eq!(inbound.ask_at(PAUSE), None);
    }

    #[test]
    fn datagrams_far_apart_are_no_stream() {
        let mut inbound = Inbound::new(Time::ZERO);
        for number in 0..100 {
            inbound.on_datagram(Time::from_millis(number * 31), PAUSE);
        }
        assert_eq!(inbound.ask_at(PAUSE), None);
        assert_eq!(inbound.last(), Time::from_millis(99 * 31));
    }
}
