//! Which concentrator a home is for: highest random weight (Thaler and Ravishankar, "Using
//! Name-Based Mappings to Increase Hit Rates", 1998), weighted by capacity. Pure.
//!
//! Each concentrator computes it from the same records, so no agreement is needed. If one fails,
//! only its own homes move, spread over the others, and they return when it does.

use crate::records::{Concentrator, Fleet, Home};
use braid_wire::Service;
use sha2::{Digest, Sha256};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// The most willing.
pub const FIRST: u8 = 0;
/// Has no room: used only if no other answers.
pub const FULL: u8 = Service::FULL;
/// Draining.
pub const DRAINING: u8 = Service::DRAINING;

/// How many concentrators a home is referred to: its own and two more, so that an alternative is
/// left when one fails. If all of them are full, it is also referred to one that has room.
const REFERRALS: usize = 3;

/// The fleet's concentrators in this home's order of preference: first the one that it was moved to
/// manually, last those that drain. The second is at another site than the first, if there is one.
pub fn order<'a>(fleet: &'a Fleet, name: &str, home: &Home) -> Vec<&'a str> {
    let mut order: Vec<(bool, bool, f64, &str)> = fleet
        .concentrators
        .iter()
        .map(|(other, (concentrator, _))| {
            let elsewhere = home.pinned.as_deref() != Some(other.as_str());
            let distance = distance(name, other, concentrator);
            (fleet.drains(other), elsewhere, distance, other.as_str())
        })
        .collect();
    order.sort_by(|a, b| (a.0, a.1).cmp(&(b.0, b.1)).then(a.2.total_cmp(&b.2)).then(a.3.cmp(b.3)));
    let mut names: Vec<&str> = order.iter().map(|(.., name)| *name).collect();
    let site = |name: &str| fleet.concentrators.get(name).and_then(|(it, _)| it.site.as_deref());
    if let Some(first) = names.first().and_then(|name| site(name)) {
        let elsewhere = |(drains, .., name): &(bool, bool, f64, &str)| {
            !drains && site(name).is_some_and(|site| site != first)
        };
        if let Some(place) = order.iter().position(elsewhere).filter(|place| *place > 1) {
            let stand_in = names.remove(place);
            names.insert(1, stand_in);
        }
    }
    names
}

/// One concentrator's places in the orders of all homes. Only those that may have changed are
/// recomputed: for 10,000 homes and 100 concentrators, all of them are a million hashes.
#[derive(Clone, Debug, Default)]
pub struct Places {
    concentrators: Vec<Placed>,
    /// By the homes' names.
    places: BTreeMap<String, HomePlacement>,
    /// Homes for which there is no room here nor at their other referrals, and the concentrator
    /// that has room.
    elsewhere: BTreeMap<String, String>,
    /// Homes that were told that this concentrator is full.
    told: BTreeSet<String>,
    /// Of the homes too many, those still here at the next call: they know of no working
    /// concentrator with room.
    stuck: BTreeSet<String>,
}

/// What the order depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Placed {
    name: String,
    capacity: u32,
    site: Option<String>,
    drains: bool,
    /// Homes are referred only to live ones.
    lives: bool,
}

/// Of one home.
#[derive(Clone, Debug)]
struct HomePlacement {
    /// Where it was moved to manually.
    pinned: Option<String>,
    /// This concentrator's place.
    own: u8,
    /// Indexes of the concentrators that it is referred to.
    referrals: Vec<u16>,
}

impl Places {
    /// How willing `me`, which serves the homes `here`, is to serve each home: 0 is the most, else
    /// its place in the home's order. When others were gone, more homes may have come at once than
    /// there is room for: the excess is told that it is full, guests first. If it is still there at
    /// the next call, as many others are told as well.
    ///
    /// Those that were `refused` when they came are on their way to another: they are referred to
    /// one that has room.
    pub fn ranks<T>(
        &mut self,
        fleet: &Fleet,
        me: &str,
        here: &BTreeMap<String, T>,
        refused: &BTreeSet<String>,
    ) -> BTreeMap<String, u8> {
        self.stuck.append(&mut self.told);
        self.stuck.retain(|name| here.contains_key(name));
        self.ranks_between(fleet, me, here, refused)
    }

