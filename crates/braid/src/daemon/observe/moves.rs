//! Moves of homes between concentrators, as each end sees them.

use super::steady::{Change, Patience, Steady};
use braid_control::status::{PeerStatus, Status};
use std::collections::BTreeMap;
use std::time::Duration;

/// As long as for other detours; a home that returns sooner has hardly been away.
const LASTS: Duration = Duration::from_secs(5);
const PATIENCE: Patience = Patience { down: LASTS, up: LASTS };
/// How many homes are named when several move together.
const NAMED: usize = 10;

/// Who serves whom.
#[derive(Default)]
pub struct Moves {
    /// At home: which concentrator serves instead of each one that others stand in for.
    serving: BTreeMap<String, Serving>,
    /// At a concentrator: whether each home that has others is served here.
    here: BTreeMap<String, Steady>,
}

/// The event to report.
#[derive(Debug, PartialEq, Eq)]
pub struct Moved {
    /// The home, or who serves it now; empty for several.
    pub subject: String,
    /// In words.
    pub text: String,
}

struct Serving {
    told: String,
    now: String,
    since: Duration,
}

impl Moves {
    /// The moves that have lasted; `now` is since any moment.
    pub fn observe(&mut self, status: &Status, now: Duration) -> Vec<Moved> {
        match status.listen.is_empty() {
            true => self.of_this_home(status, now),
            false => self.of_homes(status, now),
        }
    }

    fn of_this_home(&mut self, status: &Status, now: Duration) -> Vec<Moved> {
        let peers = &status.peers;
        let has_others = |owner: &&PeerStatus| {
            peers.iter().any(|peer| peer.stands_in_for.as_ref() == Some(&owner.name))
        };
        let owners: Vec<&PeerStatus> = peers.iter().filter(has_others).collect();
        self.serving.retain(|name, _| owners.iter().any(|owner| owner.name == *name));
        let mut moved = Vec::new();
        for owner in owners {
            let by = owner.served_by.as_ref().unwrap_or(&owner.name);
            let serving = self.serving.entry(owner.name.clone());
            let serving = serving.or_insert_with(|| Serving {
                told: by.clone(),
                now: by.clone(),
                since: now,
            });
            if serving.now != *by {
                (serving.now, serving.since) = (by.clone(), now);
            }
            if serving.told == serving.now || now.saturating_sub(serving.since) < LASTS {
                continue;
            }
            let before = std::mem::replace(&mut serving.told, serving.now.clone());
            let text = format!("{by} now serves this home instead of {before}");
            moved.push(Moved { subject: by.clone(), text });
        }
        moved
    }

    fn of_homes(&mut self, status: &Status, now: Duration) -> Vec<Moved> {
        let (mut come, mut gone) = (Vec::new(), Vec::new());
        self.here.retain(|name, _| status.peers.iter().any(|home| home.name == *name));
        for home in &status.peers {
            // A home without another concentrator doesn't state it.
            let Some(here) = home.served_here else { continue };
            let steady = self.here.entry(home.name.clone());
            let steady = steady.or_insert_with(|| Steady::new(PATIENCE, now));
            let was_known = !steady.was_never_told();
            match steady.observe(here, now) {
                Some(Change::Up) => come.push(home.name.as_str()),
                Some(Change::Down) if was_known => gone.push(home.name.as_str()),
                // The initial state is not a move; a flapping one is reported elsewhere.
                Some(Change::First | Change::Down | Change::Flapping) | None => {}
            }
        }
        let came = told(&come, "served here now");
        came.into_iter().chain(told(&gone, "served by another concentrator now")).collect()
    }
}

fn told(homes: &[&str], how: &str) -> Option<Moved> {
    match homes {
        [] => None,
        [home] => Some(Moved { subject: (*home).to_owned(), text: format!("{home} is {how}") }),
        homes => {
            let named = homes.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
            let others = match homes.len().saturating_sub(NAMED) {
                0 => String::new(),
                others => format!(" and {others} more"),
            };
            let text = format!("{} homes are {how}: {named}{others}", homes.len());
            Some(Moved { subject: String::new(), text })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(name: &str) -> PeerStatus {
        PeerStatus { name: name.into(), connected: true, ..PeerStatus::default() }
    }

    /// The events when each of these statuses lasts this many seconds, one after another.
    fn told(steps: &[(Status, u64)]) -> Vec<String> {
        let (mut moves, mut now) = (Moves::default(), 0);
        let mut told = Vec::new();
        for (status, seconds) in steps {
            for _ in 0..*seconds {
                let moved = moves.observe(status, Duration::from_secs(now));
                told.extend(moved.into_iter().map(|moved| moved.text));
                now += 1;
            }
        }
        told
    }

    #[test]
    fn a_home_tells_who_serves_it_when_that_has_changed_for_a_while() {
        let by = |serving: Option<&str>| {
            let first = PeerStatus { served_by: serving.map(str::to_owned), ..peer("first") };
            let stand_in = |name| PeerStatus { stands_in_for: Some("first".into()), ..peer(name) };
            Status {
                peers: vec![first, stand_in("second"), stand_in("third")],
                ..Status::default()
            }
        };
        let second = || by(Some("second"));
        let steps =
            [(second(), 9), (by(None), 20), (second(), 3), (by(None), 20), (by(Some("third")), 20)];
        let expected = [
            "first now serves this home instead of second",
            "third now serves this home instead of first",
        ];
        assert_eq!(told(&steps), expected, "not what was so at the start, and not a moment's");
        let alone = Status { peers: vec![peer("first")], ..Status::default() };
        assert_eq!(told(&[(alone, 20)]), [""; 0]);
    }

    #[test]
    fn a_concentrator_tells_which_homes_have_come_and_gone() {
        let homes = |here: &[(&str, Option<bool>)]| Status {
            listen: vec!["192.0.2.1:51900".parse().unwrap()],
            peers: here
                .iter()
                .map(|(name, here)| PeerStatus { served_here: *here, ..peer(name) })
                .collect(),
            ..Status::default()
        };
        let all = |here| homes(&[("a", Some(here)), ("b", Some(here)), ("c", None)]);
        let one = homes(&[("a", Some(true)), ("b", Some(false)), ("c", None)]);
        let steps =
            [(all(false), 20), (all(true), 20), (all(false), 2), (all(true), 20), (one, 20)];
        let expected =
            ["2 homes are served here now: a, b", "b is served by another concentrator now"];
        assert_eq!(told(&steps), expected);
        // One that starts here is announced as new, if it is.
        assert_eq!(told(&[(homes(&[]), 20), (all(true), 20)]), [""; 0]);
    }

    #[test]
    fn of_many_that_move_together_some_are_named() {
        let names: Vec<String> = (0..25).map(|number| format!("h{number}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let Moved { subject, text } = super::told(&names, "served here now").unwrap();
        assert_eq!(subject, "");
        assert!(text.starts_with("25 homes") && text.ends_with("h9 and 15 more"), "{text}");
    }
}
