use braid_units::Time;
use std::time::Duration;

/// Window over which wake-ups are counted.
const WINDOW: Duration = Duration::from_millis(100);
/// Wake-ups for packets per window that count as busy: a call's 50 packets per second do, an idle
/// household's traffic doesn't.
const OFTEN: u32 = 5;

/// Decides whether packets arrive so often that none should wait for a processor to wake up: awake
/// from the fifth wake-up within 100 ms to the end of the first 100 ms with fewer.
#[derive(Debug, Default)]
pub(crate) struct Wakefulness {
    window_ends: Time,
    wakes: u32,
    awake: bool,
}

impl Wakefulness {
    /// Reports that packets have arrived.
    pub(crate) fn on_packets(&mut self, now: Time) {
        self.on_time(now);
        self.wakes += 1;
        self.awake |= self.wakes >= OFTEN;
    }

    /// Reports that time has passed.
    pub(crate) fn on_time(&mut self, now: Time) {
        if now >= self.window_ends {
            let just_ended = now < self.window_ends + WINDOW;
            self.awake &= just_ended && self.wakes >= OFTEN;
            self.wakes = 0;
            self.window_ends = now + WINDOW;
        }
    }

    /// Whether the processors should stay awake.
    pub(crate) fn is_awake(&self) -> bool {
        self.awake
    }

    /// When [`Wakefulness::on_time`] is due; never while asleep.
    pub(crate) fn next_timeout(&self) -> Option<Time> {
        self.awake.then_some(self.window_ends)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends packets every `interval` for a second, then none; returns when it was awake, in
    /// milliseconds.
    fn awake_while_packets_come_every(interval: u64) -> Option<(u64, u64)> {
        let mut wakefulness = Wakefulness::default();
        let mut awake: Option<(u64, u64)> = None;
        for millis in 0..2000 {
            let now = Time::ZERO + Duration::from_millis(5000 + millis);
            if millis < 1000 && millis % interval == 0 {
                wakefulness.on_packets(now);
            }
            if wakefulness.next_timeout().is_some_and(|at| at <= now) {
                wakefulness.on_time(now);
            }
            if wakefulness.is_awake() {
                let (from, _) = awake.unwrap_or((millis, 0));
                awake = Some((from, millis));
            }
        }
        assert_eq!(wakefulness.next_timeout(), None, "nothing to wake up for while asleep");
        awake
    }

    #[test]
    fn a_call_keeps_it_awake_until_it_ends() {
        assert_eq!(awake_while_packets_come_every(20), Some((80, 1099)));
        assert_eq!(awake_while_packets_come_every(1), Some((4, 1099)));
    }

    #[test]
    fn a_packet_now_and_then_does_not() {
        assert_eq!(awake_while_packets_come_every(40), None);
        assert_eq!(awake_while_packets_come_every(500), None);
    }
}
