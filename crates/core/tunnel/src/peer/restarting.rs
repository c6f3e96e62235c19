//! The peer has said that its program restarts: what it knows of the connection is about to be
//! gone, and it will be back in a moment. Nothing is sent meanwhile, and nobody takes it for dead.

use braid_units::Time;
use std::time::Duration;

/// For how long it is waited for: a program on slow flash, and a handshake over a slow link.
/// Then it is silent as any other. Ours.
const WAITED_FOR: Duration = Duration::from_secs(2);

/// Where a peer is that restarts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Restarting {
    /// It doesn't.
    #[default]
    No,
    /// It said so; what it is for the tunnel to do about it is still to be fetched, or not.
    Announced { until: Time, is_news: bool },
    /// It is back, its paths aren't known to work yet.
    Back { until: Time },
}

impl Restarting {
    /// The peer says so, by each path.
    pub fn announce(&mut self, now: Time) {
        if !self.holds(now) {
            *self = Restarting::Announced { until: now + WAITED_FOR, is_news: true };
        }
    }

    /// A session with another instance of it.
    pub fn on_another_instance(&mut self) {
        *self = match *self {
            Restarting::Announced { until, .. } => Restarting::Back { until },
            _ => Restarting::No,
        };
    }

    /// Nothing that is sent would arrive, until the moment given.
    pub fn held_until(&self, now: Time) -> Option<Time> {
        match *self {
            Restarting::Announced { until, .. } if now < until => Some(until),
            _ => None,
        }
    }

    /// See [`Self::held_until`].
    pub fn holds(&self, now: Time) -> bool {
        self.held_until(now).is_some()
    }

    /// No path needs to work for it to count as connected.
    pub fn is_excused(&self, now: Time) -> bool {
        match *self {
            Restarting::Announced { until, .. } | Restarting::Back { until } => now < until,
            Restarting::No => false,
        }
    }

    /// Whether it was announced since the last call.
    pub fn is_news(&self) -> bool {
        matches!(self, Restarting::Announced { is_news: true, .. })
    }

    /// As [`Self::is_news`], once.
    pub fn take_news(&mut self) -> bool {
        let news = self.is_news();
        if let Restarting::Announced { is_news, .. } = self {
            *is_news = false;
        }
        news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_restarts_is_waited_for_until_it_is_back_and_not_for_ever() {
        let mut restarting = Restarting::default();
        let at = |ms: u64| Time::ZERO + Duration::from_millis(ms);
        assert!(!restarting.holds(at(0)) && !restarting.is_excused(at(0)));
        restarting.announce(at(100));
        assert!(restarting.take_news() && !restarting.take_news());
        restarting.announce(at(130));
        assert!(!restarting.is_news(), "by another path");
        assert_eq!(restarting.held_until(at(200)), Some(at(2100)));
        let mut never_back = restarting;
        restarting.on_another_instance();
        assert!(!restarting.holds(at(300)) && restarting.is_excused(at(300)));
        assert!(!restarting.is_excused(at(2100)));
        assert!(!never_back.holds(at(2100)) && !never_back.is_excused(at(2100)));
        never_back.announce(at(3000));
        assert!(never_back.is_news() && never_back.holds(at(3000)));
        // Whoever comes back unannounced is excused from nothing.
        let mut crashed = Restarting::default();
        crashed.on_another_instance();
        assert!(!crashed.is_excused(at(0)));
    }
}
