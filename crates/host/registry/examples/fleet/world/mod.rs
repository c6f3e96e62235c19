//! The homes and concentrators of a fleet: the real code, with a modelled network in between.

mod concentrator;
mod home;
mod outcome;
mod random;
mod scenario;

pub use outcome::{Outcome, Second};
pub use scenario::{Outage, Scenario};

use braid_registry::placement::{FULL, order};
use braid_registry::{Concentrator, Fleet, Home};
use braid_tunnel::routing::{Admitted, Health, Step};
use braid_units::Time;
use concentrator::{News, SimulatedConcentrator, number_of};
use home::SimulatedHome;
use random::Random;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::ops::Range;
use std::time::Duration;

/// Round-trip time, milliseconds.
const ROUND_TRIP: Range<u64> = 10..80;
/// Time until a home notices that the concentrator serving it is silent, as measured by `end_to_end
/// moving_addresses`.
const NOTICED: Range<u64> = 60..300;
/// The same for one that only stands in.
const NOTICED_IDLE: Range<u64> = 500..10_000;
/// How often a concentrator reads the registry, `EVERY` of the daemon.
const LOOK: Duration = Duration::from_secs(1);
/// How often it counts the homes that it serves, `COUNTED_EVERY` of the daemon.
const COUNT: Duration = Duration::from_millis(100);

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Gone(usize),
    Back(usize),
    /// A concentrator reads the registry.
    Look(usize),
    /// It counts the homes that it serves, as the number has changed.
    Count(usize),
    /// A home notices that a member is silent.
    Silent(usize, usize),
    /// A member answers a home's request.
    Answer(usize, usize),
    Call(usize, usize),
    /// The answer to a handshake: there are keys.
    Keys(usize, usize),
    Rank(usize, usize, u8, u64),
    /// A concentrator hears whether it serves a home, by a word of this epoch.
    Word(usize, usize, bool, u64),
    /// It looks whether homes that it refused have gone, and whether there is room again.
    Room(usize),
    Due(usize),
    /// A home hears of another concentrator.
    Refer(usize, usize),
}

pub struct World {
    pub scenario: Scenario,
    now: Time,
    random: Random,
    agenda: BinaryHeap<Reverse<(Time, u64, Event)>>,
    entries: u64,
    homes: Vec<SimulatedHome>,
    concentrators: Vec<SimulatedConcentrator>,
    calls: Vec<usize>,
    this: Second,
    pub seconds: Vec<Second>,
    /// When it began, how long it lasted.
    gaps: Vec<(Time, Duration)>,
    necessary: Vec<usize>,
}

impl World {
    pub fn new(scenario: Scenario) -> World {
        let Scenario { homes, concentrators: count, stand_ins, .. } = scenario;
        let events = scenario.events.clone();
        let name = |number: usize| format!("c{number}");
        let concentrator = |number: usize| Concentrator {
            capacity: scenario.capacity,
            site: (!scenario.sites.is_empty()).then(|| {
                format!("site{}", scenario.sites.iter().filter(|it| **it <= number).count())
            }),
            ..Concentrator::default()
        };
        let concentrators: BTreeMap<_, _> =
            (0..count).map(|it| (name(it), (concentrator(it), 1))).collect();
        let all = Fleet { concentrators, ..Fleet::default() };
        let mut world = World {
            now: Time::from_millis(0),
            random: Random(1),
            agenda: BinaryHeap::new(),
            entries: 0,
            homes: Vec::new(),
            concentrators: (0..count)
                .map(|it| SimulatedConcentrator::new(name(it), all.clone(), scenario.capacity))
                .collect(),
            calls: vec![0; count],
            this: Second::default(),
            seconds: Vec::new(),
            gaps: Vec::new(),
            necessary: vec![0; events.len() * 2],
            scenario,
        };
        for number in 0..homes {
            let order = order(&all, &format!("h{number}"), &Home::default());
            let members = order.iter().take(1 + stand_ins).map(|name| number_of(name));
            let members: Vec<usize> = members.collect();
            for (place, member) in members.iter().enumerate() {
                world.concentrators[*member].add_home(number);
                let begins = world.random.between(&(0..1000));
                world.at(begins, Event::Call(number, place));
            }
            let mut home = SimulatedHome::new(world.now);
            for member in members {
                home.add(member, world.random.between(&ROUND_TRIP));
            }
            world.homes.push(home);
        }
        for number in 0..count {
            let begins = world.random.between(&(0..1000));
            world.at(begins, Event::Look(number));
        }
        for Outage { concentrators, times, .. } in events {
            for number in concentrators {
                world.at(Duration::from_secs(times.start), Event::Gone(number));
                world.at(Duration::from_secs(times.end), Event::Back(number));
            }
        }
        world
    }

