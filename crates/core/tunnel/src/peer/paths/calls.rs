//! Whether calls run: a steady trickle of real-time packets, as voice, video calls and games send
//! it.

use braid_units::Time;
use std::time::Duration;

/// Packets are counted for so long at a time. Ours.
const COUNTED: Duration = Duration::from_secs(1);
/// So many of them are a call: voice sends one each 20 to 60 ms (RFC 3551, section 4.2), and single
/// questions, of DNS for instance, are none.
const LEAST: u32 = 10;
/// What is more isn't anybody's voice, but acknowledgements of a download (QUIC's go by UDP).
const MOST: u32 = 200;

/// Counts what is sent in one direction.
#[derive(Debug, Default)]
pub(super) struct Calls {
    since: Time,
    seen: u32,
    until: Time,
}

impl Calls {
    /// A real-time packet is sent.
    pub(super) fn note(&mut self, now: Time) {
        if now >= self.since + COUNTED {
            if (LEAST..=MOST).contains(&self.seen) && now < self.since + 2 * COUNTED {
                self.until = now + 2 * COUNTED;
            }
            (self.since, self.seen) = (now, 0);
        }
        self.seen += 1;
    }

    /// Whether there are some.
    pub(super) fn run(&self, now: Time) -> bool {
        now < self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packets of so many a second for five seconds, and whether that is a call a second later.
    fn is_call(a_second: u32) -> bool {
        let mut calls = Calls::default();
        for number in 0..5 * a_second {
            calls.note(Time::ZERO + Duration::from_secs(1) * number / a_second);
        }
        let is_one = calls.run(Time::ZERO + Duration::from_secs(5));
        assert!(!calls.run(Time::ZERO + Duration::from_secs(9)), "{a_second}: it is over");
        is_one
    }

    #[test]
    fn a_call_is_neither_a_question_now_and_then_nor_a_downloads_acknowledgements() {
        assert_eq!(
            [1, 5, 20, 50, 100, 400, 1000].map(is_call),
            [false, false, true, true, true, false, false]
        );
    }
}
