//! A concentrator's part in its fleet: what it writes, and what follows from what others wrote.

use crate::claim::{self, Step};
use crate::placement::Places;
use crate::records::{Alive, Concentrator, Fleet, Home, Served};
use crate::store::{Expected, Life, Store, StoreError, Written};
use crate::{LEASE, RENEW_EVERY};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

/// A concentrator's current state.
#[derive(Clone, Debug, Default)]
pub struct Own {
    /// Its name in the fleet.
    pub name: String,
    /// Its record, from its config.
    pub concentrator: Concentrator,
    /// Whether its config says that it is draining.
    pub draining: bool,
    /// The homes of its own config, by name.
    pub homes: BTreeMap<String, Home>,
    /// The keys of others' homes that joined here, by name.
    pub joined: BTreeMap<String, String>,
    /// The homes that say that they are served here, with the epochs of their statements.
    pub served: BTreeMap<String, u64>,
    /// Homes for which there was no room when they came, and that have not gone yet.
    pub refused: BTreeSet<String>,
    /// What it carries, both ways, kbit/s.
    pub kbit: u64,
}

/// The result of a round.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// All records.
    pub fleet: Fleet,
    /// How willing this one is to serve each home, by name.
    pub ranks: BTreeMap<String, u8>,
    /// The concentrators that should serve each home, by name; the same for every member.
    pub referrals: BTreeMap<String, Vec<String>>,
    /// Homes that made a later statement to another concentrator, and its epoch.
    pub yields: BTreeMap<String, u64>,
    /// Problems, in words.
    pub troubles: Vec<String>,
}

/// What it remembers from one round to the next.
#[derive(Default)]
pub struct Member {
    renewed: Option<Instant>,
    /// What it last published about itself, and when.
    told: Option<(Alive, Instant)>,
    places: Places,
}

/// Maximum changes per round; further rounds make the rest, knowing what happened elsewhere
/// meanwhile. A change takes etcd some 10 ms on a slow disk.
const MOST_CHANGES: usize = 200;
/// A round starts no change after this time, however long each takes, as the lease must be renewed
/// between rounds.
const CHANGES_TAKE: Duration = RENEW_EVERY;

/// Access to the store for the changes of one round.
struct Changes<'a> {
    store: &'a mut dyn Store,
    left: usize,
    clock: &'a dyn Fn() -> Instant,
    until: Instant,
}

impl Member {
    /// Writes what has changed here, and reads what has changed elsewhere. `clock` returns the
    /// time, like [`Instant::now`].
    ///
    /// # Errors
    /// As [`Store::read`]; changes made before stay.
    pub fn round(
        &mut self,
        store: &mut dyn Store,
        own: &Own,
        clock: impl Fn() -> Instant,
    ) -> Result<Known, StoreError> {
        let now = clock();
        if self.renewed.is_none_or(|at| now.saturating_duration_since(at) >= RENEW_EVERY) {
            if !store.keep_alive(LEASE)? {
                self.told = None;
            }
            self.renewed = Some(now);
        }
        let fleet = Fleet::parse(&store.read()?)?;
        let mut troubles = Vec::new();
        let until = clock() + CHANGES_TAKE;
        let mut changes = Changes { store, left: MOST_CHANGES, clock: &clock, until };
        if !publish_self(&mut changes, own, &fleet)? {
            troubles.push(format!(
                "another concentrator of the fleet is named {}: give this one another name; until \
                 then it takes no part",
                own.name
            ));
            return Ok(Known { troubles, fleet, ..Known::default() });
        }
        self.say_alive(&mut changes, own, now)?;
        let yields = claim_all(&mut changes, own, &fleet)?;
        publish_homes(&mut changes, own, &fleet, &mut troubles)?;
        let ranks = self.places.ranks(&fleet, &own.name, &own.served, &own.refused);
        let referrals = self.referrals();
        Ok(Known { ranks, referrals, yields, troubles, fleet })
    }

    /// By which concentrators each home is to be served, by name, as of the last [`Self::round`] or
    /// [`Self::ranks`].
    pub fn referrals(&self) -> BTreeMap<String, Vec<String>> {
        let referrals = self
            .places
            .referrals()
            .map(|(home, names)| (home.to_owned(), names.into_iter().map(str::to_owned).collect()));
        referrals.collect()
    }

    /// How willing it is to serve each home, by name, now that it serves the homes `here` and has
    /// `refused` others: as of the last round, when `fleet` was read, but for that. The registry
    /// isn't asked.
    pub fn ranks<T>(
        &mut self,
        fleet: &Fleet,
        me: &str,
        here: &BTreeMap<String, T>,
        refused: &BTreeSet<String>,
    ) -> BTreeMap<String, u8> {
        self.places.ranks_between(fleet, me, here, refused)
    }

