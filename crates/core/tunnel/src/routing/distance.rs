//! Whether one of several peers is far worse than the best of them, for a while: by least round
//! trips, which our own queues don't lengthen.

use braid_units::Time;
use std::time::Duration;

/// So much longer than the best one's is far worse: ratio and time. What is less is no reason to
/// move, since it may break connections. Ours; not measured apart.
const FAR: (u32, Duration) = (2, Duration::from_millis(100));
/// So little longer is as good: between the two all stays as it is. Ours; not measured apart.
const NEAR: (u32, Duration) = (1, Duration::from_millis(50));
/// It must have been so all the time: three of the windows in which the least round trip is taken,
/// and twice as long as idle peers are probed.
const FOR: Duration = Duration::from_secs(30);
/// One that was far is trusted again after as long, and after twice as long each time that it is
/// far again within as much, up to this.
const TRUSTED_AFTER_MOST: Duration = Duration::from_secs(600);

/// How far one peer is.
#[derive(Clone, Copy, Debug)]
pub struct Distance {
    is_far: bool,
    /// Since when it has been otherwise than that says.
    otherwise_since: Option<Time>,
    /// When it was last found near again.
    near_since: Option<Time>,
    trusted_after: Duration,
}

impl Default for Distance {
    fn default() -> Self {
        Self { is_far: false, otherwise_since: None, near_since: None, trusted_after: FOR }
    }
}

impl Distance {
    /// Its round trip is `own` now, none while it isn't known, and the best one's is `best`.
    pub fn update(&mut self, own: Option<Duration>, best: Option<Duration>, now: Time) {
        let (Some(own), Some(best)) = (own, best) else {
            self.otherwise_since = None;
            return;
        };
        let otherwise = match self.is_far {
            true => own <= best * NEAR.0 + NEAR.1,
            false => own > best * FAR.0 + FAR.1,
        };
        if !otherwise {
            self.otherwise_since = None;
            return;
        }
        let since = *self.otherwise_since.get_or_insert(now);
        if now < since + self.patience() {
            return;
        }
        self.otherwise_since = None;
        self.is_far = !self.is_far;
        if self.is_far {
            let again = |near: Time| now < near + FOR + self.trusted_after * 2;
            self.trusted_after = match self.near_since.is_some_and(again) {
                true => (self.trusted_after * 2).min(TRUSTED_AFTER_MOST),
                false => FOR,
            };
        } else {
            self.near_since = Some(now);
        }
    }

    /// It is far worse than the best.
    pub fn is_far(&self) -> bool {
        self.is_far
    }

    /// When [`Self::update`] is to be called though nothing has changed.
    pub fn deadline(&self) -> Option<Time> {
        self.otherwise_since.map(|since| since + self.patience())
    }

    fn patience(&self) -> Duration {
        match self.is_far {
            true => self.trusted_after,
            false => FOR,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEST: Option<Duration> = Some(Duration::from_millis(20));

    /// Looks each second for so long; how often it was found to be another than before.
    fn look(distance: &mut Distance, millis: u64, now: &mut Time, seconds: u64) -> usize {
        let own = Some(Duration::from_millis(millis));
        let mut changes = 0;
        for _ in 0..seconds {
            *now += Duration::from_secs(1);
            let before = distance.is_far();
            distance.update(own, BEST, *now);
            changes += usize::from(distance.is_far() != before);
        }
        changes
    }

    #[test]
    fn what_lasts_counts_and_what_is_in_between_changes_nothing() {
        let (mut distance, mut now) = (Distance::default(), Time::ZERO);
        assert_eq!(look(&mut distance, 139, &mut now, 600), 0);
        look(&mut distance, 300, &mut now, 29);
        assert_eq!(distance.deadline(), Some(Time::from_millis(601_000) + FOR));
        assert_eq!(
            look(&mut distance, 100, &mut now, 1) + look(&mut distance, 300, &mut now, 29),
            0
        );
        distance.update(None, BEST, now);
        assert_eq!(distance.deadline(), None, "it fell silent");
        assert_eq!(look(&mut distance, 300, &mut now, 31), 1);
        assert!(distance.is_far());
        assert_eq!(look(&mut distance, 100, &mut now, 600), 0, "neither near nor far");
        assert_eq!(look(&mut distance, 60, &mut now, 31), 1);
        assert!(!distance.is_far());
    }

    #[test]
    fn one_that_is_far_again_and_again_is_trusted_later_each_time() {
        let (mut distance, mut now) = (Distance::default(), Time::ZERO);
        let mut waited = Vec::new();
        for _ in 0..7 {
            assert_eq!(look(&mut distance, 300, &mut now, 31), 1);
            let begun = now;
            while distance.is_far() {
                look(&mut distance, 20, &mut now, 1);
            }
            waited.push((now - begun).as_secs());
        }
        assert_eq!(waited, [31, 61, 121, 241, 481, 601, 601]);
        look(&mut distance, 20, &mut now, 2000);
        look(&mut distance, 300, &mut now, 31);
        assert_eq!(look(&mut distance, 20, &mut now, 31), 1, "that was long ago");
    }
}