    /// Like [`Self::ranks`], between two reads of the registry: homes that were told have had no
    /// time to leave yet.
    pub fn ranks_between<T>(
        &mut self,
        fleet: &Fleet,
        me: &str,
        here: &BTreeMap<String, T>,
        refused: &BTreeSet<String>,
    ) -> BTreeMap<String, u8> {
        let placed = |(name, (it, _)): (&String, &(Concentrator, i64))| Placed {
            name: name.clone(),
            capacity: it.capacity,
            site: it.site.clone(),
            drains: fleet.drains(name),
            lives: fleet.alive.contains_key(name),
        };
        let concentrators: Vec<Placed> = fleet.concentrators.iter().map(placed).collect();
        if self.concentrators != concentrators {
            (self.concentrators, self.places) = (concentrators, BTreeMap::new());
            self.elsewhere = BTreeMap::new();
        }
        self.places.retain(|name, _| fleet.homes.contains_key(name));
        let own = fleet.concentrators.get(me);
        let has_room = own.is_some_and(|(own, _)| (here.len() as u64) < u64::from(own.capacity));
        let drains = fleet.drains(me);
        for (name, (home, _)) in &fleet.homes {
            if self.places.get(name).is_none_or(|place| place.pinned != home.pinned) {
                let place = place(fleet, &self.concentrators, me, name, home);
                self.places.insert(name.clone(), place);
            }
        }
        let capacity = own.map_or(u32::MAX, |(own, _)| own.capacity);
        let capacity = usize::try_from(capacity).unwrap_or(usize::MAX);
        if here.len() <= capacity {
            self.stuck.clear();
        }
        let too_many = self.too_many(here, capacity);
        let elsewhere = self.elsewhere(fleet, me, &too_many, refused);
        let rank = |name: &String| {
            let may_stay = here.contains_key(name) && !too_many.contains(name.as_str());
            let rank = match (drains, has_room || may_stay) {
                (true, _) => DRAINING,
                (false, false) => FULL,
                (false, true) => self.places.get(name).map_or(FULL, |place| place.own),
            };
            (name.clone(), rank)
        };
        let ranks = fleet.homes.keys().map(rank).collect();
        let told = too_many.into_iter().map(str::to_owned).collect();
        (self.elsewhere, self.told) = (elsewhere, told);
        ranks
    }

    /// Whether another than `me` has room, as of the registry's records. If none has, homes that
    /// come are served here, however many.
    pub fn others_have_room(fleet: &Fleet, me: &str) -> bool {
        fleet.concentrators.iter().any(|(name, (it, _))| {
            let served = fleet.alive.get(name).map(|alive| alive.homes);
            name != me && !fleet.drains(name) && served.is_some_and(|served| served < it.capacity)
        })
    }

    /// Of each the first of its order that has room. One that is here needs none where one has room
    /// to which it is referred anyway; one that was `refused` comes from those that fell silent,
    /// of which the records say nothing yet: for it one of our own site goes first, which works.
    /// Who was told of one hears of the same for as long as that has room.
    fn elsewhere(
        &self,
        fleet: &Fleet,
        me: &str,
        too_many: &BTreeSet<&str>,
        refused: &BTreeSet<String>,
    ) -> BTreeMap<String, String> {
        let mut room: BTreeMap<&str, u32> = BTreeMap::new();
        for it in self.concentrators.iter().filter(|it| it.lives && !it.drains && it.name != me) {
            let served = fleet.alive.get(&it.name).map_or(0, |alive| alive.homes);
            room.insert(&it.name, it.capacity.saturating_sub(served));
        }
        let has_room =
            |room: &BTreeMap<&str, u32>, name: &str| room.get(name).is_some_and(|it| *it > 0);
        let site =
            |name: &str| fleet.concentrators.get(name).and_then(|(it, _)| it.site.as_deref());
        let mut elsewhere = BTreeMap::new();
        // Before others take the room of those that were told of one.
        let refused: BTreeSet<&str> = refused.iter().map(String::as_str).collect();
        let mut names: Vec<&str> = too_many.union(&refused).copied().collect();
        names.sort_by_key(|name| !self.elsewhere.contains_key(*name));
        for name in names {
            let referred = self.places.get(name).into_iter().flat_map(|it| &it.referrals);
            let referred = referred.filter_map(|place| self.concentrators.get(usize::from(*place)));
            let is_refused = refused.contains(name);
            if !is_refused && referred.clone().any(|it| has_room(&room, &it.name)) {
                continue;
            }
            let known = self.elsewhere.get(name).map(String::as_str);
            let known = known.filter(|it| has_room(&room, it));
            let Some((home, _)) = fleet.homes.get(name) else { continue };
            let first = || {
                let mut order = order(fleet, name, home);
                order.retain(|it| has_room(&room, it) && referred.clone().all(|of| of.name != *it));
                let near = order.iter().find(|it| is_refused && site(it) == site(me));
                near.or(order.first()).copied()
            };
            if let Some(to) = known.or_else(first) {
                elsewhere.insert(name.to_owned(), to.to_owned());
                room.entry(to).and_modify(|it| *it -= 1);
            }
        }
        elsewhere
    }

