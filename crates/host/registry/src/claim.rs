//! Who serves a home is recorded by the concentrator that the home names; of two that claim it, the
//! one with the home's later statement is right. Pure.

use crate::records::Served;
use crate::store::Expected;

/// What a concentrator does about the record of a home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing: it is correct.
    Keep,
    /// Write itself into it.
    Take(Expected),
    /// Remove the record, which names itself but no longer applies.
    Leave(Expected),
    /// Another concentrator has a statement of the home with this epoch: don't announce the home
    /// until it makes a later one here.
    Yield(u64),
}

/// `record` is what the store holds, with its version. `word` is the epoch of the home's last
/// statement to `me` that it is served here; `None` if it isn't.
pub fn step(record: Option<&(Served, i64)>, me: &str, word: Option<u64>) -> Step {
    match (record, word) {
        (None, None) => Step::Keep,
        (None, Some(_)) => Step::Take(Expected::Absent),
        (Some((served, version)), word) => {
            let (mine, version) = (served.by == me, Expected::Version(*version));
            match word {
                None if mine => Step::Leave(version),
                None => Step::Keep,
                Some(epoch) if mine && epoch == served.epoch => Step::Keep,
                Some(epoch) if epoch > served.epoch || mine => Step::Take(version),
                Some(_) => Step::Yield(served.epoch),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn served(by: &str, epoch: u64) -> Served {
        Served { by: by.to_owned(), epoch }
    }

    #[test]
    fn the_later_word_of_the_home_counts() {
        assert_eq!(step(None, "a", Some(5)), Step::Take(Expected::Absent));
        let record = (served("a", 5), 1);
        assert_eq!(step(Some(&record), "a", Some(5)), Step::Keep);
        assert_eq!(step(Some(&record), "b", Some(6)), Step::Take(Expected::Version(1)));
        assert_eq!(step(Some(&record), "b", Some(4)), Step::Yield(5));
        assert_eq!(step(Some(&record), "b", None), Step::Keep);
        assert_eq!(step(Some(&record), "a", None), Step::Leave(Expected::Version(1)));
        // The home's clock was wrong when it restarted.
        assert_eq!(step(Some(&record), "a", Some(2)), Step::Take(Expected::Version(1)));
    }

    proptest! {
        /// However writes are delayed, lost and reordered: once all of them read again, the record
        /// names the concentrator with the latest statement, and no other takes it.
        #[test]
        fn the_record_ends_with_who_has_the_last_word(
            moves in prop::collection::vec((0usize..3, 0u8..4), 1..30),
        ) {
            let names = ["a", "b", "c"];
            // What each was last told, and what it read from the store at some time.
            let mut words = [None; 3];
            let mut seen: [Option<(Served, i64)>; 3] = [None, None, None];
            let (mut record, mut version): (Option<(Served, i64)>, i64) = (None, 0);
            let mut last = 0;
            let mut act = |who: usize, words: &[Option<u64>; 3], seen: &Option<(Served, i64)>,
                           record: &mut Option<(Served, i64)>| {
                let now = record.as_ref().map(|(_, version)| *version);
                let holds = |expected: Expected| match expected {
                    Expected::Any => true,
                    Expected::Absent => now.is_none(),
                    Expected::Version(version) => now == Some(version),
                };
                match step(seen.as_ref(), names[who], words[who]) {
                    Step::Take(expected) if holds(expected) => {
                        version += 1;
                        *record = words[who].map(|epoch| (served(names[who], epoch), version));
                    }
                    Step::Leave(expected) if holds(expected) => *record = None,
                    _ => {}
                }
            };
            for (epoch, (to, delay)) in (1u64..).zip(moves) {
                // The old one hears of it late, or never.
                if delay > 1 {
                    words[last] = None;
                }
                (words[to], last) = (Some(epoch), to);
                let order = [to, (to + 1) % 3, (to + 2) % 3];
                for who in order.into_iter().take(usize::from(delay)) {
                    act(who, &words, &seen[who].clone(), &mut record);
                }
                seen[(to + usize::from(delay)) % 3].clone_from(&record);
            }
            for _ in 0..3 {
                for who in 0..3 {
                    let read = record.clone();
                    act(who, &words, &read, &mut record);
                }
            }
            let (ends, _) = record.unwrap();
            prop_assert_eq!(ends.by, names[last]);
        }
    }
}
