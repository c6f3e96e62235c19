//! Ten thousand homes and a hundred concentrators in virtual time: a rack of 20 dies and comes
//! back, then 25 are cut off and come back. Who a home is for is worked out by
//! [`braid_registry::placement`], who serves it by [`braid_tunnel::routing::StandIns`], and when it
//! calls again by [`braid_tunnel::retry_pause`]: the code that runs, with the network in between
//! modelled.
//!
//! `cargo run --release -p braid-registry --example fleet STAND_INS [sites|chance] [PICTURE.svg]`:
//! with `sites` those that are gone together are at one.

use braid_plot::{Band, Curve, Style};
use braid_registry::placement::{Places, order};
use braid_registry::{Concentrator, Fleet, Home};
use braid_tunnel::routing::{Health, StandIns, Step};
use braid_units::Time;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::ops::Range;
use std::time::Duration;

const HOMES: usize = 10_000;
const CONCENTRATORS: usize = 100;
/// Where the next site begins: those that are gone together share one.
const SITES: [usize; 4] = [20, 40, 65, 80];
/// Of a concentrator. A hundred homes each is an even share.
const CAPACITY: u32 = 160;
/// There and back, milliseconds.
const ROUND_TRIP: Range<u64> = 10..80;
/// Until a home notices that who serves it is silent, as `end_to_end moving_addresses` measures it.
const NOTICED: Range<u64> = 60..300;
/// Until it notices this of one that only stands in.
const NOTICED_IDLE: Range<u64> = 500..10_000;
/// How often a concentrator looks at the registry, `EVERY` of the daemon.
const LOOK: Duration = Duration::from_secs(1);
const SECONDS: u64 = 430;

/// What happens, and when: these concentrators are gone for so long.
const EVENTS: [(&str, Range<usize>, Range<u64>, bool); 2] =
    [("a rack of 20 dies", 0..20, 120..180, true), ("25 are cut off", 40..65, 300..360, false)];

fn main() {
    let mut arguments = std::env::args().skip(1);
    let stand_ins = arguments.next().map_or(2, |it| it.parse().expect("a number of stand-ins"));
    let sites = arguments.next().is_some_and(|it| it == "sites");
    let mut world = World::new(stand_ins, sites);
    world.run();
    world.report(stand_ins, sites);
    if let Some(file) = arguments.next() {
        std::fs::write(&file, world.picture()).expect("a file that can be written");
    }
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Gone(usize),
    Back(usize),
    /// A concentrator looks at the registry.
    Look(usize),
    /// A home notices that a member is silent.
    Silent(usize, usize),
    /// What a home asked a member then is answered.
    Answer(usize, usize),
    Call(usize, usize),
    /// The answer to a call: there are keys.
    Keys(usize, usize),
    Rank(usize, usize, u8),
    /// A concentrator hears whether it serves a home.
    Word(usize, usize, bool),
    Due(usize),
}

struct SimulatedHome {
    members: Vec<usize>,
    round_trips: Vec<Duration>,
    health: Vec<Health>,
    attempts: Vec<usize>,
    order: StandIns,
    due: Option<Time>,
    without_since: Option<Time>,
}

struct SimulatedConcentrator {
    reachable: bool,
    /// Those that it is a member of: the others' ranks go nowhere.
    fleet: Fleet,
    places: Places,
    serves: BTreeMap<String, ()>,
    told: BTreeMap<String, u8>,
}

#[derive(Clone, Copy, Default)]
struct Second {
    without: usize,
    calls: usize,
    most_calls: usize,
    moves: usize,
    most_served: usize,
}

struct World {
    now: Time,
    random: u64,
    agenda: BinaryHeap<Reverse<(Time, u64, Event)>>,
    entries: u64,
    homes: Vec<SimulatedHome>,
    concentrators: Vec<SimulatedConcentrator>,
    /// By the homes' word.
    served: Vec<usize>,
    calls: Vec<usize>,
    this: Second,
    seconds: Vec<Second>,
    /// When it began, how long it lasted.
    gaps: Vec<(Time, Duration)>,
    necessary: [usize; EVENTS.len() * 2],
}

