//! Stands in for the crate `pariter` (see `[patch.crates-io]`), by which `rustic_core` hands files
//! and chunks from thread to thread. There each goes by itself, over channels without room: some
//! nine context switches for each small file. Here what comes within half a millisecond is handed
//! out together: small files by the dozen; large chunks, which take longer than that to read, two
//! at the most, so that few of them are in memory. Each thread then takes one item after the other,
//! since a folder of large files comes within that time, too.

#![forbid(unsafe_code)]

mod batch;
mod parallel_map;
mod readahead;

pub use parallel_map::ParallelMap;
pub use readahead::Readahead;

use std::thread::Scope;

/// What iterators get.
pub trait IteratorExt: Iterator + Sized {
    /// As `map`, on as many threads as there are processors; in the order of the iterator.
    fn parallel_map_scoped<'env, 'scope, F, O>(
        self,
        scope: &'scope Scope<'scope, 'env>,
        map: F,
    ) -> ParallelMap<Self, O>
    where
        F: FnMut(Self::Item) -> O + Send + Clone + 'env,
        Self::Item: Send + 'env,
        O: Send + 'env,
    {
        ParallelMap::start(self, scope, map)
    }

    /// The same, while another thread gets what comes next.
    fn readahead_scoped<'env, 'scope>(self, scope: &'scope Scope<'scope, 'env>) -> Readahead<Self>
    where
        Self: Send + 'env + 'scope,
        Self::Item: Send + 'env + 'scope,
    {
        Readahead::start(self, scope)
    }
}

impl<I: Iterator> IteratorExt for I {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::thread::{available_parallelism, scope, sleep};
    use std::time::{Duration, Instant};

    #[test]
    fn all_come_in_their_order_however_long_each_takes() {
        let made: Vec<u64> = scope(|scope| {
            let numbers = (0..5000_u64).readahead_scoped(scope).filter(|number| number % 3 != 0);
            let squares = numbers.parallel_map_scoped(scope, |number| {
                if number % 500 == 1 {
                    sleep(Duration::from_millis(3));
                }
                number * number
            });
            squares.readahead_scoped(scope).collect()
        });
        let expected: Vec<u64> =
            (0..5000).filter(|number| number % 3 != 0).map(|number| number * number).collect();
        assert_eq!(made, expected);
    }

    /// The first waits until this one has been begun, or too long.
    fn begins_while_the_first_is_worked_on(number: usize) -> bool {
        if available_parallelism().map_or(1, |count| count.get()) == 1 {
            return true;
        }
        let begun = AtomicBool::new(false);
        let begins = |it| {
            begun.fetch_or(it == number, Ordering::SeqCst);
            let until = Instant::now() + Duration::from_secs(20);
            while it == 0 && !begun.load(Ordering::SeqCst) && Instant::now() < until {
                sleep(Duration::from_millis(1));
            }
            begun.load(Ordering::SeqCst)
        };
        let all = scope(|scope| {
            let numbers = (0..=number).readahead_scoped(scope);
            numbers.parallel_map_scoped(scope, begins).collect::<Vec<_>>()
        });
        all.first().copied().unwrap_or(false)
    }

    #[test]
    fn large_items_that_come_together_are_worked_on_together() {
        assert!(begins_while_the_first_is_worked_on(1));
    }

    #[test]
    fn a_large_item_does_not_hold_up_thousands_of_small_ones() {
        assert!(begins_while_the_first_is_worked_on(3000));
    }

    #[test]
    fn nothing_of_nothing() {
        scope(|scope| {
            let none = std::iter::empty::<u8>().readahead_scoped(scope);
            assert_eq!(none.parallel_map_scoped(scope, |it| it).readahead_scoped(scope).count(), 0);
        });
    }

    /// Large chunks take longer than a batch waits: two are gathered, two sent, two wait, two
    /// are worked on.
    #[test]
    fn what_takes_long_to_come_is_not_gathered() {
        let (made, taken) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let most = AtomicUsize::new(0);
        scope(|scope| {
            let slow = (0..40).inspect(|_| {
                sleep(Duration::from_millis(2));
                let under_way =
                    made.fetch_add(1, Ordering::SeqCst) + 1 - taken.load(Ordering::SeqCst);
                most.fetch_max(under_way, Ordering::SeqCst);
            });
            for _ in slow.readahead_scoped(scope) {
                sleep(Duration::from_millis(4));
                taken.fetch_add(1, Ordering::SeqCst);
            }
        });
        assert_eq!(taken.load(Ordering::SeqCst), 40);
        assert!(most.load(Ordering::SeqCst) <= 8, "{most:?}");
    }

    #[test]
    fn who_wants_no_more_keeps_nobody_at_work() {
        let first = scope(|scope| {
            let endless = (0_u64..).readahead_scoped(scope).parallel_map_scoped(scope, |it| it + 1);
            endless.readahead_scoped(scope).take(1000).last()
        });
        assert_eq!(first, Some(1000));
    }

    #[test]
    fn a_panic_comes_out_where_the_items_do() {
        for in_source in [true, false] {
            let caught = catch_unwind(AssertUnwindSafe(|| {
                scope(|scope| {
                    let numbers = (0..1000).inspect(|it| assert!(!in_source || *it < 500, "gone"));
                    let mapped = numbers.readahead_scoped(scope).parallel_map_scoped(scope, |it| {
                        assert!(in_source || it != 700, "gone");
                        it
                    });
                    mapped.readahead_scoped(scope).count()
                })
            }));
            assert!(caught.is_err(), "in the source: {in_source}");
        }
    }
}
