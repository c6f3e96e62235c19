//! Turns statuses into events.

use super::moves::Moves;
use super::samples::works;
use super::steady::{Change, Patience, Steady};
use braid_control::config::Transport;
use braid_control::status::{LinkStatus, PathState, PathStatus, PeerStatus, Status, Traffic};
use braid_history::{Event, EventKind, Severity};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Sees what changes.
pub struct Watch {
    links: BTreeMap<String, Steady>,
    /// Whether each working link uses UDP to the peer's own port.
    by_udp: BTreeMap<String, Steady>,
    peers: BTreeMap<String, Steady>,
    /// The quota step that each link had reached.
    quotas: BTreeMap<String, usize>,
    obstacles: BTreeSet<String>,
    /// Concentrators that drain, by name; this host's own has none.
    draining: BTreeSet<String>,
    /// Who serves whom.
    moves: Moves,
    /// Whether traffic takes its usual way, and its detour otherwise.
    way: Option<Steady>,
    detour: Option<String>,
    /// Homes that were seen before; `None` while unknown.
    known_homes: Option<BTreeSet<String>>,
}

/// A short pause of a link isn't reported: the tunnel survives it.
const LINK: Patience = Patience { down: Duration::from_secs(5), up: Duration::from_secs(10) };
/// A restart of the other end takes a few seconds.
const PEER: Patience = Patience { down: Duration::from_secs(15), up: Duration::from_secs(3) };
/// A failover is over soon, or worth reporting.
const WAY: Patience = Patience { down: Duration::from_secs(5), up: Duration::from_secs(10) };
/// Percentages of a quota that are reported.
const STEPS: [u64; 3] = [75, 90, 100];

impl Watch {
    /// `known_homes`: homes with earlier history, if that could be determined.
    pub fn new(known_homes: Option<BTreeSet<String>>) -> Watch {
        Watch {
            links: BTreeMap::new(),
            by_udp: BTreeMap::new(),
            peers: BTreeMap::new(),
            quotas: BTreeMap::new(),
            obstacles: BTreeSet::new(),
            draining: BTreeSet::new(),
            moves: Moves::default(),
            way: None,
            detour: None,
            known_homes,
        }
    }

    /// The events of this status; `now` is since an arbitrary moment, `unix` by the clock.
    pub fn observe(&mut self, status: &Status, now: Duration, unix: i64) -> Vec<Event> {
        let mut events = Vec::new();
        let mut tell = |kind, severity, subject: &str, text: String| {
            events.push(Event { unix, kind, severity, subject: subject.to_owned(), text });
        };
        self.links(status, now, &mut tell);
        self.transports(status, now, &mut tell);
        self.peers(status, now, &mut tell);
        self.draining(status, &mut tell);
        for moved in self.moves.observe(status, now) {
            tell(EventKind::Moved, Severity::Note, &moved.subject, moved.text);
        }
        self.quotas(status, &mut tell);
        self.obstacles(status, &mut tell);
        self.way(status, now, &mut tell);
        events
    }

    fn links(
        &mut self,
        status: &Status,
        now: Duration,
        tell: &mut impl FnMut(EventKind, Severity, &str, String),
    ) {
        self.links.retain(|name, _| status.links.iter().any(|link| link.name == *name));
        // If no peer answers, it isn't the links that are down.
        if !status.peers.iter().any(|peer| peer.connected) {
            return;
        }
        for link in &status.links {
            let name = &link.name;
            let known = self.links.entry(name.clone());
            let steady = known.or_insert_with(|| Steady::new(LINK, now));
            match steady.observe(is_up(status, link), now) {
                None | Some(Change::First) => {}
                Some(Change::Down) => {
                    let why = link.trouble.as_deref().unwrap_or("nothing comes back over it");
                    let down = format!("{name} is down");
                    // A device has its link's name, mostly.
                    let what = if why == down { down } else { format!("{down}: {why}") };
                    let text = format!("{what}; {}", what_goes_on(status, name));
                    tell(EventKind::LinkDown, Severity::Warning, name, text);
                }
                Some(Change::Up) => {
                    tell(EventKind::LinkUp, Severity::Note, name, format!("{name} works again"));
                }
                Some(Change::Flapping) => {
                    let text = format!(
                        "{name} is flapping: 6 changes within 10 minutes; no more events until it \
                         is stable"
                    );
                    tell(EventKind::LinkFlapping, Severity::Warning, name, text);
                }
            }
        }
    }