impl World {
    fn new(stand_ins: usize, sites: bool) -> World {
        let name = |number: usize| format!("c{number}");
        let concentrator = |number: usize| Concentrator {
            capacity: CAPACITY,
            site: sites
                .then(|| format!("site{}", SITES.iter().filter(|it| **it <= number).count())),
            ..Concentrator::default()
        };
        let concentrators: BTreeMap<_, _> =
            (0..CONCENTRATORS).map(|it| (name(it), (concentrator(it), 1))).collect();
        let all = Fleet { concentrators, ..Fleet::default() };
        let mut world = World {
            now: Time::from_millis(0),
            random: 1,
            agenda: BinaryHeap::new(),
            entries: 0,
            homes: Vec::new(),
            concentrators: (0..CONCENTRATORS)
                .map(|_| SimulatedConcentrator {
                    reachable: true,
                    fleet: all.clone(),
                    places: Places::default(),
                    serves: BTreeMap::new(),
                    told: BTreeMap::new(),
                })
                .collect(),
            served: vec![0; CONCENTRATORS],
            calls: vec![0; CONCENTRATORS],
            this: Second::default(),
            seconds: Vec::new(),
            gaps: Vec::new(),
            necessary: [0; EVENTS.len() * 2],
        };
        for number in 0..HOMES {
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
                due: None,
                without_since: None,
            });
        }
        for number in 0..CONCENTRATORS {
            let begins = world.between(&(0..1000));
            world.at(begins, Event::Look(number));
        }
        for (_, range, times, _) in &EVENTS {
            for number in range.clone() {
                world.at(Duration::from_secs(times.start), Event::Gone(number));
                world.at(Duration::from_secs(times.end), Event::Back(number));
            }
        }
        world
    }

    fn run(&mut self) {
        let end = Time::from_millis(SECONDS * 1000);
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
            Event::Gone(number) => {
                self.concentrators[number].reachable = false;
                for home in 0..HOMES {
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
            Event::Back(number) => {
                let died =
                    EVENTS.iter().any(|(_, range, _, dies)| *dies && range.contains(&number));
                let it = &mut self.concentrators[number];
                it.reachable = true;
                if died {
                    (it.serves, it.told) = Default::default();
                }
                for home in 0..HOMES {
                    if self.place(home, number) == Some(0) {
                        self.count_necessary(false);
                    }
                }
            }
            Event::Look(number) => self.look(number),
            Event::Silent(home, place) => {
                let number = self.homes[home].members[place];
                if self.concentrators[number].reachable {
                    return;
                }
                self.homes[home].health[place].works = false;
                self.homes[home].attempts[place] = 0;
                self.at(Duration::ZERO, Event::Call(home, place));
                self.elect(home);
            }
            Event::Answer(home, place) => {
                if self.is_reachable(home, place) && self.homes[home].health[place].works {
                    self.homes[home].health[place].heard = Some(self.now);
                    self.elect(home);
                }
            }
            Event::Call(home, place) => {
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
            Event::Keys(home, place) => {
                if !self.is_reachable(home, place) {
                    return;
                }
                let number = self.homes[home].members[place];
                let rank = self.concentrators[number].told.get(&format!("h{home}")).copied();
                let health = &mut self.homes[home].health[place];
                *health = Health {
                    works: true,
                    heard: Some(self.now),
                    rank: rank.unwrap_or(health.rank),
                    round_trip: None,
                };
                self.say(home);
                self.elect(home);
            }
            Event::Rank(home, place, rank) => {
                if self.is_reachable(home, place) {
                    self.homes[home].health[place].rank = rank;
                    self.elect(home);
                }
            }
            Event::Word(number, home, here) => {
                let it = &mut self.concentrators[number];
                if !it.reachable {
                    return;
                }
                match here {
                    true => drop(it.serves.insert(format!("h{home}"), ())),
                    false => drop(it.serves.remove(&format!("h{home}"))),
                }
            }
            Event::Due(home) => {
                if self.homes[home].due.is_some_and(|due| due <= self.now) {
                    self.homes[home].due = None;
                    self.elect(home);
                }
            }
        }
    }

    fn look(&mut self, number: usize) {
        self.at(LOOK, Event::Look(number));
        let it = &mut self.concentrators[number];
        if !it.reachable {
            return;
        }
        let ranks = it.places.ranks(&it.fleet, &format!("c{number}"), &it.serves);
        let told = std::mem::replace(&mut it.told, ranks.clone());
        for (name, rank) in ranks {
            if told.get(&name) != Some(&rank) {
                let home: usize = name.trim_start_matches('h').parse().expect("a home's number");
                let Some(place) = self.place(home, number) else { continue };
                let way = self.homes[home].round_trips[place] / 2;
                self.at(way, Event::Rank(home, place, rank));
            }
        }
    }

    /// As the core does it whenever there is news.
    fn elect(&mut self, home: usize) {
        let now = self.now;
        let it = &mut self.homes[home];
        let health = it.health.clone();
        let before = it.order.serving();
        match it.order.update(|place| health[place], now) {
            None => {}
            Some(Step::Ask) => {
                for place in 0..it.members.len() {
                    let trip = self.homes[home].round_trips[place];
                    self.at(trip, Event::Answer(home, place));
                }
            }
            Some(Step::Move { .. }) => {
                self.this.moves += 1;
                let _ = before;
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

    /// Whether it is served, and for how long it wasn't.
    fn follow(&mut self, home: usize) {
        let place = self.homes[home].order.serving();
        let works = self.is_reachable(home, place) && self.homes[home].health[place].works;
        let it = &mut self.homes[home];
        match (works, it.without_since) {
            (true, Some(since)) => {
                it.without_since = None;
                self.gaps.push((since, self.now - since));
            }
            (false, None) => it.without_since = Some(self.now),
            _ => {}
        }
    }

    /// Each member hears whether it serves.
    fn say(&mut self, home: usize) {
        for place in 0..self.homes[home].members.len() {
            let it = &self.homes[home];
            let word = Event::Word(it.members[place], home, place == it.order.serving());
            self.at(it.round_trips[place] / 2, word);
        }
    }

    fn tick(&mut self) {
        self.served.iter_mut().for_each(|count| *count = 0);
        for home in &self.homes {
            if home.without_since.is_none() {
                self.served[home.members[home.order.serving()]] += 1;
            }
        }
        let without = self.homes.iter().filter(|home| home.without_since.is_some()).count();
        self.seconds.push(Second {
            without,
            most_served: self.served.iter().copied().max().unwrap_or(0),
            most_calls: self.calls.iter().copied().max().unwrap_or(0),
            ..self.this
        });
        self.calls.iter_mut().for_each(|count| *count = 0);
        self.this = Second::default();
    }

    fn count_necessary(&mut self, gone: bool) {
        let second = (self.now - Time::from_millis(0)).as_secs();
        let event = EVENTS
            .iter()
            .position(|(_, _, times, _)| second == if gone { times.start } else { times.end });
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

    fn report(&self, stand_ins: usize, sites: bool) {
        let by = if sites { "the second at another site than the first" } else { "by chance" };
        println!(
            "{HOMES} homes with {stand_ins} stand-ins each, {by}, {CONCENTRATORS} concentrators for {CAPACITY} each\n"
        );
        println!(
            "| event | homes concerned | back within 1 s | 3 s | median | worst of 99 % | moves | of necessary | calls/s | of one | most served | 5 s later |"
        );
        println!("|---|---|---|---|---|---|---|---|---|---|---|---|");
        for (number, (name, _, times, _)) in EVENTS.iter().enumerate() {
            for (gone, from, until) in
                [(true, times.start, times.end), (false, times.end, times.end + 60)]
            {
                let name = if gone { (*name).to_owned() } else { format!("{name}: it is back") };
                let seconds = &self.seconds[from as usize..until as usize];
                let moves: usize = seconds.iter().map(|it| it.moves).sum();
                let most = |of: fn(&Second) -> usize| seconds.iter().map(of).max().unwrap_or(0);
                let span = Time::from_millis(from * 1000)..Time::from_millis(until * 1000);
                let mut gaps: Vec<Duration> = self
                    .gaps
                    .iter()
                    .filter(|(at, _)| span.contains(at))
                    .map(|(_, gap)| *gap)
                    .collect();
                let unfinished = self
                    .homes
                    .iter()
                    .filter(|home| home.without_since.is_some_and(|at| span.contains(&at)));
                gaps.extend(unfinished.map(|_| Duration::MAX));
                gaps.sort();
                let necessary = self.necessary[number * 2 + usize::from(!gone)];
                let within = |limit: u64| {
                    let back =
                        gaps.iter().filter(|gap| **gap <= Duration::from_secs(limit)).count();
                    format!("{:.1} %", back as f64 * 100.0 / gaps.len().max(1) as f64)
                };
                let at = |share: f64| {
                    let place = (gaps.len().saturating_sub(1) as f64 * share) as usize;
                    gaps.get(place).map_or("-".to_owned(), |gap| format!("{} ms", gap.as_millis()))
                };
                println!(
                    "| {name} | {} | {} | {} | {} | {} | {moves} | {:.2} | {} | {} | {} | {} |",
                    if gone { gaps.len() } else { necessary },
                    within(1),
                    within(3),
                    at(0.5),
                    at(0.99),
                    moves as f64 / necessary.max(1) as f64,
                    most(|it| it.calls),
                    most(|it| it.most_calls),
                    most(|it| it.most_served),
                    seconds.iter().skip(5).map(|it| it.most_served).max().unwrap_or(0),
                );
            }
        }
    }

    fn picture(&self) -> String {
        let points = |of: fn(&Second) -> usize| {
            let seconds = self.seconds.iter().enumerate();
            seconds.map(|(at, second)| (at as f64, of(second) as f64)).collect()
        };
        let curve = |name, style, of| Curve { name, style, points: points(of) };
        let curves = [
            curve("homes without service", Style::Thin(0), |it| it.without),
            curve("moves a second", Style::Thin(1), |it| it.moves),
            curve("calls a second", Style::Thin(2), |it| it.calls),
        ];
        let bands: Vec<Band> = EVENTS
            .iter()
            .map(|(name, _, times, _)| Band {
                from: times.start as f64,
                to: times.end as f64,
                label: (*name).to_owned(),
            })
            .collect();
        braid_plot::svg(&curves, &bands, SECONDS as f64, "")
    }
}