    /// The load keeps changing, and is published whenever the lease is renewed.
    fn say_alive(
        &mut self,
        changes: &mut Changes<'_>,
        own: &Own,
        now: Instant,
    ) -> Result<(), StoreError> {
        let homes = u32::try_from(own.served.len()).unwrap_or(u32::MAX);
        let alive = Alive { homes, kbit: own.kbit, draining: own.draining };
        let is_told = self.told.is_some_and(|(told, at)| {
            let recently = now.saturating_duration_since(at) < RENEW_EVERY;
            told == alive || recently && told.draining == alive.draining
        });
        let key = Alive::key(&own.name);
        if !is_told
            && changes.put(&key, &alive, Expected::Any, Life::Writer)? == Some(Written::Done)
        {
            self.told = Some((alive, now));
        }
        Ok(())
    }
}

impl Changes<'_> {
    /// `None` if it is left to the next round, which also sees whether somebody else was faster.
    fn put(
        &mut self,
        key: &str,
        value: &impl Serialize,
        expected: Expected,
        life: Life,
    ) -> Result<Option<Written>, StoreError> {
        let text = serde_json::to_string(value);
        let text = text.map_err(|error| StoreError::Foreign(format!("{key}: {error}")))?;
        self.one(|store| store.write(key, &text, expected, life))
    }

    fn remove(&mut self, key: &str, expected: Expected) -> Result<Option<Written>, StoreError> {
        self.one(|store| store.remove(key, expected))
    }

    fn one(
        &mut self,
        change: impl FnOnce(&mut dyn Store) -> Result<Written, StoreError>,
    ) -> Result<Option<Written>, StoreError> {
        let Some(left) = self.left.checked_sub(1) else { return Ok(None) };
        if (self.clock)() > self.until {
            return Ok(None);
        }
        self.left = left;
        change(self.store).map(Some)
    }
}

/// Returns whether no other concentrator has its name.
fn publish_self(changes: &mut Changes<'_>, own: &Own, fleet: &Fleet) -> Result<bool, StoreError> {
    let key = Concentrator::key(&own.name);
    let (wanted, expected) = match fleet.concentrators.get(&own.name) {
        None => (own.concentrator.clone(), Expected::Absent),
        Some((there, _)) if there.public_key != own.concentrator.public_key => return Ok(false),
        Some((there, version)) => {
            let wanted = Concentrator { draining: there.draining, ..own.concentrator.clone() };
            if wanted == *there {
                return Ok(true);
            }
            (wanted, Expected::Version(*version))
        }
    };
    changes.put(&key, &wanted, expected, Life::Lasting)?;
    Ok(true)
}

fn publish_homes(
    changes: &mut Changes<'_>,
    own: &Own,
    fleet: &Fleet,
    troubles: &mut Vec<String>,
) -> Result<(), StoreError> {
    let addresses: HashMap<&str, &str> = fleet
        .homes
        .iter()
        .flat_map(|(name, (home, _))| {
            home.addresses.iter().map(|address| (address.as_str(), name.as_str()))
        })
        .collect();
    for (name, home) in &own.homes {
        let shares = |address: &String| {
            let other = addresses.get(address.as_str()).filter(|other| *other != name)?;
            fleet.homes.get_key_value(*other)
        };
        if let Some((other, (there, _))) = home.addresses.iter().find_map(shares) {
            troubles.push(format!(
                "home {name} has an address of {other}, which is in the config of {}: give one \
                 another address",
                there.from
            ));
            continue;
        }
        let (wanted, expected) = match fleet.homes.get(name) {
            None => (Home { from: own.name.clone(), ..home.clone() }, Expected::Absent),
            // Its own record, or one of a concentrator that has left the fleet.
            Some((there, version))
                if there.from == own.name || !fleet.concentrators.contains_key(&there.from) =>
            {
                let same_line = there.enrolment_key == home.enrolment_key;
                let key = there.public_key.clone().filter(|_| same_line);
                let wanted = Home {
                    from: own.name.clone(),
                    public_key: home.public_key.clone().or(key),
                    pinned: there.pinned.clone(),
                    ..home.clone()
                };
                if wanted == *there {
                    continue;
                }
                (wanted, Expected::Version(*version))
            }
            Some((there, _)) => {
                let both = there.public_key.as_ref().zip(home.public_key.as_ref());
                if both.is_some_and(|(there, here)| there != here) {
                    troubles.push(format!(
                        "home {name} has a different key in the config of {}: rename or remove one",
                        there.from
                    ));
                }
                continue;
            }
        };
        changes.put(&Home::key(name), &wanted, expected, Life::Lasting)?;
    }
    for (name, (there, version)) in &fleet.homes {
        let version = Expected::Version(*version);
        if there.from == own.name && !own.homes.contains_key(name) {
            changes.remove(&Home::key(name), version)?;
            continue;
        }
        let Some(key) = own.joined.get(name) else { continue };
        match &there.public_key {
            None => {
                let joined = Home { public_key: Some(key.clone()), ..there.clone() };
                changes.put(&Home::key(name), &joined, version, Life::Lasting)?;
            }
            Some(other) if other != key => troubles.push(format!(
                "two routers used the join line of {name}: the one at {} is in",
                there.from
            )),
            Some(_) => {}
        }
    }
    Ok(())
}