    fn transports(
        &mut self,
        status: &Status,
        now: Duration,
        tell: &mut impl FnMut(EventKind, Severity, &str, String),
    ) {
        self.by_udp.retain(|name, _| status.links.iter().any(|link| link.name == *name));
        for link in &status.links {
            let name = &link.name;
            let paths = status.peers.iter().flat_map(|peer| &peer.paths);
            let by = paths.filter(|path| path.link == *name && works(path));
            let by: BTreeSet<Transport> = by.map(|path| path.transport).collect();
            // Nothing is known about a link that is down.
            let Some(last) = by.last() else { continue };
            let steady = self.by_udp.entry(name.clone());
            let steady = steady.or_insert_with(|| Steady::new(LINK, now));
            let text = match steady.observe(by.contains(&Transport::Udp), now) {
                None | Some(Change::First) => continue,
                Some(Change::Down) => format!("{name} now uses {last}: UDP doesn't pass as usual"),
                Some(Change::Up) => format!("{name} uses udp again"),
                Some(Change::Flapping) => {
                    format!("{name} keeps changing its transport; no more events about that")
                }
            };
            tell(EventKind::Transport, Severity::Note, name, text);
        }
    }

    fn peers(
        &mut self,
        status: &Status,
        now: Duration,
        tell: &mut impl FnMut(EventKind, Severity, &str, String),
    ) {
        self.peers.retain(|name, _| status.peers.iter().any(|peer| peer.name == *name));
        let at_concentrator = !status.listen.is_empty();
        for peer in &status.peers {
            let name = &peer.name;
            let steady = self.peers.entry(name.clone()).or_insert_with(|| Steady::new(PEER, now));
            // Homes come when they come.
            if at_concentrator && !peer.connected && steady.was_never_told() {
                continue;
            }
            match steady.observe(peer.connected, now) {
                None => {}
                Some(Change::First) => {
                    let is_new =
                        self.known_homes.as_mut().is_some_and(|known| known.insert(name.clone()));
                    if at_concentrator && is_new {
                        let text = format!("{name} is connected for the first time");
                        tell(EventKind::NewHome, Severity::Note, name, text);
                    }
                }
                Some(Change::Up) => {
                    tell(EventKind::PeerUp, Severity::Note, name, format!("{name} is back"));
                }
                Some(Change::Flapping) => {
                    let text = format!("{name} is flapping; no more events until it is stable");
                    tell(EventKind::PeerDown, Severity::Warning, name, text);
                }
                Some(Change::Down) => {
                    let (severity, text) = match at_concentrator {
                        true => (Severity::Warning, format!("{name} has gone silent")),
                        false => match stands_in(status, peer) {
                            Some(text) => (Severity::Warning, text),
                            None => (Severity::Critical, gone(status, name)),
                        },
                    };
                    tell(EventKind::PeerDown, severity, name, text);
                }
            }
        }
    }

    fn quotas(
        &mut self,
        status: &Status,
        tell: &mut impl FnMut(EventKind, Severity, &str, String),
    ) {
        for link in &status.links {
            let Some(quota) = &link.quota else {
                self.quotas.remove(&link.name);
                continue;
            };
            let percent = quota.used_bytes.saturating_mul(100) / quota.limit_bytes.max(1);
            let step = STEPS.iter().filter(|step| percent >= **step).count();
            // Steps reached before the start were reported then.
            let before = self.quotas.insert(link.name.clone(), step).unwrap_or(step);
            if step <= before {
                continue;
            }
            let name = &link.name;
            let (severity, text) = match STEPS.get(step - 1) {
                Some(100) => (
                    Severity::Warning,
                    format!(
                        "{name} has used up its quota: from now on it is used only when no other link works"
                    ),
                ),
                percent => {
                    let percent = percent.unwrap_or(&75);
                    (Severity::Note, format!("{name} has used {percent} % of its quota"))
                }
            };
            tell(EventKind::Quota, severity, name, text);
        }
    }

    fn draining(
        &mut self,
        status: &Status,
        tell: &mut impl FnMut(EventKind, Severity, &str, String),
    ) {
        let peers = status.peers.iter().filter(|peer| peer.draining);
        let mut now: BTreeSet<String> = peers.map(|peer| peer.name.clone()).collect();
        if status.draining {
            now.insert(String::new());
        }
        for name in now.difference(&self.draining) {
            let (severity, text) = match name.as_str() {
                "" => {
                    (Severity::Note, "homes are asked to move to another concentrator".to_owned())
                }
                name => match others_of(status, name).find(|other| other.connected) {
                    Some(other) => {
                        (Severity::Note, format!("{name} is draining: {} takes over", other.name))
                    }
                    None => (
                        Severity::Warning,
                        format!("{name} is draining, and no other concentrator answers"),
                    ),
                },
            };
            tell(EventKind::Draining, severity, name, text);
        }
        for name in self.draining.difference(&now) {
            let text = match name.as_str() {
                "" => "this concentrator accepts homes again".to_owned(),
                name => format!("{name} accepts homes again"),
            };
            tell(EventKind::DrainingEnded, Severity::Note, name, text);
        }
        self.draining = now;
    }

