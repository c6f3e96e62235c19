//! Chooses an interface for each link that is configured by properties (`match`) instead of a name.
//! An interface serves at most one link. Pure.

use super::hardware::Hardware;
use braid_control::config::LinkMatch;
use std::cmp::Reverse;
use std::collections::HashMap;

/// An interface that no other link names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// The kernel's number of it.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Whether it is up and has a carrier.
    pub works: bool,
    /// What it is.
    pub hardware: Hardware,
    /// Name and UUID of the NetworkManager connection that is active on it.
    pub connection: Option<(String, String)>,
}

/// The interfaces by the links' `match`: their index, or why there is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chosen(HashMap<LinkMatch, Result<u32, String>>);

impl Chosen {
    /// The index of the chosen interface; otherwise why there is none.
    pub fn of(&self, wanted: &LinkMatch) -> Result<u32, String> {
        let nothing = || Err(format!("no interface matches {wanted}"));
        self.0.get(wanted).cloned().unwrap_or_else(nothing)
    }
}

/// Chooses so that as many links as possible have an interface; links with more conditions choose
/// first, then earlier ones. Among several interfaces a link prefers one that works, then the one
/// that it had, then the oldest.
pub fn choose(wanted: &[&LinkMatch], interfaces: &[Interface], before: &Chosen) -> Chosen {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by_key(|link| Reverse(wanted[*link].conditions()));
    let by_preference = wanted.iter().map(|wanted| {
        let had = before.of(wanted).ok();
        let mut fitting: Vec<usize> =
            (0..interfaces.len()).filter(|at| fits(wanted, &interfaces[*at])).collect();
        fitting.sort_by_key(|at| {
            let it = &interfaces[*at];
            (!it.works, Some(it.index) != had, it.index)
        });
        fitting
    });
    let mut seats = Seats {
        by_preference: by_preference.collect(),
        holders: vec![None; interfaces.len()],
        asked: Vec::new(),
    };
    for link in order {
        seats.asked = vec![false; interfaces.len()];
        seats.seat(link);
    }
    let chosen = wanted.iter().enumerate().map(|(link, wanted)| {
        let has = seats.holders.iter().position(|holder| *holder == Some(link));
        let of_another = seats.by_preference[link].first();
        let outcome = match (has, of_another) {
            (Some(at), _) => Ok(interfaces[at].index),
            (None, Some(at)) => {
                Err(format!("{} matches {wanted}, but another link uses it", interfaces[*at].name))
            }
            (None, None) => Err(format!("no interface matches {wanted}")),
        };
        ((*wanted).clone(), outcome)
    });
    Chosen(chosen.collect())
}

fn fits(wanted: &LinkMatch, interface: &Interface) -> bool {
    let LinkMatch { kind, usb, connection } = wanted;
    let Hardware { kind: its_kind, usb: its_usb } = interface.hardware;
    kind.is_none_or(|kind| its_kind == Some(kind))
        && usb.is_none_or(|usb| its_usb.is_some_and(|its| usb.covers(its)))
        && connection.as_ref().is_none_or(|wanted| {
            interface.connection.as_ref().is_some_and(|(name, uuid)| [name, uuid].contains(&wanted))
        })
}

/// A matching in a bipartite graph, grown by augmenting paths (H. W. Kuhn, 1955).
struct Seats {
    /// What each link may have, the best first.
    by_preference: Vec<Vec<usize>>,
    /// The link that has each interface.
    holders: Vec<Option<usize>>,
    /// The interfaces that were asked for in this round.
    asked: Vec<bool>,
}