/// Which homes must be left to another concentrator, with the epochs of their statements.
fn claim_all(
    changes: &mut Changes<'_>,
    own: &Own,
    fleet: &Fleet,
) -> Result<BTreeMap<String, u64>, StoreError> {
    let mut yields = BTreeMap::new();
    let names: BTreeSet<&String> = own.served.keys().chain(fleet.served.keys()).collect();
    for name in names {
        let key = Served::key(name);
        let word = own.served.get(name).copied();
        match claim::step(fleet.served.get(name), &own.name, word) {
            Step::Keep => {}
            Step::Take(expected) => {
                let served = Served { by: own.name.clone(), epoch: word.unwrap_or_default() };
                changes.put(&key, &served, expected, Life::Writer)?;
            }
            Step::Leave(expected) => drop(changes.remove(&key, expected)?),
            Step::Yield(epoch) => drop(yields.insert(name.clone(), epoch)),
        }
    }
    Ok(yields)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Sqlite;
    use crate::store::Entry;
    use std::sync::{Arc, Mutex};

    fn own(name: &str) -> Own {
        Own {
            name: name.to_owned(),
            concentrator: Concentrator {
                public_key: format!("key of {name}"),
                endpoints: vec![format!("{name}:51900")],
                capacity: 10,
                site: None,
                draining: false,
            },
            ..Own::default()
        }
    }

    struct Two {
        _folder: tempfile::TempDir,
        owns: [Own; 2],
        members: [Member; 2],
        stores: [Sqlite; 2],
    }

    impl Two {
        fn new() -> Two {
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("f.db");
            Two {
                _folder: folder,
                owns: [own("a"), own("b")],
                members: [Member::default(), Member::default()],
                stores: [Sqlite::open(&file).unwrap(), Sqlite::open(&file).unwrap()],
            }
        }

        /// Runs `count` rounds of each in turn; returns the results of the last. The clock stands
        /// still during a round, however slow the machine is.
        fn rounds(&mut self, count: usize) -> [Known; 2] {
            let mut known = [Known::default(), Known::default()];
            for _ in 0..count {
                for (number, known) in known.iter_mut().enumerate() {
                    let store = &mut self.stores[number];
                    let (own, now) = (&self.owns[number], Instant::now());
                    *known = self.members[number].round(store, own, || now).unwrap();
                }
            }
            known
        }
    }

    #[test]
    fn a_home_of_one_is_known_to_all_joins_at_any_and_goes_from_all() {
        let mut two = Two::new();
        let line = || Home { enrolment_key: Some("line".into()), ..Home::default() };
        two.owns[0].homes.insert("cabin".into(), line());
        let [_, b] = two.rounds(2);
        assert_eq!(b.fleet.homes["cabin"].0.enrolment_key.as_deref(), Some("line"));
        assert_eq!(b.ranks.len(), 1);
        // It joins at the other concentrator.
        two.owns[1].joined.insert("cabin".into(), "its key".into());
        let [a, _] = two.rounds(2);
        assert_eq!(a.fleet.homes["cabin"].0.public_key.as_deref(), Some("its key"));
        // Another router with the same line joins at the first.
        two.owns[0].joined.insert("cabin".into(), "another".into());
        let [a, _] = two.rounds(1);
        assert!(a.troubles[0].contains("two routers"), "{:?}", a.troubles);
        two.owns[0].joined.clear();
        // A new line shuts out the current router.
        let renewed = Home { enrolment_key: Some("second line".into()), ..line() };
        two.owns[0].homes.insert("cabin".into(), renewed);
        two.owns[1].joined.clear();
        let [a, _] = two.rounds(2);
        assert_eq!(a.fleet.homes["cabin"].0.public_key, None);
        two.owns[0].homes.clear();
        let [_, b] = two.rounds(2);
        assert!(b.fleet.homes.is_empty());
    }

    #[test]
    fn who_serves_is_written_down_once_and_the_one_before_yields() {
        let mut two = Two::new();
        two.owns[0].homes.insert("cabin".into(), Home::default());
        two.owns[0].served.insert("cabin".into(), 5);
        let [a, b] = two.rounds(2);
        assert_eq!(b.fleet.served["cabin"].0, Served { by: "a".into(), epoch: 5 });
        assert_eq!(a.fleet.alive["a"].homes, 1);
        // It has moved, and the first hasn't heard of it.
        two.owns[1].served.insert("cabin".into(), 6);
        let [a, b] = two.rounds(2);
        assert_eq!((a.yields.get("cabin"), b.yields.len()), (Some(&6), 0));
        assert_eq!(b.fleet.served["cabin"].0, Served { by: "b".into(), epoch: 6 });
    }

    #[test]
    fn many_changes_take_many_rounds_and_what_lives_is_said_first() {
        let mut two = Two::new();
        let home = || Home { public_key: Some("key".into()), ..Home::default() };
        two.owns[0].homes = (0..450).map(|number| (format!("h{number}"), home())).collect();
        for (rounds, homes) in [(1, 198), (1, 398), (1, 450)] {
            let [_, b] = two.rounds(rounds);
            assert_eq!((b.fleet.homes.len(), b.fleet.alive.contains_key("a")), (homes, true));
        }
    }

    /// With a clock that advances by half a second per change.
    #[test]
    fn however_slow_a_change_is_the_lease_is_renewed_in_time() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = Slow {
            inner: Sqlite::open(&folder.path().join("f.db")).unwrap(),
            now: Arc::new(Mutex::new(Instant::now())),
            renewed: vec![],
        };
        let now = Arc::clone(&store.now);
        let mut own = own("a");
        own.served = (0..60).map(|number| (format!("h{number}"), 1)).collect();
        let mut member = Member::default();
        let mut rounds = 0;
        loop {
            let known = member.round(&mut store, &own, || *now.lock().unwrap()).unwrap();
            rounds += 1;
            if known.fleet.served.len() == own.served.len() {
                break;
            }
            assert!(rounds < 60, "{}", known.fleet.served.len());
        }
        assert!(rounds > 5);
        assert!(store.renewed.windows(2).all(|two| two[1] - two[0] < LEASE));
    }

    struct Slow {
        inner: Sqlite,
        now: Arc<Mutex<Instant>>,
        renewed: Vec<Instant>,
    }

    impl Slow {
        fn takes(&self) {
            *self.now.lock().unwrap() += Duration::from_millis(500);
        }
    }

    impl Store for Slow {
        fn read(&mut self) -> Result<Vec<Entry>, StoreError> {
            self.inner.read()
        }
        fn write(
            &mut self,
            key: &str,
            value: &str,
            expected: Expected,
            life: Life,
        ) -> Result<Written, StoreError> {
            self.takes();
            self.inner.write(key, value, expected, life)
        }
        fn remove(&mut self, key: &str, expected: Expected) -> Result<Written, StoreError> {
            self.takes();
            self.inner.remove(key, expected)
        }
        fn keep_alive(&mut self, lease: Duration) -> Result<bool, StoreError> {
            self.renewed.push(*self.now.lock().unwrap());
            self.inner.keep_alive(lease)
        }
    }

    #[test]
    fn homes_of_one_that_has_left_are_whoever_has_them_in_its_config() {
        let mut two = Two::new();
        two.owns[0].homes.insert("cabin".into(), Home::default());
        two.rounds(1);
        two.owns[1].homes.insert("cabin".into(), Home::default());
        let [_, b] = two.rounds(1);
        assert_eq!(b.fleet.homes["cabin"].0.from, "a", "its own concentrator is there");
        two.stores[0].remove(&Concentrator::key("a"), Expected::Any).unwrap();
        for _ in 0..2 {
            let (member, store) = (&mut two.members[1], &mut two.stores[1]);
            member.round(store, &two.owns[1], Instant::now).unwrap();
        }
        let fleet = Fleet::parse(&two.stores[1].read().unwrap()).unwrap();
        assert_eq!(fleet.homes["cabin"].0.from, "b");
    }

    #[test]
    fn an_address_is_one_homes() {
        let mut two = Two::new();
        let home = || Home { addresses: vec!["10.77.0.2/32".into()], ..Home::default() };
        two.owns[0].homes.insert("cabin".into(), home());
        two.rounds(1);
        two.owns[1].homes.insert("boat".into(), home());
        let [a, b] = two.rounds(2);
        assert!(b.troubles[0].contains("an address of cabin"), "{:?}", b.troubles);
        assert!(a.troubles.is_empty() && !a.fleet.homes.contains_key("boat"));
    }

    #[test]
    fn one_name_is_one_concentrator() {
        let mut two = Two::new();
        two.owns[1].name = "a".into();
        let [a, b] = two.rounds(2);
        assert!(a.troubles.is_empty() && b.troubles[0].contains("is named a"));
        assert_eq!(a.fleet.concentrators["a"].0.public_key, "key of a");
    }
}