    fn obstacles(
        &mut self,
        status: &Status,
        tell: &mut impl FnMut(EventKind, Severity, &str, String),
    ) {
        let now: BTreeSet<String> = status.warnings.iter().cloned().collect();
        for obstacle in now.difference(&self.obstacles) {
            tell(EventKind::Obstacle, Severity::Warning, "", obstacle.clone());
        }
        for gone in self.obstacles.difference(&now) {
            tell(EventKind::ObstacleGone, Severity::Note, "", format!("no more: {gone}"));
        }
        self.obstacles = now;
    }

    fn way(
        &mut self,
        status: &Status,
        now: Duration,
        tell: &mut impl FnMut(EventKind, Severity, &str, String),
    ) {
        let detour = detour(status);
        let steady = self.way.get_or_insert_with(|| Steady::new(WAY, now));
        match steady.observe(detour.is_none(), now) {
            None | Some(Change::First) => {}
            Some(Change::Down) => {
                let text = detour.unwrap_or_default();
                tell(EventKind::Failover, Severity::Warning, "", text.clone());
                self.detour = Some(text);
            }
            Some(Change::Up) => {
                let text = match self.detour.take() {
                    Some(detour) => format!("no more: {detour}"),
                    None => "traffic takes its usual way again".to_owned(),
                };
                tell(EventKind::FailoverEnded, Severity::Note, "", text);
            }
            Some(Change::Flapping) => {
                let text = "traffic keeps changing its way; no more events until it is stable";
                tell(EventKind::Failover, Severity::Warning, "", text.to_owned());
            }
        }
    }
}

fn is_up(status: &Status, link: &LinkStatus) -> bool {
    let mut paths = status.peers.iter().flat_map(|peer| &peer.paths);
    // A moment's silence isn't reported.
    let is_there = |path: &PathStatus| works(path) || path.state == PathState::Suspect;
    link.present && paths.any(|path| path.link == link.name && is_there(path))
}

