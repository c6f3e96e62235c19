//! A concentrator: the registry's placement and the core's admission, over its own view of the
//! fleet.

use braid_registry::placement::{FULL, Places};
use braid_registry::{Alive, Fleet, Home, LEASE};
use braid_tunnel::routing::{Admitted, Residents, Room};
use braid_units::Time;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub struct SimulatedConcentrator {
    name: String,
    pub reachable: bool,
    pub gone_at: Option<Time>,
    /// Its records, with the homes that know it; ranks of others are ignored.
    fleet: Fleet,
    places: Places,
    room: Arc<Room>,
    residents: Residents<usize>,
    /// The homes served here, by name.
    serves: BTreeMap<String, ()>,
    /// The epochs of the homes' statements.
    heard: BTreeMap<usize, u64>,
    looks_for_room_at: Option<Time>,
    /// The epoch of its statements on how willing it is.
    epoch: u64,
    /// Whether it will count the homes that it serves.
    pub counts: bool,
    /// How willing it is, regardless of its room.
    wanted: BTreeMap<String, u8>,
    told: BTreeMap<String, u8>,
}

/// What a concentrator tells after it has computed its ranks.
pub struct News {
    /// Homes, and the concentrators to which they are referred.
    pub referrals: Vec<(usize, usize)>,
    /// Homes whose rank has changed.
    pub ranks: Vec<(usize, u8)>,
}

impl SimulatedConcentrator {
    pub fn new(name: String, fleet: Fleet, capacity: u32) -> Self {
        let room = Arc::new(Room::new(capacity));
        SimulatedConcentrator {
            name,
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

    /// It starts again without state. Epochs keep rising, as they come from the clock.
    pub fn restart(&mut self, capacity: u32) {
        let (name, fleet) = (std::mem::take(&mut self.name), std::mem::take(&mut self.fleet));
        *self = SimulatedConcentrator {
            epoch: self.epoch,
            ..SimulatedConcentrator::new(name, fleet, capacity)
        };
    }

    pub fn add_home(&mut self, home: usize) {
        self.fleet.homes.insert(name_of(home), (Home::default(), 1));
    }

    pub fn served(&self) -> usize {
        self.room.served() as usize
    }

    pub fn serves(&self, home: usize) -> bool {
        self.residents.serves(home)
    }

    /// What it has published about itself, while it counts as alive.
    pub fn published(&self, now: Time) -> Option<(String, Alive)> {
        let lives = self.reachable || self.gone_at.is_some_and(|at| now < at + LEASE);
        let homes = u32::try_from(self.serves.len()).unwrap_or(u32::MAX);
        lives.then(|| (self.name.clone(), Alive { homes, ..Alive::default() }))
    }

    /// A home has connected: the rank that it was told, if any, and the epoch of this statement.
    pub fn greet(&mut self, home: usize) -> (Option<u8>, u64) {
        self.epoch += 1;
        (self.told.get(&name_of(home)).copied(), self.epoch)
    }

    /// A home says whether it is served here. `None` if it has said that before.
    pub fn hear(&mut self, home: usize, here: bool, epoch: u64, now: Time) -> Option<Admitted> {
        if self.heard.get(&home).is_some_and(|before| epoch <= *before) {
            return None;
        }
        self.heard.insert(home, epoch);
        let admitted = self.residents.hear(home, here, now);
        if admitted == Admitted::Elsewhere {
            self.serves.remove(&name_of(home));
        }
        Some(admitted)
    }

    /// Takes a home on; returns others that must hear that there is no more room.
    pub fn take_on(&mut self, home: usize, now: Time) -> Vec<usize> {
        self.serves.insert(name_of(home), ());
        let rank = |home: usize| self.wanted.get(&name_of(home)).copied().unwrap_or(0);
        let others = self.heard.keys().copied().filter(|home| rank(*home) < FULL);
        self.residents.turn_away_if_full(others, now)
    }

    /// The next home that has waited long enough to be taken on.
    pub fn take_due(&mut self, now: Time) -> Option<usize> {
        self.residents.take_due(|_| true, now)
    }

    /// Homes that were turned away and may come now, with how willing it is.
    pub fn welcome(&mut self, now: Time) -> Vec<(usize, u8)> {
        let welcome = self.residents.welcome(now).into_iter();
        let rank = |home: usize| self.wanted.get(&name_of(home)).copied().unwrap_or(0);
        welcome.map(|home| (home, rank(home))).collect()
    }

    /// When to look for room next, if that isn't planned yet.
    pub fn plan_look_for_room(&mut self, now: Time) -> Option<Time> {
        let at = self.residents.deadline()?;
        let is_news = self.looks_for_room_at.is_none_or(|known| at < known || known <= now);
        is_news.then(|| *self.looks_for_room_at.insert(at))
    }

    /// Tells a home its rank; returns the epoch of this statement.
    pub fn say(&mut self, home: usize, rank: u8) -> u64 {
        self.told.insert(name_of(home), rank);
        self.epoch += 1;
        self.epoch
    }

    /// Reads the registry.
    pub fn look(&mut self, alive: BTreeMap<String, Alive>, capacity: u32) -> News {
        self.fleet.alive = alive;
        let others = Places::others_have_room(&self.fleet, &self.name);
        self.room.set_capacity(if others { capacity } else { u32::MAX });
        let refused = self.refused();
        let ranks = self.places.ranks(&self.fleet, &self.name, &self.serves, &refused);
        self.set_ranks(ranks)
    }

    /// Between two reads: goes by the last read, and the homes that it serves now.
    pub fn count(&mut self) -> News {
        let refused = self.refused();
        let ranks = self.places.ranks_between(&self.fleet, &self.name, &self.serves, &refused);
        self.set_ranks(ranks)
    }

    fn set_ranks(&mut self, ranks: BTreeMap<String, u8>) -> News {
        let before = std::mem::replace(&mut self.wanted, ranks);
        let refused = self.refused();
        let is_here = |home: &str| self.serves.contains_key(home) || refused.contains(home);
        let referred = self.places.referrals().filter(|(home, _)| is_here(home));
        let referrals = referred
            .flat_map(|(home, names)| names.into_iter().map(move |name| (home, name)))
            .map(|(home, name)| (number_of(home), number_of(name)))
            .collect();
        let changed = self.wanted.iter().filter(|(name, rank)| before.get(*name) != Some(*rank));
        let mut ranks = Vec::new();
        for (name, rank) in changed {
            let home = number_of(name);
            let is_refused = self.residents.is_refused(home);
            if !is_refused {
                self.residents.forget_refusal(home);
            }
            ranks.push((home, if is_refused { FULL.max(*rank) } else { *rank }));
        }
        News { referrals, ranks }
    }

    /// Homes that were refused and haven't gone.
    fn refused(&self) -> BTreeSet<String> {
        let refused = self.heard.keys().filter(|home| self.residents.is_refused(**home));
        refused.map(|home| name_of(*home)).collect()
    }
}

fn name_of(home: usize) -> String {
    format!("h{home}")
}

/// The number in a home's or a concentrator's name.
pub fn number_of(name: &str) -> usize {
    name[1..].parse().expect("a number")
}
