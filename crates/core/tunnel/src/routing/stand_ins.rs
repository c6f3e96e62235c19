//! Which of several peers serves the same inner addresses: the first of them that answers. A
//! home has more than one concentrator that way.
//!
//! A peer that falls silent may be gone, or only the links are. So the others are asked first,
//! and one that answers takes over: a round trip after the silence is noticed. If it isn't the most
//! willing of those that seem to work, they are waited for as long again: a second move is saved.
//!
//! Each peer says how willing it is to serve, its rank; among the equally willing the order counts.
//! One that comes before the one that serves takes over when it has worked for a while, for longer
//! each time that one failed soon after (no flapping), and still answers. One that is about to go
//! ranks last, so it serves on only where nobody else works. One that is [far worse](Distance) than
//! another ranks only before those that are full.
//!
//! One that has no room says so when it is told that it serves. It is left at once for one that
//! answers, however short that has worked. It refers us to another that has room; if none answers
//! soon, it is told again that it serves.

use super::distance::Distance;
use braid_units::Time;
use braid_wire::Service;
use std::time::Duration;

/// The first in order is waited for so long in the beginning, though another's answer may come
/// sooner by a millisecond: some calls over a bad link (RETRY in tunnel/handshakes.rs). Ours.
const FIRST_WAIT: Duration = Duration::from_secs(2);
/// One that is back must work for so long before it serves again. Ours; not measured apart...
const RETURN_AFTER: Duration = Duration::from_secs(15);
/// ...and for twice as long each time that it failed within as much, up to this.
const RETURN_AFTER_MOST: Duration = Duration::from_secs(600);

/// Of several that came back together, as a rack does, the most willing serves: the longest pause
/// between two handshakes that had no answer. Ours.
const TOGETHER: Duration = Duration::from_secs(5);

/// One that is full is told again after this that it serves: by then it has referred us to another
/// (within 100 ms), and that has answered a handshake and a probe. Ours.
const STAYS_AFTER: Duration = Duration::from_secs(1);

/// From this rank on nobody goes to one of their own accord: it is full, or about to go.
const FULL: u8 = Service::FULL;
/// That of one that is far worse than another.
const FAR: u8 = FULL - 1;

/// How a peer is just now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// There are keys, and a path to it works.
    pub works: bool,
    /// When something was last acknowledged by a path that works.
    pub heard: Option<Time>,
    /// How willing it is to serve; 0 is the most.
    pub rank: u8,
    /// Which of its words on that this is: a later one has a higher number.
    pub said: u64,
    /// The least round trip of the paths that work, if one is known.
    pub round_trip: Option<Duration>,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The others are to be asked at once whether they are there.
    Ask,
    /// The one that serves is full, and no other works: it is to be told again that it serves.
    Stay,
    /// Another one serves from now on.
    Move {
        /// That which served.
        from: usize,
        /// That which serves now.
        to: usize,
        /// The one before still works.
        planned: bool,
    },
}

/// Peers in the order in which they are to serve, by their places.
#[derive(Debug)]
pub struct StandIns {
    serving: usize,
    /// It took over then.
    since: Time,
    /// Nobody has served yet: the first is waited for until then.
    first_wait: Option<Time>,
    /// It has been silent from then on, and the others were asked.
    silent_since: Option<Time>,
    /// One has answered, and until then a more willing one may.
    waits_until: Option<Time>,
    /// The one that is to serve again was asked then whether it is there.
    returning: Option<(usize, Time)>,
    /// One may serve again, and a more willing one that came back with it may do so then.
    together_at: Option<Time>,
    /// The last word of the one that serves that was known when it was told so: a later one that
    /// it is full is the answer.
    told_after: u64,
    /// Until then others may work of which nothing is known yet.
    begins_until: Time,
    /// The one that serves is full, and is to be told then that nobody else works.
    stays_at: Option<Time>,
    members: Vec<Member>,
    return_after: Duration,
}