    pub fn run(&mut self) {
        let end = Time::from_millis(self.scenario.seconds * 1000);
        while let Some(Reverse((at, _, event))) = self.agenda.pop() {
            while self.seconds.len() as u64 * 1000 + 1000
                <= (at - Time::from_millis(0)).as_millis() as u64
            {
                self.tick();
            }
            if at > end {
                return;
            }
            self.now = at;
            self.happens(event);
        }
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::Gone(number) => self.goes(number),
            Event::Back(number) => self.comes_back(number),
            Event::Look(number) => self.look(number),
            Event::Count(number) => self.count(number),
            Event::Silent(home, place) => self.notices_silence(home, place),
            Event::Answer(home, place) => {
                if self.is_reachable(home, place) && self.homes[home].health[place].works {
                    self.homes[home].health[place].heard = Some(self.now);
                    self.elect(home);
                }
            }
            Event::Call(home, place) => self.calls(home, place),
            Event::Keys(home, place) => self.is_connected(home, place),
            Event::Rank(home, place, rank, said) => {
                let before = self.homes[home].health[place].said;
                if self.is_reachable(home, place) && said > before {
                    let health = &mut self.homes[home].health[place];
                    (health.rank, health.said) = (rank, said);
                    self.elect(home);
                }
            }
            Event::Word(number, home, here, epoch) => self.hears(number, home, here, epoch),
            Event::Room(number) => self.looks_for_room(number),
            Event::Refer(home, number) => self.is_referred(home, number),
            Event::Due(home) => {
                if self.homes[home].due.is_some_and(|due| due <= self.now) {
                    self.homes[home].due = None;
                    self.elect(home);
                }
            }
        }
    }

    fn goes(&mut self, number: usize) {
        self.concentrators[number].reachable = false;
        self.concentrators[number].gone_at = Some(self.now);
        for home in 0..self.homes.len() {
            let Some(place) = self.homes[home].place(number) else { continue };
            let serves = self.homes[home].order.serving() == place;
            if serves {
                self.homes[home].without_since = Some(self.now);
                self.count_necessary(true);
            }
            let noticed = if serves { NOTICED } else { NOTICED_IDLE };
            let noticed = self.random.between(&noticed);
            self.at(noticed, Event::Silent(home, place));
        }
    }

    fn comes_back(&mut self, number: usize) {
        let mut events = self.scenario.events.iter();
        let died = events.any(|it| it.die && it.concentrators.contains(&number));
        let it = &mut self.concentrators[number];
        it.reachable = true;
        if died {
            it.restart(self.scenario.capacity);
        }
        for home in 0..self.homes.len() {
            if self.homes[home].place(number) == Some(0) {
                self.count_necessary(false);
            }
        }
    }

    fn notices_silence(&mut self, home: usize, place: usize) {
        let number = self.homes[home].members[place];
        if self.concentrators[number].reachable {
            return;
        }
        self.homes[home].health[place].works = false;
        self.homes[home].attempts[place] = 0;
        self.at(Duration::ZERO, Event::Call(home, place));
        self.elect(home);
    }

    fn calls(&mut self, home: usize, place: usize) {
        if self.homes[home].health[place].works {
            return;
        }
        let attempt = self.homes[home].attempts[place];
        self.homes[home].attempts[place] += 1;
        let pause = braid_tunnel::retry_pause(attempt, self.random.draw());
        self.at(pause, Event::Call(home, place));
        if self.is_reachable(home, place) {
            self.calls[self.homes[home].members[place]] += 1;
            self.this.calls += 1;
            self.at(self.homes[home].round_trips[place], Event::Keys(home, place));
        }
    }

    fn is_connected(&mut self, home: usize, place: usize) {
        if !self.is_reachable(home, place) {
            return;
        }
        let number = self.homes[home].members[place];
        let (rank, said) = self.concentrators[number].greet(home);
        let health = &mut self.homes[home].health[place];
        *health = Health {
            works: true,
            heard: Some(self.now),
            rank: rank.unwrap_or(health.rank),
            said,
            round_trip: None,
        };
        self.say(home);
        self.elect(home);
    }

    fn hears(&mut self, number: usize, home: usize, here: bool, epoch: u64) {
        let it = &mut self.concentrators[number];
        if !it.reachable {
            return;
        }
        match it.hear(home, here, epoch, self.now) {
            None => return,
            Some(Admitted::Here) => self.takes_on(number, home),
            Some(Admitted::Elsewhere) => {}
            Some(Admitted::Refused) => {
                self.this.refused += 1;
                self.say_rank(number, home, FULL);
            }
        }
        self.looks_for_room_later(number);
        if !std::mem::replace(&mut self.concentrators[number].counts, true) {
            self.at(COUNT, Event::Count(number));
        }
    }

    fn takes_on(&mut self, number: usize, home: usize) {
        let it = &mut self.concentrators[number];
        let untold = it.take_on(home, self.now);
        self.this.most_served = self.this.most_served.max(it.served());
        for other in untold {
            self.say_rank(number, other, FULL);
        }
        self.follow(home);
    }

    fn looks_for_room_later(&mut self, number: usize) {
        if let Some(at) = self.concentrators[number].plan_look_for_room(self.now) {
            self.at(at - self.now, Event::Room(number));
        }
    }

    /// Like the core at its deadline.
    fn looks_for_room(&mut self, number: usize) {
        while let Some(home) = self.concentrators[number].take_due(self.now) {
            self.takes_on(number, home);
        }
        for (home, rank) in self.concentrators[number].welcome(self.now) {
            self.say_rank(number, home, rank);
        }
        self.looks_for_room_later(number);
    }

    fn say_rank(&mut self, number: usize, home: usize, rank: u8) {
        let said = self.concentrators[number].say(home, rank);
        if let Some(place) = self.homes[home].place(number) {
            let way = self.homes[home].round_trips[place] / 2;
            self.at(way, Event::Rank(home, place, rank, said));
        }
    }

    fn is_referred(&mut self, home: usize, number: usize) {
        if self.homes[home].place(number).is_some() {
            return;
        }
        self.concentrators[number].add_home(home);
        let place = self.homes[home].add(number, self.random.between(&ROUND_TRIP));
        self.at(Duration::ZERO, Event::Call(home, place));
    }

    fn look(&mut self, number: usize) {
        self.at(LOOK, Event::Look(number));
        if !self.concentrators[number].reachable {
            return;
        }
        let alive = self.concentrators.iter().filter_map(|it| it.published(self.now)).collect();
        let news = self.concentrators[number].look(alive, self.scenario.capacity);
        self.tell(number, news);
    }

    fn count(&mut self, number: usize) {
        let it = &mut self.concentrators[number];
        it.counts = false;
        if it.reachable {
            let news = it.count();
            self.tell(number, news);
        }
    }

    fn tell(&mut self, number: usize, news: News) {
        for (home, other) in news.referrals {
            let it = &self.homes[home];
            if it.place(other).is_none()
                && let Some(place) = it.place(number)
            {
                self.at(it.round_trips[place] / 2, Event::Refer(home, other));
            }
        }
        for (home, rank) in news.ranks {
            self.say_rank(number, home, rank);
        }
    }

    /// Like the core on every change.
    fn elect(&mut self, home: usize) {
        let now = self.now;
        let it = &mut self.homes[home];
        let health = it.health.clone();
        match it.order.update(|place| health[place], now) {
            None => {}
            Some(Step::Ask) => {
                for place in 0..it.members.len() {
                    let trip = self.homes[home].round_trips[place];
                    self.at(trip, Event::Answer(home, place));
                }
            }
            Some(Step::Stay) => {
                it.epoch += 1;
                let place = it.order.serving();
                let word = Event::Word(it.members[place], home, true, it.epoch);
                self.at(self.homes[home].round_trips[place] / 2, word);
            }
            Some(Step::Move { .. }) => {
                it.epoch += 1;
                self.this.moves += 1;
                self.say(home);
            }
        }
        self.follow(home);
        let due = self.homes[home].order.deadline().filter(|due| *due > now);
        if let Some(due) = due
            && self.homes[home].due.is_none_or(|known| due < known)
        {
            self.homes[home].due = Some(due);
            self.at(due - now, Event::Due(home));
        }
    }

    /// Whether it is served, and for how long it wasn't: until one has taken it on.
    fn follow(&mut self, home: usize) {
        let place = self.homes[home].order.serving();
        let works = self.is_reachable(home, place) && self.homes[home].health[place].works;
        let number = self.homes[home].members[place];
        let is_taken_on = self.concentrators[number].serves(home);
        let it = &mut self.homes[home];
        match (works, it.without_since) {
            (true, Some(since)) if is_taken_on => {
                it.without_since = None;
                self.gaps.push((since, self.now - since));
            }
            (false, None) => it.without_since = Some(self.now),
            _ => {}
        }
    }

    /// Tells each member whether it serves the home.
    fn say(&mut self, home: usize) {
        for place in 0..self.homes[home].members.len() {
            let it = &self.homes[home];
            let here = place == it.order.serving();
            let word = Event::Word(it.members[place], home, here, it.epoch);
            self.at(it.round_trips[place] / 2, word);
        }
    }

    fn tick(&mut self) {
        let without = self.homes.iter().filter(|home| home.without_since.is_some()).count();
        self.seconds.push(Second {
            without,
            most_calls: self.calls.iter().copied().max().unwrap_or(0),
            ..self.this
        });
        self.calls.iter_mut().for_each(|count| *count = 0);
        // At each moment of the second that begins, not only at its end.
        let served = self.concentrators.iter().map(SimulatedConcentrator::served);
        self.this = Second { most_served: served.max().unwrap_or(0), ..Second::default() };
    }

    fn count_necessary(&mut self, gone: bool) {
        let second = (self.now - Time::from_millis(0)).as_secs();
        let mut events = self.scenario.events.iter();
        let event =
            events.position(|it| second == if gone { it.times.start } else { it.times.end });
        if let Some(event) = event {
            self.necessary[event * 2 + usize::from(!gone)] += 1;
        }
    }

    fn is_reachable(&self, home: usize, place: usize) -> bool {
        self.concentrators[self.homes[home].members[place]].reachable
    }

    fn at(&mut self, after: Duration, event: Event) {
        self.entries += 1;
        self.agenda.push(Reverse((self.now + after, self.entries, event)));
    }
}