    /// The homes here for which there is no room: those that prefer this concentrator least, and
    /// weren't moved here manually. In addition to stuck homes, which are on their way to where
    /// they were referred, as many others.
    fn too_many<'a, T>(&self, here: &'a BTreeMap<String, T>, capacity: usize) -> BTreeSet<&'a str> {
        let excess = here.len().saturating_sub(capacity);
        if excess == 0 {
            return BTreeSet::new();
        }
        let guest = |name: &'a String| {
            let place = self.places.get(name)?;
            let is_guest = place.own > FIRST && place.pinned.is_none();
            is_guest.then_some((Reverse(place.own), name.as_str()))
        };
        let guests: BTreeSet<_> = here.keys().filter_map(guest).collect();
        let guests = guests.into_iter().map(|(_, name)| name);
        let (stuck, others): (Vec<_>, Vec<_>) = guests.partition(|name| self.stuck.contains(*name));
        stuck.into_iter().take(excess).chain(others.into_iter().take(excess)).collect()
    }
}

impl Places {
    /// For each home, as of the last [`ranks`](Self::ranks): the concentrators that should serve
    /// it, the first of its order that are alive and not draining; and, if none of them has room,
    /// one that has.
    pub fn referrals(&self) -> impl Iterator<Item = (&str, Vec<&str>)> {
        let name = |place: &u16| Some(self.concentrators.get(usize::from(*place))?.name.as_str());
        self.places.iter().map(move |(home, place)| {
            let elsewhere = self.elsewhere.get(home).map(String::as_str);
            (home.as_str(), place.referrals.iter().filter_map(name).chain(elsewhere).collect())
        })
    }
}

fn place(fleet: &Fleet, known: &[Placed], me: &str, name: &str, home: &Home) -> HomePlacement {
    let order = order(fleet, name, home);
    let own = order.iter().position(|other| *other == me);
    let own = own.and_then(|place| u8::try_from(place).ok());
    let index = |name: &str| known.binary_search_by(|it| it.name.as_str().cmp(name)).ok();
    let usable = |place: &usize| known.get(*place).is_some_and(|it| it.lives && !it.drains);
    let referrals = order.iter().filter_map(|name| index(name)).filter(usable);
    HomePlacement {
        pinned: home.pinned.clone(),
        own: own.map_or(FULL, |place| place.min(FULL - 1)),
        referrals: referrals.take(REFERRALS).filter_map(|place| place.try_into().ok()).collect(),
    }
}