/// What is known of one of them.
#[derive(Clone, Debug, Default)]
struct Member {
    /// It has worked without a break since then.
    works_since: Option<Time>,
    /// How willing it said it was.
    rank: u8,
    distance: Distance,
}

impl StandIns {
    /// The first of `count` peers is to serve, and nothing is known of them yet.
    pub fn new(count: usize, now: Time) -> Self {
        Self {
            serving: 0,
            since: now,
            first_wait: Some(now + FIRST_WAIT),
            silent_since: None,
            waits_until: None,
            returning: None,
            together_at: None,
            told_after: 0,
            begins_until: now + FIRST_WAIT,
            stays_at: None,
            members: vec![Member::default(); count],
            return_after: RETURN_AFTER,
        }
    }

    /// The place of the one that serves.
    pub fn serving(&self) -> usize {
        self.serving
    }

    /// One more stands in, after the others.
    pub fn push(&mut self) {
        self.members.push(Member::default());
    }

    /// The one at this place is gone.
    pub fn remove(&mut self, place: usize) {
        if place < self.members.len() {
            self.members.remove(place);
        }
        (self.returning, self.together_at) = (None, None);
        if place == self.serving {
            (self.serving, self.silent_since, self.waits_until) = (0, None, None);
            (self.stays_at, self.told_after) = (None, 0);
        } else if place < self.serving {
            self.serving -= 1;
        }
    }

    /// What follows from how the peers are now; `health` is asked for each place.
    pub fn update(&mut self, health: impl Fn(usize) -> Health, now: Time) -> Option<Step> {
        for (place, member) in self.members.iter_mut().enumerate() {
            let Health { works, rank, .. } = health(place);
            member.works_since = works.then(|| member.works_since.unwrap_or(now));
            member.rank = rank;
        }
        self.measure(&health, now);
        if self.works(self.serving) {
            return self.look_for_better(health, now);
        }
        (self.together_at, self.stays_at) = (None, None);
        let Some(silent_since) = self.silent_since else {
            self.silent_since = Some(now);
            return Some(Step::Ask);
        };
        if self.first_wait.is_some_and(|until| now < until) {
            return None;
        }
        self.first_wait = None;
        let answered = |place: usize| {
            let heard = health(place).heard;
            self.works(place) && heard.is_some_and(|at| at > silent_since)
        };
        let Some(next) = self.by_willingness().find(|&place| answered(place)) else {
            self.waits_until = None;
            return None;
        };
        let more_willing =
            self.by_willingness().take_while(|place| *place != next).any(|place| self.works(place));
        if more_willing {
            let until = *self.waits_until.get_or_insert(now + (now - silent_since));
            if now < until {
                return None;
            }
        }
        Some(self.move_to(next, false, health(next).said, now))
    }

    /// The one that serves works.
    fn look_for_better(&mut self, health: impl Fn(usize) -> Health, now: Time) -> Option<Step> {
        (self.silent_since, self.waits_until, self.first_wait) = (None, None, None);
        if self.is_to_stay(health(self.serving), now) {
            return Some(Step::Stay);
        }
        let may = |place: &usize| self.may_replace_at(*place).is_some_and(|at| at <= now);
        let better: Vec<usize> = self.by_willingness().filter(may).collect();
        let best = better.first().copied();
        self.together_at = best.and_then(|best| self.with_it(best, now));
        let Some(best) = best.filter(|_| self.together_at.is_none()) else {
            self.returning = None;
            return None;
        };
        let Some((_, asked)) = self.returning.filter(|(place, _)| *place == best) else {
            self.returning = Some((best, now));
            return Some(Step::Ask);
        };
        // Whoever answers, where it is urgent.
        let count = if self.is_full(self.serving) { better.len() } else { 1 };
        let answers = |place: &usize| health(*place).heard.is_some_and(|at| at > asked);
        let to = better.into_iter().take(count).find(answers)?;
        Some(self.move_to(to, true, health(to).said, now))
    }

