//! Whether a peer is in use. One that isn't gives back the memory that speed asks
//! for: a concentrator has many that sleep.

use super::timers::{Timer, TimerTable};
use braid_units::Time;
use std::time::Duration;

/// A tunnel counts as in use for so long after a packet. Ours.
const IN_USE: Duration = Duration::from_secs(3);
/// Meanwhile an idle path is probed so often: who sends next should know which
/// paths work. Ours; not measured apart.
const PROBED: Duration = Duration::from_millis(500);

/// When a peer was last used.
#[derive(Debug, Default)]
pub(super) struct Activity {
    last_used: Time,
    /// It has given memory back since.
    rests: bool,
}

impl Activity {
    /// An inner packet passes.
    pub fn on_use(&mut self, timers: &mut TimerTable, now: Time) {
        if now >= self.last_used + IN_USE {
            timers.fire(Timer::Control);
        }
        self.last_used = now;
        self.rests = false;
    }

    /// When to look whether it's idle, if that's still to come.
    pub fn idle_at(&self, now: Time) -> Option<Time> {
        let at = self.last_used + IN_USE;
        (!self.rests && at > now).then_some(at)
    }

    /// Nothing has passed for a while: true once, so that memory is given back.
    /// Not while something is `under_way`.
    pub fn goes_to_rest(&mut self, under_way: bool, now: Time) -> bool {
        let rests = now - self.last_used >= IN_USE && !under_way;
        rests && !std::mem::replace(&mut self.rests, true)
    }

    /// Idle paths are probed after so long: often enough to keep a NAT's mapping
    /// (`keepalive`), and while the tunnel is in use, to know which paths work.
    pub fn probe_after(&self, keepalive: Option<Duration>, now: Time) -> Option<Duration> {
        if now - self.last_used < IN_USE { Some(PROBED) } else { keepalive }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_rests_once_after_each_use() {
        let (mut activity, mut timers) = (Activity::default(), TimerTable::default());
        let used = Time::from_millis(10_000);
        activity.on_use(&mut timers, used);
        assert_eq!(activity.idle_at(used), Some(used + IN_USE));
        assert!(!activity.goes_to_rest(false, used));
        let later = used + IN_USE;
        assert!(!activity.goes_to_rest(true, later), "something is under way");
        assert!(activity.goes_to_rest(false, later));
        assert!(!activity.goes_to_rest(false, later));
        assert_eq!(activity.idle_at(later), None);
        activity.on_use(&mut timers, later);
        assert!(activity.goes_to_rest(false, later + IN_USE));
    }

    #[test]
    fn paths_of_a_peer_in_use_are_probed_more_often() {
        let (mut activity, mut timers) = (Activity::default(), TimerTable::default());
        let used = Time::from_millis(10_000);
        timers.set(Timer::Control, None);
        activity.on_use(&mut timers, used);
        assert!(timers.is_due(Timer::Control, used), "what idle paths need has changed");
        assert_eq!(activity.probe_after(None, used), Some(PROBED));
        assert_eq!(activity.probe_after(None, used + IN_USE), None);
    }
}
