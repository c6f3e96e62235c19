use super::*;
use proptest::prelude::*;

const HOUR: Duration = Duration::from_secs(3600);

/// Later than all that is taken here.
const LATER: Duration = Duration::from_secs(3600 * 24 * 365 * 10);

fn policy(text: &str) -> Policy {
    text.parse().unwrap()
}

fn at_hours(hours: impl IntoIterator<Item = u64>) -> Vec<Snapshot> {
    let at = |hour: u64| Snapshot { name: format!("h{hour}"), taken: HOUR * hour as u32 };
    hours.into_iter().map(at).collect()
}

fn kept(decisions: &[Decision]) -> Vec<&str> {
    decisions.iter().filter(|v| v.keep).map(|v| v.snapshot.as_str()).collect()
}

#[test]
fn the_issues_policy_is_read_and_written() {
    let policy = policy("1x1h(keep=all) | 24x1h | 14x1d");
    assert_eq!(policy.stages().len(), 3);
    assert_eq!(policy.stages()[0].keep, Keep::All);
    assert_eq!(policy.to_string(), "1x1h(keep=all) | 24x1h | 14x1d");
    assert_eq!("2x1w(keep=3)".parse::<Policy>().unwrap().to_string(), "2x7d(keep=3)");
}

#[test]
fn what_is_no_policy_says_what_is_wrong() {
    for (text, word) in [
        ("", "empty"),
        ("1x1h |", "empty"),
        ("24", "no x"),
        ("0x1h", "count"),
        ("1x0h", "length"),
        ("1xfoo", "length"),
        ("1x1h(keep=0)", "keeps neither"),
        ("1x1h(hold=1)", "something else"),
        ("1x1h(keep=1", "something else"),
        ("1000000x10000y", "thousand years"),
        ("-1x1h", "count"),
    ] {
        let error = text.parse::<Policy>().unwrap_err().to_string();
        assert!(error.contains(word), "{text}: {error}");
    }
}

#[test]
fn the_oldest_of_an_interval_stays_and_the_verdict_says_by_which_rule() {
    let decisions = select(&policy("2x4h"), &at_hours(0..=8), &[], LATER);
    // Intervals from hour 8 back: 8..5, 4..1; hour 0 is too old.
    assert_eq!(kept(&decisions), ["h8", "h5", "h1"]);
    assert_eq!(decisions[0].because, [Reason::Newest]);
    assert_eq!(decisions[3].because, [Reason::Stage { stage: "2x4h".into(), interval: 1 }],);
    assert_eq!(
        decisions[4].because,
        [Reason::IntervalFull { stage: "2x4h".into(), interval: 2, kept: "h1".into() }],
    );
    assert_eq!(decisions[8].because, [Reason::TooOld]);
}

#[test]
fn a_replicas_last_common_parent_stays_however_old_it_is() {
    let snapshots = at_hours([0, 100, 101]);
    let common = last_common(&snapshots, |name| name == "h0").unwrap();
    let parents = [CommonParent { snapshot: common.name.clone(), replica: "attic".to_owned() }];
    let decisions = select(&policy("1x1h"), &snapshots, &parents, LATER);
    assert!(kept(&decisions).contains(&"h0"), "{decisions:?}");
}

/// Taken every hour and thinned out every hour for 40 days, the policy keeps what it promises: no
/// stage starves.
#[test]
fn applied_again_and_again_every_stage_is_filled() {
    let policy = policy("1x1h(keep=all) | 24x1h | 14x1d");
    let mut alive = Vec::new();
    for hour in 0..40 * 24 {
        alive.extend(at_hours([hour]));
        let decisions = select(&policy, &alive, &[], LATER);
        let keep = kept(&decisions);
        alive.retain(|snapshot| keep.contains(&snapshot.name.as_str()));
    }
    let newest = alive.last().unwrap().taken;
    let ages: Vec<u64> =
        alive.iter().rev().map(|one| (newest - one.taken).as_secs() / 3600).collect();
    assert!((0..25).all(|hour| ages.contains(&hour)), "{ages:?}");
    for day in 1..14 {
        let of_day =
            ages.iter().filter(|age: &&u64| (25 + day * 24..25 + (day + 1) * 24).contains(*age));
        assert_eq!(of_day.count(), 1, "day {day} of {ages:?}");
    }
}