/// What carries traffic when this link doesn't.
fn what_goes_on(status: &Status, without: &str) -> String {
    let paths = status.peers.iter().flat_map(|peer| &peer.paths);
    let active = paths.filter(|path| path.state == PathState::Active && path.link != without);
    let mut names: Vec<&str> = active.map(|path| path.link.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    match names.is_empty() {
        true => "no other link carries traffic now".to_owned(),
        false => format!("traffic continues over {}", names.join(", ")),
    }
}

/// Traffic's detour in words, while it doesn't take its usual way.
fn detour(status: &Status) -> Option<String> {
    match &status.traffic {
        Some(Traffic::Direct { link: Some(link) }) => {
            return Some(format!("traffic bypasses the tunnel over {link}"));
        }
        Some(Traffic::Direct { link: None }) => {
            return Some("traffic bypasses the tunnel".to_owned());
        }
        Some(Traffic::Blocked) => {
            return Some("the kill switch blocks all traffic".to_owned());
        }
        Some(Traffic::Tunnel) | None => {}
    }
    let carries = |link: &&LinkStatus| {
        let mut paths = status.peers.iter().flat_map(|peer| &peer.paths);
        paths.any(|path| path.link == link.name && path.state == PathState::Active)
    };
    let standby = status.links.iter().filter(|link| link.standby).find(carries)?;
    Some(format!("traffic uses {}, which is otherwise on standby", standby.name))
}

/// What follows when a home's peer is gone and another one serves its addresses.
fn stands_in(status: &Status, gone: &PeerStatus) -> Option<String> {
    let name = &gone.name;
    let owner = gone.stands_in_for.as_ref().unwrap_or(name);
    let of_group =
        |peer: &&PeerStatus| peer.name == *owner || peer.stands_in_for.as_ref() == Some(owner);
    let serving = status.peers.iter().filter(of_group).find(|peer| peer.connected)?;
    Some(match gone.stands_in_for {
        None => format!("{name} doesn't answer on any link: {} stands in for it", serving.name),
        Some(_) => format!("{name} doesn't answer: it can't stand in for {owner}"),
    })
}

/// The concentrators that serve the same addresses as this one and aren't draining.
fn others_of<'a>(status: &'a Status, name: &'a str) -> impl Iterator<Item = &'a PeerStatus> {
    let owner_of = |peer: &'a PeerStatus| peer.stands_in_for.as_deref().unwrap_or(&peer.name);
    let owner = status.peers.iter().find(|peer| peer.name == name).map(owner_of);
    let others = status.peers.iter().filter(move |other| other.name != name && !other.draining);
    others.filter(move |other| Some(owner_of(other)) == owner)
}

fn gone(status: &Status, name: &str) -> String {
    let then = match &status.traffic {
        None => String::new(),
        Some(Traffic::Tunnel) => String::new(),
        Some(Traffic::Direct { link: Some(link) }) => {
            format!("; traffic bypasses the tunnel over {link}")
        }
        Some(Traffic::Direct { link: None }) => "; traffic bypasses the tunnel".to_owned(),
        Some(Traffic::Blocked) => "; the kill switch blocks all traffic".to_owned(),
    };
    format!("{name} doesn't answer on any link: the tunnel is down{then}")
}

#[cfg(test)]
mod tests {
    use super::super::tests::{path, status};
    use super::*;
    use braid_control::status::QuotaStatus;

    /// The events when statuses follow each other, one per second.
    fn told(watch: &mut Watch, from: u64, statuses: &[(&Status, u64)]) -> Vec<(EventKind, String)> {
        let mut at = from;
        let mut told = Vec::new();
        for (status, seconds) in statuses {
            for _ in 0..*seconds {
                let events = watch.observe(status, Duration::from_secs(at), at as i64);
                told.extend(events.into_iter().map(|event| (event.kind, event.text)));
                at += 1;
            }
        }
        told
    }

    fn up() -> Status {
        let mut status = status(&["dsl", "lte"]);
        status.peers[0].paths = vec![path("dsl", 1), path("lte", 1)];
        status
    }

    #[test]
    fn a_link_that_dies_is_told_with_what_carries_on() {
        let mut cut = up();
        cut.peers[0].paths[1].state = PathState::Down;
        let mut watch = Watch::new(None);
        let told = told(&mut watch, 0, &[(&up(), 30), (&cut, 30), (&up(), 30)]);
        let expected = [
            (
                EventKind::LinkDown,
                "lte is down: nothing comes back over it; traffic continues over dsl",
            ),
            (EventKind::LinkUp, "lte works again"),
        ];
        assert_eq!(told, expected.map(|(kind, text)| (kind, text.to_owned())));
    }

    #[test]
    fn that_a_link_goes_by_tls_and_by_udp_again_is_told() {
        let mut blocked = up();
        blocked.peers[0].paths[1].transport = Transport::Tls;
        // Both for a moment: one is tried.
        let mut both = blocked.clone();
        both.peers[0].paths.push(path("lte", 1));
        let mut watch = Watch::new(None);
        let steps = [(&up(), 30), (&blocked, 30), (&both, 3), (&blocked, 30), (&up(), 30)];
        let told = told(&mut watch, 0, &steps);
        let expected = ["lte now uses tls: UDP doesn't pass as usual", "lte uses udp again"];
        assert_eq!(told, expected.map(|text| (EventKind::Transport, text.to_owned())));
    }

    #[test]
    fn when_the_concentrator_is_gone_the_links_are_not_blamed() {
        let mut gone = up();
        gone.peers[0].connected = false;
        gone.peers[0].paths.iter_mut().for_each(|path| path.state = PathState::Down);
        gone.traffic = Some(Traffic::Direct { link: Some("dsl".into()) });
        let mut watch = Watch::new(None);
        let told = told(&mut watch, 0, &[(&up(), 30), (&gone, 60), (&up(), 30)]);
        let kinds: Vec<EventKind> = told.iter().map(|(kind, _)| *kind).collect();
        let expected =
            [EventKind::Failover, EventKind::PeerDown, EventKind::PeerUp, EventKind::FailoverEnded];
        assert_eq!(kinds, expected);
        assert!(told[1].1.ends_with("traffic bypasses the tunnel over dsl"), "{}", told[1].1);
    }

    #[test]
    fn a_concentrator_that_another_one_stands_in_for_is_no_disaster() {
        let mut both = up();
        let second = PeerStatus { name: "second".into(), ..both.peers[0].clone() };
        both.peers.push(PeerStatus { stands_in_for: Some("concentrator".into()), ..second });
        both.peers[0].name = "concentrator".into();
        let without = |gone: usize| {
            let mut status = both.clone();
            status.peers[gone].connected = false;
            let mut watch = Watch::new(None);
            told(&mut watch, 0, &[(&both, 30), (&status, 60)])
        };
        let texts =
            ["doesn't answer on any link: second stands in for it", "it can't stand in for"];
        for (gone, text) in texts.iter().enumerate() {
            let told = without(gone);
            let events: Vec<_> =
                told.iter().filter(|(kind, _)| *kind == EventKind::PeerDown).collect();
            assert!(matches!(events.as_slice(), [(_, said)] if said.contains(text)), "{told:?}");
        }
    }

    #[test]
    fn a_concentrator_that_drains_is_told_once_with_who_serves() {
        let mut both = up();
        both.peers[0].name = "first".into();
        let second = PeerStatus { name: "second".into(), ..both.peers[0].clone() };
        both.peers.push(PeerStatus { stands_in_for: Some("first".into()), ..second });
        let mut drains = both.clone();
        drains.peers[0].draining = true;
        let mut alone = drains.clone();
        alone.peers[1].draining = true;
        let mut watch = Watch::new(None);
        let told = told(&mut watch, 0, &[(&both, 5), (&drains, 5), (&alone, 5), (&both, 5)]);
        let expected = [
            (EventKind::Draining, "first is draining: second takes over"),
            (EventKind::Draining, "second is draining, and no other concentrator answers"),
            (EventKind::DrainingEnded, "first accepts homes again"),
            (EventKind::DrainingEnded, "second accepts homes again"),
        ];
        assert_eq!(told, expected.map(|(kind, text)| (kind, text.to_owned())));
    }

    #[test]
    fn each_step_of_a_quota_is_told_once_and_none_of_before_the_start() {
        let used = |percent: u64| {
            let mut status = up();
            status.links[0].quota = Some(QuotaStatus {
                limit_bytes: 1000,
                used_bytes: percent * 10,
                period_start_unix: None,
                period_end_unix: None,
            });
            status
        };
        let mut watch = Watch::new(None);
        let steps = [80, 89, 90, 91, 100, 120, 3, 76].map(used);
        let steps: Vec<(&Status, u64)> = steps.iter().map(|status| (status, 2)).collect();
        let told = told(&mut watch, 0, &steps);
        let texts: Vec<&str> = told.iter().map(|(_, text)| text.as_str()).collect();
        assert_eq!(texts.len(), 3, "{texts:?}");
        assert!(
            texts[0].contains("90 %") && texts[1].contains("used up") && texts[2].contains("75 %")
        );
    }

    #[test]
    fn at_a_concentrator_only_homes_that_were_there_are_missed_and_new_ones_greeted() {
        let mut away = status(&[]);
        away.listen = vec!["192.0.2.1:51900".parse().unwrap()];
        away.peers[0].connected = false;
        let mut there = away.clone();
        there.peers[0].connected = true;
        let mut watch = Watch::new(Some(BTreeSet::new()));
        let first = told(&mut watch, 0, &[(&away, 100), (&there, 20), (&away, 30)]);
        let kinds: Vec<EventKind> = first.iter().map(|(kind, _)| *kind).collect();
        assert_eq!(kinds, [EventKind::NewHome, EventKind::PeerDown]);
        let known = BTreeSet::from([away.peers[0].name.clone()]);
        let mut watch = Watch::new(Some(known));
        assert_eq!(told(&mut watch, 0, &[(&away, 100), (&there, 20)]), []);
    }

    #[test]
    fn a_link_on_standby_that_takes_over_is_told_and_that_it_rests_again() {
        let mut usual = up();
        usual.links[1].standby = true;
        usual.peers[0].paths[1].state = PathState::Standby;
        let mut failed = usual.clone();
        failed.peers[0].paths[0].state = PathState::Down;
        failed.peers[0].paths[1].state = PathState::Active;
        let mut watch = Watch::new(None);
        let told = told(&mut watch, 0, &[(&usual, 30), (&failed, 30), (&usual, 30)]);
        let of_way = told
            .iter()
            .filter(|(kind, _)| matches!(kind, EventKind::Failover | EventKind::FailoverEnded));
        let texts: Vec<&str> = of_way.map(|(_, text)| text.as_str()).collect();
        let words = "traffic uses lte, which is otherwise on standby";
        assert_eq!(texts, [words, &format!("no more: {words}")]);
    }

    #[test]
    fn an_obstacle_is_told_when_it_comes_and_when_it_goes() {
        let mut blocked = up();
        blocked.warnings = vec!["a firewall refuses what the tunnel forwards".into()];
        let mut watch = Watch::new(None);
        let told = told(&mut watch, 0, &[(&blocked, 5), (&up(), 5)]);
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[1].1.starts_with("no more: a firewall"));
    }
}
