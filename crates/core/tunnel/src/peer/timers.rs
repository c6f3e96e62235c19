//! When a peer has something to do: one table with a deadline for each kind of
//! work.

use braid_units::Time;

/// What may fall due at a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timer {
    /// A path takes packets for lost, or is silent.
    Loss,
    /// A packet isn't worth sending again any more.
    Abandon,
    /// The exit has waited long enough for a missing packet.
    Reordering,
    /// An unfinished group of real-time chunks gets its parity.
    Parity,
    /// What was held back at the entry, acknowledgements or what a limit of rate stopped,
    /// may go on.
    EntryRelease,
    /// Acknowledgements that were held on their way out may go on.
    AckRelease,
    /// The peer may be idle and give memory back.
    Idle,
    /// A path that the peer has left is closed.
    PathExpiry,
    /// A path takes data that waits.
    Departure,
    /// A report or a probe is to be sent. Nothing is, without keys.
    Control,
    /// What follows from the paths is worked out anew, by the next timer that is
    /// due: this one wakes nobody.
    Upkeep,
    /// As above, for what changes slowly.
    Tuning,
}

impl Timer {
    const COUNT: usize = Self::Tuning as usize + 1;
    /// Timers that ask for more than sending.
    const SERVICE: std::ops::Range<usize> = 0..Self::Departure as usize;
}

/// The deadlines of one peer.
#[derive(Clone, Debug)]
pub struct TimerTable([Time; Timer::COUNT]);

impl Default for TimerTable {
    /// Of a peer that was just added: all that follows from its paths is to be
    /// looked at.
    fn default() -> Self {
        let mut timers = Self([Time::FAR_FUTURE; Timer::COUNT]);
        for timer in [Timer::Loss, Timer::Control, Timer::Upkeep, Timer::Tuning] {
            timers.fire(timer);
        }
        timers
    }
}

impl TimerTable {
    /// When it's due; [`Time::FAR_FUTURE`] if it isn't set.
    pub fn at(&self, timer: Timer) -> Time {
        self.0[timer as usize]
    }

    /// Sets it, or stops it.
    pub fn set(&mut self, timer: Timer, at: Option<Time>) {
        self.0[timer as usize] = at.unwrap_or(Time::FAR_FUTURE);
    }

    /// It's due at `at`, if not before.
    pub fn bring_forward(&mut self, timer: Timer, at: Time) {
        let deadline = &mut self.0[timer as usize];
        *deadline = at.min(*deadline);
    }

    /// It's due at once: something happened that it has to look at.
    pub fn fire(&mut self, timer: Timer) {
        self.0[timer as usize] = Time::ZERO;
    }

    /// Its time has come.
    pub fn is_due(&self, timer: Timer, now: Time) -> bool {
        now >= self.at(timer)
    }

    /// Nothing is due but to send what waits, reports and probes included.
    pub fn only_sending_is_due(&self, now: Time) -> bool {
        now < self.earliest_service().min(self.at(Timer::Upkeep))
    }

    /// When to wake: the earliest of all that wake. `None` if nothing is set.
    pub fn earliest(&self, has_keys: bool) -> Option<Time> {
        let mut earliest = self.earliest_service().min(self.at(Timer::Departure));
        if has_keys {
            earliest = earliest.min(self.at(Timer::Control));
        }
        (earliest < Time::FAR_FUTURE).then_some(earliest)
    }

    fn earliest_service(&self) -> Time {
        self.0[Timer::SERVICE].iter().fold(Time::FAR_FUTURE, |least, at| least.min(*at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stopped() -> TimerTable {
        TimerTable([Time::FAR_FUTURE; Timer::COUNT])
    }

    #[test]
    fn the_earliest_that_wakes_is_told() {
        let mut timers = stopped();
        assert_eq!(timers.earliest(true), None);
        timers.set(Timer::Loss, Some(Time::from_millis(9)));
        timers.set(Timer::Departure, Some(Time::from_millis(7)));
        timers.set(Timer::Upkeep, Some(Time::from_millis(1)));
        assert_eq!(timers.earliest(true), Some(Time::from_millis(7)));
        timers.set(Timer::Departure, None);
        assert_eq!(timers.earliest(true), Some(Time::from_millis(9)));
    }

    #[test]
    fn without_keys_nobody_is_woken_to_send_reports() {
        let mut timers = stopped();
        timers.fire(Timer::Control);
        assert_eq!(timers.earliest(false), None);
        assert_eq!(timers.earliest(true), Some(Time::ZERO));
    }

    #[test]
    fn what_is_brought_forward_never_comes_later() {
        let mut timers = stopped();
        timers.bring_forward(Timer::Loss, Time::from_millis(5));
        timers.bring_forward(Timer::Loss, Time::from_millis(8));
        assert_eq!(timers.at(Timer::Loss), Time::from_millis(5));
        assert!(!timers.is_due(Timer::Loss, Time::from_millis(4)));
        assert!(timers.is_due(Timer::Loss, Time::from_millis(5)));
    }

    #[test]
    fn departures_and_reports_are_nothing_but_sending() {
        let mut timers = stopped();
        let now = Time::from_millis(3);
        timers.fire(Timer::Control);
        timers.fire(Timer::Departure);
        assert!(timers.only_sending_is_due(now));
        timers.set(Timer::Upkeep, Some(now));
        assert!(!timers.only_sending_is_due(now));
        timers.set(Timer::Upkeep, None);
        timers.set(Timer::Idle, Some(now));
        assert!(!timers.only_sending_is_due(now));
    }
}
