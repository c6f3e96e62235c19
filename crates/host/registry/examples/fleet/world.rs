//! The homes and concentrators of a fleet: the real code, with a modelled network in between.

use braid_registry::placement::{FULL, Places, order};
use braid_registry::{Alive, Concentrator, Fleet, Home};
use braid_tunnel::routing::{Admitted, Health, Residents, Room, StandIns, Step};
use braid_units::Time;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::ops::Range;
use std::sync::Arc;
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
/// How long a silent concentrator counts as alive, `LEASE` of the registry.
const LEASE: Duration = Duration::from_secs(10);

/// The scenario to play.
pub struct Scenario {
    pub homes: usize,
    pub concentrators: usize,
    /// Capacity of each concentrator.
    pub capacity: u32,
    /// Where each further site begins: those that fail together share one.
    pub sites: Vec<usize>,
    pub stand_ins: usize,
    /// The outages.
    pub events: Vec<Outage>,
    pub seconds: u64,
}

/// Some concentrators fail for a while.
#[derive(Clone)]
pub struct Outage {
    pub name: &'static str,
    pub concentrators: Range<usize>,
    /// In seconds.
    pub times: Range<u64>,
    /// They restart without state.
    pub die: bool,
}

/// The result of an outage, or of its end.
pub struct Outcome {
    pub name: String,
    /// Homes that had no service for a while.
    pub gaps: Vec<Duration>,
    pub necessary: usize,
    pub moves: usize,
    pub most_calls: usize,
    pub most_calls_of_one: usize,
    /// Homes that were refused, each time.
    pub refused: usize,
    pub most_served: usize,
    /// From the sixth second on.
    pub most_served_later: usize,
    /// In its last second.
    pub most_served_at_last: usize,
}

impl Outcome {
    /// The share of them that were served again by then.
    pub fn back_within(&self, limit: Duration) -> f64 {
        let back = self.gaps.iter().filter(|gap| **gap <= limit).count();
        back as f64 / self.gaps.len().max(1) as f64
    }
}

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

struct SimulatedHome {
    members: Vec<usize>,
    round_trips: Vec<Duration>,
    health: Vec<Health>,
    attempts: Vec<usize>,
    order: StandIns,
    /// Of its last word on who serves it.
    epoch: u64,
    due: Option<Time>,
    without_since: Option<Time>,
}

struct SimulatedConcentrator {
    reachable: bool,
    gone_at: Option<Time>,
    /// The members that it knows; ranks of others are ignored.
    fleet: Fleet,
    places: Places,
    room: Arc<Room>,
    residents: Residents<usize>,
    /// The same homes, by name.
    serves: BTreeMap<String, ()>,
    /// The epochs of the homes' words.
    heard: BTreeMap<usize, u64>,
    looks_for_room_at: Option<Time>,
    /// Of its words on how willing it is.
    epoch: u64,
    counts: bool,
    /// How willing it is, but for that there may be no room.
    wanted: BTreeMap<String, u8>,
    told: BTreeMap<String, u8>,
}

#[derive(Clone, Copy, Default)]
pub struct Second {
    pub without: usize,
    pub calls: usize,
    most_calls: usize,
    pub moves: usize,
    most_served: usize,
    refused: usize,
}

impl SimulatedConcentrator {
    fn new(fleet: Fleet, capacity: u32) -> Self {
        let room = Arc::new(Room::new(capacity));
        SimulatedConcentrator {
            reachable: true,
            gone_at: None,
            fleet,
            places: Places::default(),
            residents: Residents::new(room.clone()),
            room,
            serves: BTreeMap::new(),
            heard: BTreeMap::new(),
            looks_for_room_at: None,
            epoch: 0,
            counts: false,
            wanted: BTreeMap::new(),
            told: BTreeMap::new(),
        }
    }

    /// Those that were refused and have not gone.
    fn refused(&self) -> BTreeSet<String> {
        let refused = self.heard.keys().filter(|home| self.residents.is_refused(**home));
        refused.map(|home| format!("h{home}")).collect()
    }

    /// A home says that it is served here, or not. Nothing, if it has said that before.
    fn hear(&mut self, home: usize, here: bool, epoch: u64, now: Time) -> Option<Admitted> {
        let before = self.heard.get(&home).copied();
        if before.is_some_and(|before| epoch <= before) {
            return None;
        }
        self.heard.insert(home, epoch);
        Some(self.residents.hear(home, here, now))
    }
}

