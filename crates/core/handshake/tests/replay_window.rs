//! The replay window against a model that remembers everything.

use braid_handshake::{NotFresh, ReplayWindow};
use proptest::prelude::*;
use std::collections::BTreeSet;

#[derive(Default)]
struct Model {
    seen: BTreeSet<u64>,
}

impl Model {
    fn mark(&mut self, number: u64) -> Result<(), NotFresh> {
        let highest = self.seen.last().copied().unwrap_or(0);
        if highest.saturating_sub(number) >= ReplayWindow::WIDTH {
            return Err(NotFresh::TooOld);
        }
        if self.seen.insert(number) { Ok(()) } else { Err(NotFresh::Seen) }
    }
}

/// How far the next number is from the one before.
fn step() -> impl Strategy<Value = i64> {
    let width = ReplayWindow::WIDTH as i64;
    prop_oneof![
        8 => Just(1),
        4 => -3i64..70,
        2 => -300i64..300,
        1 => -2 * width..2 * width,
        1 => Just(width),
        1 => Just(-width),
        1 => any::<i64>(),
    ]
}

proptest! {
    #[test]
    fn a_window_up_to_a_number_takes_only_what_is_above(
        largest in prop_oneof![0u64..300, any::<u64>()],
        steps in proptest::collection::vec(0u64..200, 1..40),
    ) {
        let mut window = ReplayWindow::up_to(largest);
        let mut above = BTreeSet::new();
        for step in steps {
            for number in [largest.saturating_sub(step), largest.saturating_add(step)] {
                let fresh = number > largest && above.insert(number);
                prop_assert_eq!(window.mark(number).is_ok(), fresh, "{}", number);
            }
        }
    }

    #[test]
    fn the_window_agrees_with_the_model(
        start in prop_oneof![Just(0u64), Just(u64::MAX), any::<u64>()],
        steps in proptest::collection::vec((step(), 1usize..200), 1..60),
    ) {
        let (mut window, mut model) = (ReplayWindow::new(), Model::default());
        let mut number = start;
        for (step, repetitions) in steps {
            // Single steps are repeated: a run in order fills whole blocks.
            for _ in 0..if step == 1 { repetitions } else { 1 } {
                let expected = model.mark(number);
                prop_assert_eq!(window.check(number), expected);
                prop_assert_eq!(window.mark(number), expected);
                prop_assert!(window.check(number).is_err());
                number = number.saturating_add_signed(step);
            }
            prop_assert!(window.memory() <= 16 * 1024);
        }
    }
}

#[test]
fn late_packets_of_a_gigabit_in_300_ms_are_taken_once() {
    let late_by = 125_000_000 * 3 / 10 / 1440;
    let mut window = ReplayWindow::new();
    for number in (0..200_000).filter(|number| number % 7 != 0) {
        assert_eq!(window.mark(number), Ok(()));
        if let Some(late) = u64::checked_sub(number, late_by).filter(|late| late % 7 == 0) {
            assert_eq!(window.mark(late), Ok(()));
            assert_eq!(window.mark(late), Err(NotFresh::Seen));
        }
    }
}

#[test]
fn an_idle_or_undisturbed_path_costs_little_memory() {
    let mut idle = ReplayWindow::new();
    // Probes at 20 per second for the lifetime of a session, 1 % lost.
    for number in (0..3_600).filter(|number| number % 100 != 50) {
        idle.mark(number).unwrap();
    }
    assert!(idle.memory() < 1024, "{} bytes", idle.memory());

    let mut undisturbed = ReplayWindow::new();
    for number in 0..1_000_000 {
        undisturbed.mark(number).unwrap();
    }
    assert!(undisturbed.memory() < 128, "{} bytes", undisturbed.memory());
}

#[test]
fn the_last_packet_numbers_are_as_good_as_the_first() {
    let mut window = ReplayWindow::new();
    assert_eq!(window.mark(u64::MAX), Ok(()));
    assert_eq!(window.mark(u64::MAX), Err(NotFresh::Seen));
    assert_eq!(window.mark(u64::MAX - 1), Ok(()));
    assert_eq!(window.mark(0), Err(NotFresh::TooOld));
}
