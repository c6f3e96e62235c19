//! Assigns the connection mark values that keep direct connections on their link.

/// One value for each list of links and each link in it: a connection's mark shows which link it
/// uses and which it would use instead. Values persist across reloads, even of removed rules, so
/// that connections stay on their links.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    pairs: Vec<Pair>,
}

/// A list of links, and the link in it that connections use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The list.
    pub links: Vec<String>,
    /// Whether connections of this list end when a preferred link works again.
    pub end_on_recovery: bool,
    /// The link in use.
    pub link: String,
    /// Their value, within the mask.
    pub mark: u32,
    /// Whether a rule has this list now.
    pub in_use: bool,
}

/// Values reserved for another use of the same bits: replies to connections that came in over
/// links.
const OTHERS: usize = 16;

impl Marks {
    /// Assigns values to the rules' current lists, from those in `mask` except `own`. Returns the
    /// values that were taken from lists that no rule has any more.
    ///
    /// # Errors
    /// How many values there are when they are too few; nothing changes then.
    pub fn assign(
        &mut self,
        lists: &[(Vec<String>, bool)],
        mask: u32,
        own: u32,
    ) -> Result<Vec<u32>, usize> {
        let free = values(mask, own);
        let mut pairs: Vec<Pair> =
            self.pairs.iter().filter(|pair| free.contains(&pair.mark)).cloned().collect();
        for pair in &mut pairs {
            pair.in_use = lists.iter().any(|list| pair.is_of(list));
        }
        let mut taken_away = Vec::new();
        for list in lists {
            for link in &list.0 {
                if pairs.iter().any(|pair| pair.is_of(list) && pair.link == *link) {
                    continue;
                }
                let unused = free.iter().find(|mark| pairs.iter().all(|pair| pair.mark != **mark));
                let mark = match (unused, pairs.iter().position(|pair| !pair.in_use)) {
                    (Some(mark), _) => *mark,
                    (None, Some(at)) => {
                        let mark = pairs.remove(at).mark;
                        taken_away.push(mark);
                        mark
                    }
                    (None, None) => return Err(free.len()),
                };
                pairs.push(Pair {
                    links: list.0.clone(),
                    end_on_recovery: list.1,
                    link: link.clone(),
                    mark,
                    in_use: true,
                });
            }
        }
        self.pairs = pairs;
        Ok(taken_away)
    }

    /// The value of a list's connections over a link.
    pub fn of(&self, links: &[String], end_on_recovery: bool, link: &str) -> Option<u32> {
        let pair = self.pairs.iter().find(|pair| {
            pair.links == links && pair.end_on_recovery == end_on_recovery && pair.link == link
        });
        pair.map(|pair| pair.mark)
    }

    /// All pairs, including those of lists that no rule has any more.
    pub fn pairs(&self) -> &[Pair] {
        &self.pairs
    }

    /// The value of refused connections.
    pub fn refused(mask: u32, own: u32) -> Option<u32> {
        every_value(mask, own).next_back()
    }
}

impl Pair {
    fn is_of(&self, (links, end_on_recovery): &(Vec<String>, bool)) -> bool {
        self.links == *links && self.end_on_recovery == *end_on_recovery
    }
}

/// From the upper end, as others start at the lower one.
fn values(mask: u32, own: u32) -> Vec<u32> {
    let all: Vec<u32> = every_value(mask, own).collect();
    let others = OTHERS.min(all.len() / 2);
    all.into_iter().skip(others).rev().skip(1).collect()
}

/// All values of a run of bits, except 0 and `own`.
fn every_value(mask: u32, own: u32) -> impl DoubleEndedIterator<Item = u32> {
    let shift = mask.trailing_zeros();
    let most = mask.checked_shr(shift).unwrap_or(0);
    (1..=most).map(move |value| value << shift).filter(move |value| *value != own & mask)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MASK: u32 = 0x7f00_0000;
    const OWN: u32 = 0x6272_0000;

    fn list(links: &[&str]) -> (Vec<String>, bool) {
        (links.iter().map(|link| (*link).to_owned()).collect(), false)
    }

    #[test]
    fn values_stay_over_reloads() {
        let mut marks = Marks::default();
        let (bank, games) = (list(&["dsl", "lte"]), list(&["cable"]));
        assert_eq!(marks.assign(&[bank.clone(), games.clone()], MASK, OWN), Ok(vec![]));
        let before = marks.of(&games.0, false, "cable").unwrap();
        marks.assign(std::slice::from_ref(&games), MASK, OWN).unwrap();
        assert_eq!(marks.of(&games.0, false, "cable"), Some(before));
        assert!(marks.of(&bank.0, false, "dsl").is_some(), "its connections go on");
        assert_eq!(marks.pairs().iter().filter(|pair| pair.in_use).count(), 1);
        let mut all: Vec<u32> = marks.pairs().iter().map(|pair| pair.mark).collect();
        all.push(Marks::refused(MASK, OWN).unwrap());
        all.push(OWN & MASK);
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 5, "no value is two things: {all:x?}");
        assert!(all.iter().all(|mark| mark & !MASK == 0));
    }

    #[test]
    fn when_values_run_out_those_of_rules_that_are_gone_are_taken() {
        let mut marks = Marks::default();
        let lists = |names: std::ops::Range<u32>| -> Vec<_> {
            names.map(|n| list(&[&format!("link{n}")])).collect()
        };
        assert_eq!(marks.assign(&lists(0..200), MASK, OWN), Err(109));
        marks.assign(&lists(0..100), MASK, OWN).unwrap();
        let taken = marks.assign(&lists(150..250), MASK, OWN).unwrap();
        assert_eq!(taken.len(), 91);
        assert!(
            lists(150..250).iter().all(|(links, _)| marks.of(links, false, &links[0]).is_some())
        );
        // With other bits, previous values don't apply.
        assert_eq!(marks.assign(&lists(0..1), 0xff00, OWN), Ok(vec![]));
        assert_eq!(marks.pairs().len(), 1);
    }
}