pub struct World {
    pub scenario: Scenario,
    now: Time,
    random: u64,
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
            random: 1,
            agenda: BinaryHeap::new(),
            entries: 0,
            homes: Vec::new(),
            concentrators: (0..count)
                .map(|_| SimulatedConcentrator::new(all.clone(), scenario.capacity))
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
            let members: Vec<usize> = order
                .iter()
                .take(1 + stand_ins)
                .filter_map(|name| name.trim_start_matches('c').parse().ok())
                .collect();
            let mut standing = StandIns::new(1, world.now);
            (0..stand_ins).for_each(|_| standing.push());
            for (place, member) in members.iter().enumerate() {
                let homes = &mut world.concentrators[*member].fleet.homes;
                homes.insert(format!("h{number}"), (Home::default(), 1));
                let begins = world.between(&(0..1000));
                world.at(begins, Event::Call(number, place));
            }
            let trips = members.iter().map(|_| world.between(&ROUND_TRIP)).collect();
            world.homes.push(SimulatedHome {
                health: vec![Health::default(); members.len()],
                attempts: vec![0; members.len()],
                members,
                round_trips: trips,
                order: standing,
                epoch: 0,
                due: None,
                without_since: None,
            });
        }
        for number in 0..count {
            let begins = world.between(&(0..1000));
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
            let Some(place) = self.place(home, number) else { continue };
            let serves = self.homes[home].order.serving() == place;
            if serves {
                self.homes[home].without_since = Some(self.now);
                self.count_necessary(true);
            }
            let noticed = if serves { NOTICED } else { NOTICED_IDLE };
            let noticed = self.between(&noticed);
            self.at(noticed, Event::Silent(home, place));
        }
    }

    fn comes_back(&mut self, number: usize) {
        let mut events = self.scenario.events.iter();
        let died = events.any(|it| it.die && it.concentrators.contains(&number));
        let it = &mut self.concentrators[number];
        it.reachable = true;
        if died {
            let fleet = std::mem::take(&mut it.fleet);
            let began = it.epoch;
            *it = SimulatedConcentrator::new(fleet, self.scenario.capacity);
            it.epoch = began;
        }
        for home in 0..self.homes.len() {
            if self.place(home, number) == Some(0) {
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
        let pause = braid_tunnel::retry_pause(attempt, self.draw());
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
        let it = &mut self.concentrators[number];
        it.epoch += 1;
        let rank = it.told.get(&format!("h{home}")).copied();
        let health = &mut self.homes[home].health[place];
        *health = Health {
            works: true,
            heard: Some(self.now),
            rank: rank.unwrap_or(health.rank),
            said: it.epoch,
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
            Some(Admitted::Elsewhere) => drop(it.serves.remove(&format!("h{home}"))),
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
        it.serves.insert(format!("h{home}"), ());
        self.this.most_served = self.this.most_served.max(it.room.served() as usize);
        if it.residents.is_full() {
            let serves =
                |home: &usize| it.residents.serves(*home) || it.residents.is_refused(*home);
            let is_told = |home: &usize| {
                let rank = it.wanted.get(&format!("h{home}")).copied().unwrap_or(0);
                rank >= FULL || it.residents.has_turned_away(*home)
            };
            let others = it.heard.keys().filter(|home| !serves(home) && !is_told(home));
            for other in others.copied().collect::<Vec<_>>() {
                self.concentrators[number].residents.turn_away(other, self.now);
                self.say_rank(number, other, FULL);
            }
        }
        self.follow(home);
    }

    fn looks_for_room_later(&mut self, number: usize) {
        let it = &mut self.concentrators[number];
        let Some(at) = it.residents.deadline() else { return };
        if it.looks_for_room_at.is_none_or(|known| at < known || known <= self.now) {
            it.looks_for_room_at = Some(at);
            self.at(at - self.now, Event::Room(number));
        }
    }

    /// As the core does it at its deadline.
    fn looks_for_room(&mut self, number: usize) {
        let now = self.now;
        while let Some(home) = self.concentrators[number].residents.take_due(|_| true, now) {
            self.takes_on(number, home);
        }
        for home in self.concentrators[number].residents.welcome(now) {
            let rank = self.concentrators[number].wanted.get(&format!("h{home}")).copied();
            self.say_rank(number, home, rank.unwrap_or(0));
        }
        self.looks_for_room_later(number);
    }

    fn say_rank(&mut self, number: usize, home: usize, rank: u8) {
        let it = &mut self.concentrators[number];
        it.told.insert(format!("h{home}"), rank);
        it.epoch += 1;
        let said = it.epoch;
        if let Some(place) = self.place(home, number) {
            let way = self.homes[home].round_trips[place] / 2;
            self.at(way, Event::Rank(home, place, rank, said));
        }
    }

    fn is_referred(&mut self, home: usize, number: usize) {
        if self.place(home, number).is_some() {
            return;
        }
        let name = format!("h{home}");
        self.concentrators[number].fleet.homes.insert(name, (Home::default(), 1));
        let trip = self.between(&ROUND_TRIP);
        let it = &mut self.homes[home];
        it.members.push(number);
        it.round_trips.push(trip);
        it.health.push(Health::default());
        it.attempts.push(0);
        it.order.push();
        let place = it.members.len() - 1;
        self.at(Duration::ZERO, Event::Call(home, place));
    }

    fn look(&mut self, number: usize) {
        self.at(LOOK, Event::Look(number));
        if !self.concentrators[number].reachable {
            return;
        }
        // What each has published about itself.
        let now = self.now;
        let lives = |it: &SimulatedConcentrator| {
            it.reachable || it.gone_at.is_some_and(|at| now < at + LEASE)
        };
        let live = self.concentrators.iter().enumerate().filter(|(_, it)| lives(it));
        let alive = live.map(|(other, it)| {
            let homes = u32::try_from(it.serves.len()).unwrap_or(u32::MAX);
            (format!("c{other}"), Alive { homes, ..Alive::default() })
        });
        let alive = alive.collect();
        let it = &mut self.concentrators[number];
        it.fleet.alive = alive;
        let (name, refused) = (format!("c{number}"), it.refused());
        let others = Places::others_have_room(&it.fleet, &name);
        it.room.set_capacity(if others { self.scenario.capacity } else { u32::MAX });
        let ranks = it.places.ranks(&it.fleet, &name, &it.serves, &refused);
        self.tell(number, ranks);
    }

    /// Between two reads: by the last read, and the homes that it serves now.
    fn count(&mut self, number: usize) {
        self.concentrators[number].counts = false;
        let it = &mut self.concentrators[number];
        if it.reachable {
            let (name, refused) = (format!("c{number}"), it.refused());
            let ranks = it.places.ranks_between(&it.fleet, &name, &it.serves, &refused);
            self.tell(number, ranks);
        }
    }

    /// Tells each home its rank, if it has changed, and where it is referred.
    fn tell(&mut self, number: usize, ranks: BTreeMap<String, u8>) {
        let it = &mut self.concentrators[number];
        let wanted = std::mem::replace(&mut it.wanted, ranks.clone());
        let number_of = |name: &str| name[1..].parse::<usize>().expect("a number");
        let refused = it.refused();
        let is_here = |home: &str| it.serves.contains_key(home) || refused.contains(home);
        let referred = it.places.referrals().filter(|(home, _)| is_here(home));
        let all: Vec<(usize, usize)> = referred
            .flat_map(|(home, names)| names.into_iter().map(move |name| (home, name)))
            .map(|(home, name)| (number_of(home), number_of(name)))
            .collect();
        for (home, other) in all {
            if self.place(home, other).is_none()
                && let Some(place) = self.place(home, number)
            {
                self.at(self.homes[home].round_trips[place] / 2, Event::Refer(home, other));
            }
        }
        for (name, rank) in ranks {
            if wanted.get(&name) != Some(&rank) {
                let home = number_of(&name);
                let residents = &mut self.concentrators[number].residents;
                let is_refused = residents.is_refused(home);
                if !is_refused {
                    residents.forget_refusal(home);
                }
                self.say_rank(number, home, if is_refused { rank.max(FULL) } else { rank });
            }
        }
    }

    /// As the core does on every change.
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
        let is_taken_on = self.concentrators[number].residents.serves(home);
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
        let served = self.concentrators.iter().map(|it| it.room.served() as usize);
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

    fn place(&self, home: usize, concentrator: usize) -> Option<usize> {
        self.homes[home].members.iter().position(|member| *member == concentrator)
    }

    fn is_reachable(&self, home: usize, place: usize) -> bool {
        self.concentrators[self.homes[home].members[place]].reachable
    }

    fn at(&mut self, after: Duration, event: Event) {
        self.entries += 1;
        self.agenda.push(Reverse((self.now + after, self.entries, event)));
    }

    /// xorshift64*.
    fn draw(&mut self) -> u64 {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        self.random.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Evenly distributed.
    fn between(&mut self, millis: &Range<u64>) -> Duration {
        let number = self.draw() >> 33;
        Duration::from_millis(millis.start + number % (millis.end - millis.start))
    }

    /// The results of each outage, and of its end.
    pub fn outcomes(&self) -> Vec<Outcome> {
        let mut outcomes = Vec::new();
        for (number, Outage { name, times, .. }) in self.scenario.events.iter().enumerate() {
            for (gone, from, until) in
                [(true, times.start, times.end), (false, times.end, times.end + 60)]
            {
                let seconds = &self.seconds[from as usize..until as usize];
                let most = |of: fn(&Second) -> usize| seconds.iter().map(of).max().unwrap_or(0);
                let span = Time::from_millis(from * 1000)..Time::from_millis(until * 1000);
                let within = self.gaps.iter().filter(|(at, _)| span.contains(at));
                let mut gaps: Vec<Duration> = within.map(|(_, gap)| *gap).collect();
                let unfinished = self
                    .homes
                    .iter()
                    .filter(|home| home.without_since.is_some_and(|at| span.contains(&at)));
                gaps.extend(unfinished.map(|_| Duration::MAX));
                gaps.sort();
                outcomes.push(Outcome {
                    name: if gone { (*name).to_owned() } else { format!("{name}: it is back") },
                    gaps,
                    necessary: self.necessary[number * 2 + usize::from(!gone)],
                    moves: seconds.iter().map(|it| it.moves).sum(),
                    most_calls: most(|it| it.calls),
                    most_calls_of_one: most(|it| it.most_calls),
                    refused: seconds.iter().map(|it| it.refused).sum(),
                    most_served: most(|it| it.most_served),
                    most_served_later: seconds[5..].iter().map(|it| it.most_served).max().unwrap(),
                    most_served_at_last: seconds[seconds.len() - 1].most_served,
                });
            }
        }
        outcomes
    }
}