impl Seats {
    /// Assigns an interface to the link; others may have to switch, but none loses its interface.
    fn seat(&mut self, link: usize) -> bool {
        for place in 0..self.by_preference[link].len() {
            let at = self.by_preference[link][place];
            if std::mem::replace(&mut self.asked[at], true) {
                continue;
            }
            if self.holders[at].is_none_or(|holder| self.seat(holder)) {
                self.holders[at] = Some(link);
                return true;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use braid_control::config::LinkKind;

    fn kind(kind: LinkKind) -> LinkMatch {
        LinkMatch { kind: Some(kind), ..LinkMatch::default() }
    }

    fn usb(id: &str) -> LinkMatch {
        LinkMatch { usb: id.parse().ok(), ..LinkMatch::default() }
    }

    fn connection(name: &str) -> LinkMatch {
        LinkMatch { connection: Some(name.into()), ..LinkMatch::default() }
    }

    fn ethernet(index: u32) -> Interface {
        let hardware = Hardware { kind: Some(LinkKind::Ethernet), usb: None };
        Interface {
            index,
            name: format!("eth{index}"),
            works: true,
            hardware,
            ..Interface::default()
        }
    }

    fn of_usb(id: &str, interface: Interface) -> Interface {
        let usb = id.parse().ok();
        Interface { hardware: Hardware { usb, ..interface.hardware }, ..interface }
    }

    fn with(name: &str, interface: Interface) -> Interface {
        Interface { connection: Some((name.into(), format!("uuid-of-{name}"))), ..interface }
    }

    fn numbers(wanted: &[LinkMatch], interfaces: &[Interface], before: &Chosen) -> Vec<u32> {
        let wanted: Vec<&LinkMatch> = wanted.iter().collect();
        let chosen = choose(&wanted, interfaces, before);
        wanted.iter().map(|wanted| chosen.of(wanted).unwrap_or(0)).collect()
    }

    fn had(wanted: &LinkMatch, index: u32) -> Chosen {
        Chosen([(wanted.clone(), Ok(index))].into())
    }

    #[test]
    fn each_condition_must_hold() {
        let phone = Hardware { kind: Some(LinkKind::Tether), usb: "18d1:4eeb".parse().ok() };
        let phone = Interface { index: 3, hardware: phone, ..Interface::default() };
        let all = [ethernet(1), with("Home", ethernet(2)), phone];
        let both = |product: &str| LinkMatch { kind: Some(LinkKind::Tether), ..usb(product) };
        for (wanted, index) in [
            (kind(LinkKind::Ethernet), 1),
            (kind(LinkKind::Wifi), 0),
            (usb("18d1"), 3),
            (usb("18d1:4eec"), 0),
            (both("18d1:4eeb"), 3),
            (LinkMatch { kind: Some(LinkKind::Ethernet), ..usb("18d1") }, 0),
            (connection("Home"), 2),
            (connection("uuid-of-Home"), 2),
            (connection("home"), 0),
        ] {
            let one = [wanted];
            assert_eq!(numbers(&one, &all, &Chosen::default()), [index], "{}", one[0]);
        }
    }

    #[test]
    fn one_that_works_is_taken_before_the_one_that_was_and_that_before_an_older() {
        let one = [kind(LinkKind::Ethernet)];
        let dead = |index| Interface { works: false, ..ethernet(index) };
        for (interfaces, before, index) in [
            (vec![ethernet(1), ethernet(2)], Chosen::default(), 1),
            (vec![ethernet(1), ethernet(2)], had(&one[0], 2), 2),
            (vec![ethernet(1), dead(2)], had(&one[0], 2), 1),
            (vec![dead(1), dead(2)], had(&one[0], 2), 2),
            (vec![ethernet(1)], had(&one[0], 2), 1),
            (vec![], had(&one[0], 2), 0),
        ] {
            assert_eq!(numbers(&one, &interfaces, &before), [index], "{interfaces:?}");
        }
    }

    #[test]
    fn an_interface_serves_one_link_and_the_narrower_match_has_it() {
        let wanted = [kind(LinkKind::Ethernet), usb("0bda:8153"), connection("Dock")];
        let (none, dock) = (Chosen::default(), with("Dock", of_usb("0bda:8153", ethernet(1))));
        assert_eq!(numbers(&wanted, &[dock.clone(), ethernet(2)], &none), [2, 1, 0]);
        let why = choose(&wanted.iter().collect::<Vec<_>>(), &[dock], &none);
        let why = why.of(&wanted[2]).unwrap_err();
        assert_eq!(why, "eth1 matches connection \"Dock\", but another link uses it");
        assert_eq!(numbers(&wanted, &[], &none), [0, 0, 0]);
    }

    #[test]
    fn who_can_have_another_one_makes_room() {
        let wanted = [kind(LinkKind::Ethernet), connection("Office")];
        let interfaces = [with("Office", ethernet(1)), ethernet(2)];
        let before = had(&wanted[0], 1);
        assert_eq!(numbers(&wanted, &interfaces, &before), [2, 1]);
    }
}