    /// Whether the one that serves has no room, and no other has answered for a while: it is told
    /// that once for each of its words.
    fn is_to_stay(&mut self, serving: Health, now: Time) -> bool {
        if serving.rank < FULL || serving.said <= self.told_after {
            // It may say so yet: what we have waited at others counts.
            self.stays_at = self.stays_at.filter(|at| *at > now);
            return false;
        }
        let at = self.begins_until.max(now + STAYS_AFTER);
        let stays = now >= *self.stays_at.get_or_insert(at);
        if stays {
            (self.told_after, self.stays_at, self.returning) = (serving.said, None, None);
        }
        stays
    }

    /// When [`Self::update`] is to be called though nothing has changed.
    pub fn deadline(&self) -> Option<Time> {
        match self.works(self.serving) {
            // Its answer is news.
            true if self.returning.is_some() => self.stays_at,
            true if self.together_at.is_some() => self.together_at,
            true => {
                let places = 0..self.members.len();
                let may = places.filter_map(|place| self.may_replace_at(place));
                let distance = self.members.iter().filter_map(|it| it.distance.deadline());
                may.chain(distance).chain(self.stays_at).min()
            }
            false => self.first_wait.into_iter().chain(self.waits_until).max(),
        }
    }

    /// Who is far worse than the best of those to which one would go.
    fn measure(&mut self, health: impl Fn(usize) -> Health, now: Time) {
        let of = |place: usize| {
            let Health { works, rank, round_trip, .. } = health(place);
            round_trip.filter(|_| works).map(|time| (time, rank < FULL))
        };
        let places = 0..self.members.len();
        let best = places.filter_map(of).filter(|(_, usable)| *usable).map(|(time, _)| time).min();
        for (place, member) in self.members.iter_mut().enumerate() {
            member.distance.update(of(place).map(|(time, _)| time), best, now);
        }
    }

    fn works_since(&self, place: usize) -> Option<Time> {
        self.members.get(place)?.works_since
    }

    fn works(&self, place: usize) -> bool {
        self.works_since(place).is_some()
    }

    /// When it may take over from the one that serves and works, if it works itself.
    fn may_replace_at(&self, place: usize) -> Option<Time> {
        let since = self.works_since(place)?;
        if self.turn(place) >= self.turn(self.serving) {
            return None;
        }
        match (self.is_full(self.serving), self.is_full(place)) {
            (false, _) => Some(since + self.return_after),
            (true, false) => Some(since),
            (true, true) => None,
        }
    }

    /// Whether it has no room for us.
    fn is_full(&self, place: usize) -> bool {
        self.members.get(place).is_some_and(|member| member.rank == FULL)
    }

    /// When a more willing one may serve that came back with this one, and may not yet.
    fn with_it(&self, place: usize, now: Time) -> Option<Time> {
        if self.is_full(self.serving) {
            return None;
        }
        let until = self.may_replace_at(place)? + TOGETHER;
        let before = self.by_willingness().take_while(|other| *other != place);
        before.filter_map(|other| self.may_replace_at(other)).find(|at| (now..until).contains(at))
    }

    /// The lower serves before the higher.
    fn turn(&self, place: usize) -> (u8, usize) {
        let Some(member) = self.members.get(place) else { return (u8::MAX, place) };
        let rank = if member.distance.is_far() { member.rank.max(FAR) } else { member.rank };
        (rank, place)
    }

    /// All places, the most willing first.
    fn by_willingness(&self) -> impl Iterator<Item = usize> {
        let mut places: Vec<usize> = (0..self.members.len()).collect();
        places.sort_by_key(|place| self.turn(*place));
        places.into_iter()
    }