/// 129 snapshots of every three hours, and one of a clock that was wrong: it stays, and so does all
/// else that would.
#[test]
fn a_snapshot_from_the_future_makes_no_other_one_old() {
    let policy = policy("24x1h | 14x1d | 12x30d");
    let recent = at_hours((0..129).map(|at| at * 3));
    let now = recent.last().unwrap().taken + HOUR;
    let without = select(&policy, &recent, &[], now);
    for years in [1, 3, 7000] {
        let ahead = Snapshot { name: "wrong".into(), taken: now + HOUR * 24 * 365 * years };
        let with: Vec<Snapshot> = recent.iter().cloned().chain([ahead]).collect();
        let decisions = select(&policy, &with, &[], now);
        assert_eq!((decisions[0].keep, &decisions[0].because[..]), (true, &[Reason::Future][..]));
        assert_eq!(decisions[1..], without);
    }
}

proptest! {
    /// Whatever the clock says now, and whatever the dates of others that are later than it: what
    /// the policy keeps of those that aren't is the same, and none of the later ones goes.
    #[test]
    fn dates_of_the_future_decide_nothing(
        past in proptest::collection::btree_set(0u64..3000, 0..60),
        future in proptest::collection::btree_set(3001u64..90_000_000, 0..60),
    ) {
        let policy = policy("1x1h(keep=all) | 24x1h | 14x1d");
        let now = HOUR * 3000;
        let alone = select(&policy, &at_hours(past.iter().copied()), &[], now);
        let all = select(&policy, &at_hours(past.into_iter().chain(future.iter().copied())), &[], now);
        prop_assert!(all[..future.len()].iter().all(|v| v.keep && v.because == [Reason::Future]));
        prop_assert_eq!(&all[future.len()..], &alone[..]);
    }

    /// A clock that is behind, by however much, deletes nothing that it wouldn't have deleted then.
    #[test]
    fn a_clock_ahead_decides_nothing_and_one_behind_deletes_nothing_newer(
        hours in proptest::collection::btree_set(0u64..3000, 1..60),
        ahead in 0u64..90_000_000,
        behind in 0u64..3000,
    ) {
        let policy = policy("1x1h(keep=all) | 24x1h | 14x1d");
        let snapshots = at_hours(hours);
        let newest = snapshots.last().unwrap().taken;
        let right = select(&policy, &snapshots, &[], newest);
        prop_assert_eq!(&select(&policy, &snapshots, &[], newest + HOUR * ahead as u32), &right);
        let early = HOUR * behind as u32;
        for decision in select(&policy, &snapshots, &[], early) {
            let taken = snapshots.iter().find(|one| one.name == decision.snapshot).unwrap().taken;
            prop_assert!(decision.keep || taken < early);
        }
    }

    #[test]
    fn the_newest_and_parents_always_stay_and_a_second_run_changes_nothing(
        hours in proptest::collection::btree_set(0u64..3000, 1..60),
        parent in 0usize..60,
        stages in proptest::collection::vec((1u32..30, 1u32..100, 0u32..4), 1..4),
    ) {
        let text: Vec<String> = stages.iter().map(|(count, hours, keep)| match keep {
            0 => format!("{count}x{hours}h(keep=all)"),
            keep => format!("{count}x{hours}h(keep={keep})"),
        }).collect();
        let policy: Policy = text.join("|").parse().unwrap();
        let snapshots = at_hours(hours.iter().copied());
        let parent = &snapshots[parent % snapshots.len()];
        let parents = [CommonParent { snapshot: parent.name.clone(), replica: "r".to_owned() }];
        let decisions = select(&policy, &snapshots, &parents, LATER);
        prop_assert_eq!(decisions.len(), snapshots.len());
        prop_assert!(decisions[0].keep);
        prop_assert!(decisions.iter().all(|v| !v.because.is_empty()));
        let keep = kept(&decisions);
        prop_assert!(keep.contains(&parent.name.as_str()));
        let left: Vec<Snapshot> =
            snapshots.iter().filter(|one| keep.contains(&one.name.as_str())).cloned().collect();
        let again = select(&policy, &left, &parents, LATER);
        prop_assert!(again.iter().all(|v| v.keep), "{:?}", again);
    }
}