/// An exponentially distributed number for each pair, with the capacity as its rate: each
/// concentrator has the lowest with a probability proportional to its capacity.
fn distance(home: &str, name: &str, concentrator: &Concentrator) -> f64 {
    let mut hash = Sha256::new();
    for part in [home, name] {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    let bytes = hash.finalize();
    let number = bytes.iter().take(8).fold(0u64, |number, byte| number << 8 | u64::from(*byte));
    // In (0, 1]: 53 bits, as many as fit.
    let uniform = ((number >> 11) + 1) as f64 / (1u64 << 53) as f64;
    -uniform.ln() / f64::from(concentrator.capacity.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::Alive;

    fn fleet(capacities: &[u32]) -> Fleet {
        let concentrators = capacities.iter().enumerate().map(|(number, &capacity)| {
            let concentrator = Concentrator { capacity, ..Concentrator::default() };
            (format!("c{number}"), (concentrator, 1))
        });
        Fleet { concentrators: concentrators.collect(), ..Fleet::default() }
    }

    fn first(fleet: &Fleet) -> Vec<String> {
        let home = Home::default();
        (0..3000).map(|n| order(fleet, &format!("h{n}"), &home)[0].to_owned()).collect()
    }

    #[test]
    fn each_is_for_as_many_as_its_capacity_says() {
        let firsts = first(&fleet(&[100, 200, 300]));
        let mut counts = BTreeMap::new();
        for name in firsts {
            *counts.entry(name).or_insert(0u32) += 1;
        }
        for (name, wanted) in [("c0", 500i64), ("c1", 1000), ("c2", 1500)] {
            let count = i64::from(counts[name]);
            assert!((count - wanted).abs() < 150, "{name}: {count}");
        }
    }

    #[test]
    fn one_that_goes_moves_its_own_homes_alone_and_spreads_them() {
        let all = fleet(&[100; 10]);
        let before = first(&all);
        let mut fewer = all.clone();
        fewer.concentrators.remove("c3");
        let after = first(&fewer);
        let mut gone_to = BTreeMap::new();
        for (before, after) in before.iter().zip(&after) {
            match before.as_str() {
                "c3" => *gone_to.entry(after).or_insert(0u32) += 1,
                _ => assert_eq!(before, after),
            }
        }
        assert_eq!(gone_to.len(), 9, "to all the others");
        assert!(gone_to.values().all(|count| *count < 60), "{gone_to:?}");
    }

    #[test]
    fn the_second_is_at_another_site_and_the_first_stays_who_it_is() {
        let mut racks = fleet(&[100; 9]);
        let before = first(&racks);
        for (number, (concentrator, _)) in racks.concentrators.values_mut().enumerate() {
            concentrator.site = Some(format!("rack{}", number / 3));
        }
        assert_eq!(first(&racks), before);
        let home = Home::default();
        let site = |name: &str| racks.concentrators[name].0.site.clone();
        let mut seconds = BTreeMap::new();
        for number in 0..900 {
            let order = order(&racks, &format!("h{number}"), &home);
            assert_eq!(order.len(), 9);
            assert_ne!(site(order[0]), site(order[1]), "{order:?}");
            *seconds.entry(order[1].to_owned()).or_insert(0) += 1;
        }
        assert!(seconds.values().all(|count| (60..150).contains(count)), "{seconds:?}");
        // If all share a site, or the others drain, it is as without sites.
        let mut one = racks.clone();
        one.concentrators.values_mut().for_each(|(it, _)| it.site = Some("here".into()));
        assert_eq!(order(&one, "h1", &home), order(&fleet(&[100; 9]), "h1", &home));
        let mut draining = racks.clone();
        let here = site(order(&racks, "h1", &home)[0]);
        for (concentrator, _) in draining.concentrators.values_mut() {
            concentrator.draining = concentrator.site != here;
        }
        assert_eq!(site(order(&draining, "h1", &home)[1]), here);
    }

    #[test]
    fn a_home_is_referred_to_the_first_three_that_live_and_stay() {
        let mut fleet = fleet(&[10; 6]);
        fleet.homes.insert("cabin".into(), (Home::default(), 1));
        let names: Vec<String> = fleet.concentrators.keys().cloned().collect();
        fleet.alive.extend(names.iter().map(|name| (name.clone(), Alive::default())));
        let mut places = Places::default();
        let mut referred = |fleet: &Fleet| -> Vec<String> {
            places.ranks::<()>(fleet, "c0", &BTreeMap::new(), &BTreeSet::new());
            let all: Vec<_> = places.referrals().collect();
            let [("cabin", names)] = all.as_slice() else { panic!("{all:?}") };
            names.iter().map(|name| (*name).to_owned()).collect()
        };
        let order: Vec<String> =
            order(&fleet, "cabin", &Home::default()).into_iter().map(str::to_owned).collect();
        assert_eq!(referred(&fleet), order[..3]);
        fleet.alive.remove(&order[0]);
        fleet.concentrators.get_mut(&order[2]).unwrap().0.draining = true;
        assert_eq!(referred(&fleet), [&order[1], &order[3], &order[4]].map(String::clone));
    }

    #[test]
    fn where_all_are_full_the_excess_is_referred_to_one_that_has_room() {
        let mut fleet = fleet(&[10; 8]);
        let homes = (0..400).map(|number| (format!("h{number}"), (Home::default(), 1)));
        fleet.homes = homes.collect();
        let full = Alive { homes: 10, ..Alive::default() };
        let names: Vec<String> = fleet.concentrators.keys().cloned().collect();
        fleet.alive.extend(names.iter().map(|name| (name.clone(), full)));
        fleet.alive.insert("c6".into(), Alive { homes: 8, ..Alive::default() });
        fleet.alive.insert("c7".into(), Alive { homes: 7, ..Alive::default() });
        let of =
            |name: &str| order(&fleet, name, &fleet.homes[name].0).into_iter().map(str::to_owned);
        // Guests of c0 that have neither of them among their three.
        let is_guest = |name: &&String| {
            let three: Vec<String> = of(name).take(3).collect();
            three[1..].contains(&"c0".into())
                && !three.iter().any(|it| ["c5", "c6", "c7"].contains(&it.as_str()))
        };
        let guests = fleet.homes.keys().filter(is_guest).take(16);
        let here: BTreeMap<String, ()> = guests.map(|name| (name.clone(), ())).collect();
        assert_eq!(here.len(), 16);
        let mut places = Places::default();
        let mut elsewhere = |fleet: &Fleet, here: &BTreeMap<String, ()>| {
            places.ranks(fleet, "c0", here, &BTreeSet::new());
            let fourth = |(home, names): (&str, Vec<&str>)| {
                Some((home.to_owned(), (*names.get(3)?).to_owned()))
            };
            places.referrals().filter_map(fourth).collect::<BTreeMap<_, _>>()
        };
        let sent = elsewhere(&fleet, &here);
        let to = |name: &str| sent.values().filter(|it| *it == name).count();
        assert_eq!((sent.len(), to("c6"), to("c7")), (5, 2, 3), "as many as there is room for");
        // The one that the home was told of still has room, although another has, too.
        fleet.alive.insert("c5".into(), Alive::default());
        let later = elsewhere(&fleet, &here);
        assert_eq!(later.len(), 12, "six more, as those are still there");
        assert!(sent.iter().all(|(home, to)| later[home] == *to), "{sent:?} {later:?}");
        let fewer: BTreeMap<String, ()> = here.into_iter().take(10).collect();
        assert!(elsewhere(&fleet, &fewer).is_empty());
    }

    #[test]
    fn one_that_was_refused_is_referred_to_one_with_room_of_the_site_that_works() {
        let mut fleet = fleet(&[10; 8]);
        fleet.homes.insert("cabin".into(), (Home::default(), 1));
        for (number, (it, _)) in fleet.concentrators.values_mut().enumerate() {
            it.site = Some(format!("rack{}", number % 2));
        }
        let names: Vec<String> = fleet.concentrators.keys().cloned().collect();
        fleet.alive.extend(names.into_iter().map(|name| (name, Alive::default())));
        let order: Vec<String> =
            order(&fleet, "cabin", &Home::default()).into_iter().map(str::to_owned).collect();
        let refused = BTreeSet::from(["cabin".to_owned()]);
        let mut places = Places::default();
        let mut referred = |fleet: &Fleet, refused: &BTreeSet<String>| -> Vec<String> {
            places.ranks::<()>(fleet, &order[1], &BTreeMap::new(), refused);
            let all: Vec<_> = places.referrals().collect();
            all[0].1.iter().map(|name| (*name).to_owned()).collect()
        };
        assert_eq!(referred(&fleet, &BTreeSet::new()), order[..3]);
        let of_site = |name: &&String| {
            fleet.concentrators[*name].0.site == fleet.concentrators[&order[1]].0.site
        };
        let fourth = order[3..].iter().find(of_site).unwrap().clone();
        // The records say yet that the first has room, though it is silent.
        assert_eq!(
            referred(&fleet, &refused),
            [&order[..3], std::slice::from_ref(&fourth)].concat()
        );
        assert!(Places::others_have_room(&fleet, &order[1]));
        let mut full = fleet.clone();
        full.alive.values_mut().for_each(|alive| alive.homes = 10);
        assert_eq!(referred(&full, &refused), order[..3], "nobody has room");
        assert!(!Places::others_have_room(&full, &order[1]));
    }

    #[test]
    fn who_is_told_and_stays_is_told_on_and_others_are_told_instead() {
        let mut fleet = fleet(&[10, 10, 10]);
        let homes = (0..60).map(|number| (format!("h{number}"), (Home::default(), 1)));
        fleet.homes = homes.collect();
        let is_guest = |name: &&String| order(&fleet, name, &Home::default())[0] != "c0";
        let guests = fleet.homes.keys().filter(is_guest).take(12);
        let here: BTreeMap<String, ()> = guests.map(|name| (name.clone(), ())).collect();
        let mut places = Places::default();
        let mut full = |here: &BTreeMap<String, ()>, is_look: bool| -> Vec<String> {
            let ranks = match is_look {
                true => places.ranks(&fleet, "c0", here, &BTreeSet::new()),
                false => places.ranks_between(&fleet, "c0", here, &BTreeSet::new()),
            };
            here.keys().filter(|name| ranks[*name] == FULL).cloned().collect()
        };
        let first = full(&here, true);
        assert_eq!(first.len(), 2);
        assert_eq!(full(&here, false), first, "they need a moment");
        let mut seen: BTreeSet<String> = first.iter().cloned().collect();
        for others in 1..=5 {
            let told = full(&here, true);
            assert_eq!(told.len(), 4, "two more");
            assert!(first.iter().all(|name| told.contains(name)));
            seen.extend(told);
            assert_eq!(seen.len(), 2 + 2 * others, "others each time");
        }
        assert_eq!(full(&here, true), first, "nobody can go");
        // Two other homes leave, and none is told any more.
        let mut fewer = here.clone();
        for name in seen.iter().filter(|name| !first.contains(name)).take(2) {
            fewer.remove(name);
        }
        assert!(full(&fewer, false).is_empty());
        assert_eq!(full(&here, true), first, "from the beginning");
    }

    #[test]
    fn a_rank_is_the_place_in_the_homes_order_and_the_last_ones_mean_something() {
        let mut fleet = fleet(&[10, 10, 10]);
        fleet.homes.insert("cabin".into(), (Home::default(), 1));
        let serves = |count: usize| -> BTreeMap<String, ()> {
            (0..count).map(|number| (format!("another{number}"), ())).collect()
        };
        let mut places = BTreeMap::<String, Places>::new();
        let mut rank = |fleet: &Fleet, me: &str, here: &BTreeMap<String, ()>| {
            let places = places.entry(me.to_owned()).or_default();
            places.ranks(fleet, me, here, &BTreeSet::new())["cabin"]
        };
        let order = order(&fleet, "cabin", &Home::default()).into_iter().map(str::to_owned);
        let names: Vec<String> = order.collect();
        for (place, name) in names.iter().enumerate() {
            assert_eq!(rank(&fleet, name, &serves(3)), place as u8);
        }
        assert_eq!(rank(&fleet, "c1", &serves(10)), FULL);
        let mut with_it = serves(9);
        with_it.insert("cabin".into(), ());
        assert!(rank(&fleet, "c1", &with_it) < 3, "it has its place already");
        assert_eq!(rank(&fleet, "stranger", &with_it), FULL);
        // There are two homes too many, one of which prefers other concentrators.
        let mut crowded = serves(11);
        crowded.insert("cabin".into(), ());
        assert_eq!(rank(&fleet, &names[2], &crowded), FULL);
        assert_eq!(rank(&fleet, &names[0], &crowded), FIRST, "it is for this one");
        fleet.homes.get_mut("cabin").unwrap().0.pinned = Some("c2".into());
        assert_eq!(rank(&fleet, "c2", &serves(3)), FIRST);
        fleet.concentrators.get_mut("c2").unwrap().0.draining = true;
        assert_eq!(rank(&fleet, "c2", &with_it), DRAINING);
        assert_eq!(super::order(&fleet, "cabin", &fleet.homes["cabin"].0)[2], "c2");
        fleet.homes.clear();
        let ranks = Places::default().ranks(&fleet, "c1", &with_it, &BTreeSet::new());
        assert!(ranks.is_empty());
    }
}