    fn move_to(&mut self, to: usize, planned: bool, said: u64, now: Time) -> Step {
        let fails = !planned && self.turn(to) > self.turn(self.serving);
        let from = std::mem::replace(&mut self.serving, to);
        if fails {
            // It fails: for the first time in long, or again?
            self.return_after = match now < self.since + self.return_after * 2 {
                true => (self.return_after * 2).min(RETURN_AFTER_MOST),
                false => RETURN_AFTER,
            };
        }
        (self.since, self.silent_since, self.first_wait) = (now, None, None);
        (self.waits_until, self.together_at) = (None, None);
        (self.returning, self.told_after) = (None, said);
        Step::Move { from, to, planned }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(millis: u64) -> Time {
        Time::from_millis(millis)
    }

    fn works(heard: u64) -> Health {
        Health { works: true, heard: Some(at(heard)), rank: 0, said: 0, round_trip: None }
    }

    const SILENT: Health = Health { works: false, heard: None, rank: 0, said: 0, round_trip: None };

    /// Both work from 1 s on.
    fn two() -> StandIns {
        let mut two = StandIns::new(2, at(0));
        assert_eq!(two.update(|_| SILENT, at(0)), Some(Step::Ask));
        assert_eq!(two.update(|_| works(1000), at(1000)), None);
        assert_eq!(two.serving(), 0);
        two
    }

    #[test]
    fn another_serves_only_when_it_has_answered_after_the_silence() {
        let mut two = two();
        let first_silent = |heard: u64| move |place| if place == 0 { SILENT } else { works(heard) };
        assert_eq!(two.update(first_silent(4000), at(5000)), Some(Step::Ask));
        assert_eq!(two.update(first_silent(4999), at(5020)), None, "an old answer says nothing");
        let moved = Some(Step::Move { from: 0, to: 1, planned: false });
        assert_eq!(two.update(first_silent(5030), at(5030)), moved);
        assert_eq!(two.serving(), 1);
    }

    #[test]
    fn a_more_willing_one_is_waited_for_as_long_again_as_the_first_answer_took() {
        let begin = || {
            let mut three = StandIns::new(3, at(0));
            assert_eq!(three.update(|_| works(1000), at(1000)), None);
            let asked = three.update(|place| if place == 0 { SILENT } else { works(0) }, at(2000));
            assert_eq!(asked, Some(Step::Ask));
            three
        };
        let answers = |heard: [u64; 2]| {
            move |place: usize| match place {
                0 => SILENT,
                place => works(heard[place - 1]),
            }
        };
        let moved = |to| Some(Step::Move { from: 0, to, planned: false });
        let mut three = begin();
        assert_eq!(three.update(answers([0, 2020]), at(2020)), None);
        assert_eq!(three.deadline(), Some(at(2040)));
        assert_eq!(three.update(answers([2030, 2020]), at(2030)), moved(1));
        // It doesn't answer, after all.
        let mut three = begin();
        assert_eq!(three.update(answers([0, 2020]), at(2020)), None);
        assert_eq!(three.update(answers([0, 2035]), at(2035)), None);
        assert_eq!(three.update(answers([0, 2035]), at(2040)), moved(2));
        // The one that answered is gone: there is nothing to look at later.
        let mut three = begin();
        assert_eq!(three.update(answers([0, 2020]), at(2020)), None);
        assert_eq!(three.update(|_| SILENT, at(2030)), None);
        assert_eq!(three.deadline(), None);
        // It is known to be silent: nothing to wait for.
        let mut three = begin();
        let only_last = |place| if place == 2 { works(2020) } else { SILENT };
        assert_eq!(three.update(only_last, at(2020)), moved(2));
    }

    #[test]
    fn of_those_that_come_back_together_the_most_willing_serves() {
        let mut three = StandIns::new(3, at(0));
        three.update(|_| works(1000), at(1000));
        let only_last = |heard| move |place| if place == 2 { works(heard) } else { SILENT };
        three.update(only_last(0), at(100_000));
        assert!(three.update(only_last(100_020), at(100_020)).is_some());
        // The second is back, and the first 3 s later.
        let second = |place| if place == 0 { SILENT } else { works(200_000) };
        assert_eq!(three.update(second, at(200_000)), None);
        assert_eq!(three.update(|_| works(203_000), at(203_000)), None);
        let returns = three.deadline().unwrap();
        assert_eq!(three.update(|_| works(203_000), returns), None, "the first is on its way");
        let then = three.deadline().unwrap();
        assert_eq!(then, returns + Duration::from_secs(3));
        assert_eq!(three.update(|_| works(203_000), then), Some(Step::Ask));
        let back = Some(Step::Move { from: 2, to: 0, planned: true });
        let answered = then + Duration::from_millis(20);
        let heard = |_| Health { heard: Some(answered), ..works(0) };
        assert_eq!(three.update(heard, answered), back);
    }

    #[test]
    fn where_all_are_silent_nothing_moves() {
        let mut two = two();
        assert_eq!(two.update(|_| SILENT, at(5000)), Some(Step::Ask));
        assert_eq!(two.update(|_| SILENT, at(9000)), None);
        assert_eq!(two.update(|_| works(9500), at(9500)), None, "the links are back");
        assert_eq!(two.serving(), 0);
    }

    #[test]
    fn the_first_in_order_is_waited_for_in_the_beginning() {
        let mut two = StandIns::new(2, at(0));
        let second = |place| if place == 1 { works(100) } else { SILENT };
        two.update(second, at(50));
        assert_eq!(two.update(second, at(100)), None);
        assert_eq!(two.deadline(), Some(at(0) + FIRST_WAIT));
        let moved = Some(Step::Move { from: 0, to: 1, planned: false });
        assert_eq!(two.update(second, at(0) + FIRST_WAIT), moved);
    }

    #[test]
    fn while_nobody_answers_nothing_is_due() {
        let mut two = StandIns::new(2, at(0));
        two.update(|_| SILENT, at(0));
        let then = at(0) + FIRST_WAIT;
        assert_eq!((two.update(|_| SILENT, then), two.deadline()), (None, None));
    }

    #[test]
    fn the_first_serves_again_when_it_has_worked_for_long_and_later_each_time() {
        let mut two = two();
        let mut now = at(100_000);
        let mut waits = Vec::new();
        for _ in 0..3 {
            two.update(|place| if place == 0 { SILENT } else { works(0) }, now);
            now += Duration::from_millis(10);
            let heard = Health { heard: Some(now), ..works(0) };
            two.update(|place| if place == 0 { SILENT } else { heard }, now);
            assert_eq!(two.serving(), 1);
            now += Duration::from_millis(10);
            assert_eq!(two.update(|_| heard, now), None);
            let returns = two.deadline().unwrap();
            waits.push(returns - now);
            assert_eq!(two.update(|_| heard, returns), Some(Step::Ask), "is it still there?");
            assert_eq!((two.update(|_| heard, returns), two.deadline()), (None, None));
            now = returns + Duration::from_secs(1);
            let heard = Health { heard: Some(now), ..works(0) };
            assert_eq!(
                two.update(|_| heard, now),
                Some(Step::Move { from: 1, to: 0, planned: true })
            );
            assert_eq!(two.update(|_| heard, now), None);
        }
        assert_eq!(waits, [RETURN_AFTER, RETURN_AFTER * 2, RETURN_AFTER * 4]);
    }

    #[test]
    fn one_that_drains_is_left_at_once_for_one_that_answers_and_serves_again_when_it_is_done() {
        let mut two = two();
        let drains = |heard: u64| {
            move |place| Health { rank: if place == 0 { u8::MAX } else { 0 }, ..works(heard) }
        };
        // The other one has worked for long.
        assert_eq!(two.update(drains(40_000), at(50_000)), Some(Step::Ask));
        assert_eq!(two.update(drains(50_000), at(50_010)), None, "an old answer says nothing");
        let moved = Some(Step::Move { from: 0, to: 1, planned: true });
        assert_eq!(two.update(drains(50_020), at(50_020)), moved);
        assert_eq!((two.update(drains(50_900), at(50_900)), two.deadline()), (None, None));
        // It has worked all the time.
        assert_eq!(two.update(|_| works(51_000), at(51_000)), Some(Step::Ask));
        let back = Some(Step::Move { from: 1, to: 0, planned: true });
        assert_eq!(two.update(|_| works(51_020), at(51_020)), back);
    }

    /// The others say so too, or don't work.
    #[test]
    fn one_that_is_full_is_left_at_once_or_told_again_that_it_serves_once() {
        let full = |said| Health { rank: FULL, said, ..works(20_000) };
        let mut three = StandIns::new(3, at(0));
        three.update(|_| works(1000), at(1000));
        // The second works since a moment only.
        let second = |heard: u64| {
            move |place| match place {
                0 => full(7),
                1 => works(heard),
                _ => SILENT,
            }
        };
        three.update(|place| if place == 0 { works(20_000) } else { SILENT }, at(20_000));
        assert_eq!(three.update(second(0), at(20_010)), Some(Step::Ask));
        assert_eq!(three.update(second(20_000), at(20_020)), None, "an old answer says nothing");
        let moved = Some(Step::Move { from: 0, to: 1, planned: true });
        assert_eq!(three.update(second(20_030), at(20_030)), moved);
        // That one is full, too, and says so when it is told.
        let all = |said| move |_| full(said);
        assert_eq!(three.update(all(9), at(20_040)), None, "another may be found");
        assert_eq!(three.deadline(), Some(at(21_010)), "a while after the first was full");
        assert_eq!(three.update(all(9), at(21_010)), Some(Step::Stay));
        assert_eq!((three.update(all(9), at(21_050)), three.deadline()), (None, None));
        assert_eq!(three.update(all(10), at(22_000)), None, "it says so again");
        assert_eq!(three.update(all(10), at(23_000)), Some(Step::Stay));
        // It falls silent: one that is known to be full hears that from the one who comes.
        let first = |said| move |place| if place == 0 { full(said) } else { SILENT };
        assert_eq!(three.update(first(11), at(30_000)), Some(Step::Ask));
        let heard = Health { heard: Some(at(30_020)), ..full(11) };
        let moved = three.update(|place| if place == 0 { heard } else { SILENT }, at(30_020));
        assert_eq!(moved, Some(Step::Move { from: 1, to: 0, planned: false }));
        assert_eq!(three.update(first(11), at(30_030)), None, "it has not answered yet");
        assert_eq!((three.update(first(11), at(33_000)), three.deadline()), (None, None));
        assert_eq!(three.update(first(12), at(33_040)), None);
        assert_eq!(three.update(first(12), at(34_040)), Some(Step::Stay));
    }

    #[test]
    fn in_the_beginning_others_are_waited_for_before_one_that_is_full_is_told_again() {
        let full = Health { rank: FULL, said: 7, ..works(100) };
        let first = |place| if place == 0 { full } else { SILENT };
        let mut two = StandIns::new(2, at(0));
        assert_eq!(two.update(first, at(100)), None);
        assert_eq!(two.deadline(), Some(at(0) + FIRST_WAIT));
        let both = |heard| move |place| if place == 0 { full } else { works(heard) };
        assert_eq!(two.update(both(0), at(200)), Some(Step::Ask));
        let moved = Some(Step::Move { from: 0, to: 1, planned: true });
        assert_eq!(two.update(both(230), at(230)), moved);
        let mut alone = StandIns::new(2, at(0));
        assert_eq!(alone.update(first, at(100)), None);
        assert_eq!(alone.update(first, at(0) + FIRST_WAIT), Some(Step::Stay));
        assert_eq!((alone.update(first, at(5000)), alone.deadline()), (None, None));
    }

    #[test]
    fn one_that_is_far_worse_for_a_while_is_left_and_serves_again_when_it_is_not() {
        let mut two = two();
        let mut moves = Vec::new();
        for second in 2..400 {
            let far = (10..100).contains(&second) || second % 40 < 20;
            let millis = |place: usize| if place == 0 && far { 400 } else { 40 + place as u64 };
            let health = |place| Health {
                round_trip: Some(Duration::from_millis(millis(place))),
                ..works(second * 1000 + 20)
            };
            // Once for the news, once for the answers.
            for millis in [0, 20] {
                if let Some(Step::Move { to, planned: true, .. }) =
                    two.update(health, at(second * 1000 + millis))
                {
                    moves.push((second, to));
                }
            }
        }
        assert_eq!(moves, [(32, 1)], "what changes each 20 s isn't trusted");
        for second in 400..460 {
            let health = |_| Health {
                round_trip: Some(Duration::from_millis(40)),
                ..works(second * 1000 + 20)
            };
            for millis in [0, 20] {
                two.update(health, at(second * 1000 + millis));
            }
        }
        assert_eq!(two.serving(), 0);
    }

    #[test]
    fn one_that_drains_serves_on_where_nobody_else_works() {
        let mut two = two();
        let alone = |heard| {
            move |place| match place {
                0 => Health { rank: u8::MAX, ..works(heard) },
                _ => SILENT,
            }
        };
        assert_eq!(two.update(alone(5000), at(5000)), None);
        assert_eq!((two.serving(), two.deadline()), (0, None));
        // And takes over where the other one falls silent.
        let mut three = StandIns::new(3, at(0));
        three.update(|_| works(1000), at(1000));
        let health = |place| match place {
            0 => SILENT,
            1 => Health { rank: u8::MAX, ..works(7000) },
            _ => Health { rank: 9, ..works(7000) },
        };
        assert_eq!(three.update(health, at(6000)), Some(Step::Ask));
        let moved = Some(Step::Move { from: 0, to: 2, planned: false });
        assert_eq!(three.update(health, at(7000)), moved, "the most willing of those");
    }

    proptest! {
        /// Whatever happens: nobody serves in another's place who hasn't answered, nobody is
        /// left without service whom one that works could serve, and moves are few.
        #[test]
        fn who_serves_works_wherever_one_does(
            outages in prop::collection::vec((0usize..3, 0u64..600, 1u64..60), 0..20),
        ) {
            let mut three = StandIns::new(3, at(0));
            let mut moves = 0;
            // In tenths of seconds.
            for tenth in 0..8000_u64 {
                let now = at(tenth * 100);
                let away = |place| outages.iter().any(|(of, from, long)| {
                    *of == place && (from * 10..(from + long) * 10).contains(&tenth)
                });
                let health = |place| if away(place) { SILENT } else { works(tenth * 100) };
                // Once for the news, once for the answers.
                for now in [now, now + Duration::from_millis(50)] {
                    let heard = |place| Health {
                        heard: health(place).works.then_some(now),
                        ..health(place)
                    };
                    if let Some(Step::Move { to, .. }) = three.update(heard, now) {
                        prop_assert!(!away(to));
                        moves += 1;
                    }
                }
                let all_away = (0..3).all(away);
                let starts = now < at(0) + FIRST_WAIT;
                prop_assert!(!away(three.serving()) || all_away || starts, "{tenth}");
            }
            prop_assert!(moves <= outages.len() * 2 + 1, "{moves} for {}", outages.len());
            let end = at(800_000) + RETURN_AFTER_MOST * 2;
            three.update(|_| works(0), end);
            three.update(|_| Health { heard: Some(end + RETURN_AFTER), ..works(0) }, end);
            prop_assert_eq!(three.serving(), 0);
        }
    }
}
