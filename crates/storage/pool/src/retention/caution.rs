use std::fmt;
use std::time::Duration;

/// The fate of a snapshot of one subvolume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fate<'a> {
    /// Its name.
    pub snapshot: &'a str,
    /// When it was taken, since the Unix epoch.
    pub taken: Duration,
    /// Whether it stays.
    pub keep: bool,
}

/// Why a deletion should be announced before it is done: it isn't what a policy does day by day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Caution {
    /// No snapshot was taken for long, and most of the earlier ones go at once. Either the computer
    /// was off, or its clock jumped ahead, and only the clock makes them old.
    Leap {
        /// The last one before it.
        before: String,
        /// The first one after it.
        after: String,
        /// How many of those before it go.
        going: usize,
        /// How many those are.
        of: usize,
    },
    /// The policy is new here, and most go: a typo could cause that.
    MostGo {
        /// How many go.
        going: usize,
        /// How many there are.
        of: usize,
    },
}

/// Snapshots are taken more often than this where a policy thins them out by itself.
const LONG: Duration = Duration::from_secs(30 * 24 * 3600);
/// How many may be deleted without asking.
const HANDFUL: usize = 5;

/// Examines the planned fate of one subvolume's snapshots. `is_known`: whether the same policy has
/// thinned them out before. Those later than `now` don't count.
pub fn caution(fates: &[Fate<'_>], is_known: bool, now: Duration) -> Option<Caution> {
    let mut oldest_first: Vec<&Fate<'_>> = fates.iter().filter(|fate| fate.taken <= now).collect();
    oldest_first.sort_by_key(|fate| fate.taken);
    let going = |of: &[&Fate<'_>]| of.iter().filter(|fate| !fate.keep).count();
    for (at, pair) in oldest_first.windows(2).enumerate() {
        let [before, after] = pair else { continue };
        let elders = oldest_first.get(..=at).unwrap_or_default();
        let (gone, of) = (going(elders), elders.len());
        // Month by month one grows too old; that is what the policy is for.
        if after.taken - before.taken > LONG && gone >= 2 && gone * 2 > of {
            let (before, after) = (before.snapshot.to_owned(), after.snapshot.to_owned());
            return Some(Caution::Leap { before, after, going: gone, of });
        }
    }
    let (gone, of) = (going(&oldest_first), oldest_first.len());
    let most = !is_known && gone > HANDFUL && gone * 2 > of;
    most.then_some(Caution::MostGo { going: gone, of })
}

impl fmt::Display for Caution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Caution::Leap { before, after, going, of } => write!(
                f,
                "{going} of {of} snapshots up to {before} would go at once, because {after} is more than a month newer: check the clock, and whether that date is right"
            ),
            Caution::MostGo { going, of } => write!(
                f,
                "{going} of {of} snapshots would go, by a policy that is new to this folder"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Decision, Policy, Snapshot, select};
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const HOUR: Duration = Duration::from_secs(3600);

    fn at_hours(hours: impl IntoIterator<Item = u64>) -> Vec<Snapshot> {
        let at = |hour: u64| Snapshot { name: format!("h{hour}"), taken: HOUR * hour as u32 };
        hours.into_iter().map(at).collect()
    }

    fn looked_at(
        snapshots: &[Snapshot],
        decisions: &[Decision],
        is_known: bool,
    ) -> Option<Caution> {
        let taken: BTreeMap<&str, Duration> =
            snapshots.iter().map(|one| (one.name.as_str(), one.taken)).collect();
        let fates: Vec<Fate<'_>> = decisions
            .iter()
            .map(|v| Fate {
                snapshot: &v.snapshot,
                taken: taken[v.snapshot.as_str()],
                keep: v.keep,
            })
            .collect();
        caution(&fates, is_known, Duration::MAX)
    }

    fn judged(policy: &str, hours: impl IntoIterator<Item = u64>, known: bool) -> Option<Caution> {
        let (policy, snapshots): (Policy, _) = (policy.parse().unwrap(), at_hours(hours));
        let decisions = select(&policy, &snapshots, &[], Duration::MAX);
        looked_at(&snapshots, &decisions, known)
    }

    #[test]
    fn a_new_policy_that_takes_most_is_told_once() {
        assert_eq!(judged("24x1min", 0..100, false), Some(Caution::MostGo { going: 99, of: 100 }));
        assert_eq!(judged("24x1min", 0..100, true), None);
        assert_eq!(judged("80x1h", 0..100, false), None);
        assert_eq!(judged("1x1h", 0..5, false), None, "a handful");
    }

    /// A clock that leapt ahead, a snapshot taken then: everything else is years old all at once.
    #[test]
    fn a_leap_of_the_clock_is_told_also_for_a_known_policy_and_for_a_few() {
        let years = 24 * 365 * 10;
        for (policy, hours) in [
            ("24x1h | 14x1d", (0..100).chain([years]).collect::<Vec<_>>()),
            // Not too old, but thinned out to one a month.
            ("24x1h | 14x1d | 200x30d", (0..100).chain([years]).collect()),
            ("24x1h | 14x1d", vec![0, 1, 2, years]),
            // The clock stayed ahead, and many more were taken.
            ("24x1h | 14x1d", (0..10).chain(years..years + 100).collect()),
        ] {
            let told = judged(policy, hours, true);
            assert!(matches!(told, Some(Caution::Leap { .. })), "{policy}: {told:?}");
        }
    }

    proptest! {
        /// However often snapshots are taken, thinned out once in eight days or more often: what a
        /// policy does day by day is never told.
        #[test]
        fn what_happens_day_by_day_is_not_told(
            every in 1u64..30,
            runs_each in 1u64..192,
            policy in prop_oneof![
                Just("24x1h | 14x1d"), Just("6x1h"), Just("24x1h | 14x1d | 12x30d"),
                Just("1x1h(keep=all) | 7x1d | 8x7d | 5x365d"),
            ],
        ) {
            let policy: Policy = policy.parse().unwrap();
            let (mut alive, mut next_run): (Vec<Snapshot>, u64) = (vec![], 0);
            for hour in (0..24 * 500).step_by(every as usize) {
                alive.extend(at_hours([hour]));
                if hour < next_run {
                    continue;
                }
                next_run = hour + runs_each;
                let decisions = select(&policy, &alive, &[], HOUR * hour as u32);
                prop_assert_eq!(looked_at(&alive, &decisions, true), None, "hour {}", hour);
                let kept: Vec<&str> =
                    decisions.iter().filter(|v| v.keep).map(|v| v.snapshot.as_str()).collect();
                alive.retain(|one| kept.contains(&one.name.as_str()));
            }
        }
    }
}
