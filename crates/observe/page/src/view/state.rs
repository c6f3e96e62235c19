//! The state of things, in a word and in a sentence.

use braid_control::status::{
    LinkStatus, PathState, PathStatus, PeerStatus, QuotaStatus, Status, Traffic,
};
use maud::{Markup, Render, html};

/// How good a state is, shown as its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mood {
    Good,
    Waiting,
    Poor,
    Bad,
}

/// A state in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    pub mood: Mood,
    pub word: &'static str,
}

impl Mood {
    pub fn class(self) -> &'static str {
        match self {
            Mood::Good => "good",
            Mood::Waiting => "waiting",
            Mood::Poor => "poor",
            Mood::Bad => "bad",
        }
    }
}

impl Render for State {
    fn render(&self) -> Markup {
        html! { span class={ "state " (self.mood.class()) } { (self.word) } }
    }
}

/// The paths that go over a link, to all peers.
pub fn paths_of<'a>(status: &'a Status, link: &str) -> Vec<&'a PathStatus> {
    let paths = status.peers.iter().flat_map(|peer| &peer.paths);
    paths.filter(|path| path.link == link).collect()
}

/// A link's state: that of its best path.
pub fn of_link(status: &Status, link: &LinkStatus) -> State {
    if !link.present {
        return State { mood: Mood::Bad, word: "away" };
    }
    let best = paths_of(status, &link.name).into_iter().map(|path| path.state).min_by_key(rank);
    best.map_or(State { mood: Mood::Bad, word: "unused" }, of_path)
}

pub fn of_path(state: PathState) -> State {
    let (mood, word) = match state {
        PathState::Active => (Mood::Good, "works"),
        PathState::Standby => (Mood::Waiting, "on standby"),
        PathState::OverQuota => (Mood::Poor, "quota used up"),
        PathState::Suspect => (Mood::Poor, "silent"),
        PathState::Probing => (Mood::Waiting, "trying"),
        PathState::Down => (Mood::Bad, "down"),
    };
    State { mood, word }
}

fn rank(state: &PathState) -> u8 {
    match state {
        PathState::Active => 0,
        PathState::Standby => 1,
        PathState::OverQuota => 2,
        PathState::Suspect => 3,
        PathState::Probing => 4,
        PathState::Down => 5,
    }
}

pub fn of_peer(peer: &PeerStatus) -> State {
    match (peer.connected, peer.last_handshake_s) {
        (true, _) => State { mood: Mood::Good, word: "connected" },
        (false, Some(_)) => State { mood: Mood::Bad, word: "gone" },
        (false, None) => State { mood: Mood::Waiting, word: "not seen yet" },
    }
}

/// The tunnel's state in one sentence.
pub fn sentence(status: &Status) -> (Mood, String) {
    match status.listen.is_empty() {
        true => of_home(status),
        false => of_concentrator(status),
    }
}

fn of_home(status: &Status) -> (Mood, String) {
    let Some(peer) = status.peers.iter().find(|peer| peer.connected).or(status.peers.first())
    else {
        return (Mood::Bad, "The tunnel leads nowhere: the config has no [[peer]].".to_owned());
    };
    if !peer.connected {
        let then = match &status.traffic {
            Some(Traffic::Direct { link: Some(link) }) => {
                format!(" Traffic bypasses it, over {link}.")
            }
            Some(Traffic::Direct { link: None }) => " Traffic bypasses it.".to_owned(),
            Some(Traffic::Blocked) => " The kill switch blocks all traffic.".to_owned(),
            Some(Traffic::Tunnel) | None => String::new(),
        };
        let text = format!("The tunnel is down: {} answers on no link.{then}", peer.name);
        return (Mood::Bad, text);
    }
    let states = status.links.iter().map(|link| (link.name.as_str(), of_link(status, link)));
    let (good, ill): (Vec<_>, Vec<_>) =
        states.partition(|(_, state)| matches!(state.word, "works" | "on standby"));
    let carrying = good.iter().filter(|(_, state)| state.mood == Mood::Good).count();
    let names: Vec<String> =
        ill.iter().map(|(name, state)| format!("{name} ({})", state.word)).collect();
    let all = status.links.len();
    match (carrying, names.is_empty()) {
        (1, true) if all == 1 => (Mood::Good, "All is well: the one link works.".to_owned()),
        (_, true) if carrying == all => {
            (Mood::Good, format!("All is well: {all} of {all} links carry traffic."))
        }
        (_, true) => (
            Mood::Good,
            format!("All is well: {carrying} of {all} links carry traffic, the others wait."),
        ),
        (0, false) => (Mood::Bad, format!("No link carries traffic: {}.", names.join(", "))),
        (_, false) => (Mood::Poor, format!("The tunnel works, without {}.", names.join(", "))),
    }
}

fn of_concentrator(status: &Status) -> (Mood, String) {
    let all = status.peers.len();
    let connected = status.peers.iter().filter(|peer| peer.connected).count();
    let gone: Vec<&str> = status
        .peers
        .iter()
        .filter(|peer| !peer.connected && peer.last_handshake_s.is_some())
        .map(|peer| peer.name.as_str())
        .collect();
    match (all, gone.as_slice()) {
        (0, _) => (Mood::Waiting, "No home has been added yet.".to_owned()),
        (_, []) => (Mood::Good, format!("{connected} of {all} homes are connected.")),
        (_, [one]) => {
            (Mood::Poor, format!("{connected} of {all} homes are connected; {one} has gone."))
        }
        (_, gone) => {
            let count = gone.len();
            (Mood::Poor, format!("{connected} of {all} homes are connected; {count} have gone."))
        }
    }
}

/// When a quota will be used up, at the rate of this period.
pub fn used_up(quota: &QuotaStatus, now: i64) -> Option<Outlook> {
    /// A shorter time doesn't predict days.
    const LEAST: i64 = 3600;
    let (start, end) = (quota.period_start_unix?, quota.period_end_unix?);
    let passed = now - start;
    if quota.used_bytes >= quota.limit_bytes {
        return Some(Outlook::Full { until: end });
    }
    if passed < LEAST || quota.used_bytes == 0 {
        return None;
    }
    let left = (quota.limit_bytes - quota.used_bytes) as f64;
    let at = now as f64 + left * passed as f64 / quota.used_bytes as f64;
    Some(if at < end as f64 { Outlook::On(at as i64) } else { Outlook::Lasts { until: end } })
}

/// The outlook of a quota; times are Unix seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outlook {
    /// It will be used up at this time.
    On(i64),
    /// It lasts until the period ends.
    Lasts { until: i64 },
    /// It is used up.
    Full { until: i64 },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn home(states: &[(&str, PathState)]) -> Status {
        let link = |(name, _): &(&str, PathState)| LinkStatus {
            name: (*name).into(),
            present: true,
            ..LinkStatus::default()
        };
        let path = |(name, state): &(&str, PathState)| PathStatus {
            link: (*name).into(),
            state: *state,
            ..PathStatus::default()
        };
        Status {
            interface: "braid0".into(),
            links: states.iter().map(link).collect(),
            peers: vec![PeerStatus {
                name: "vps".into(),
                connected: true,
                paths: states.iter().map(path).collect(),
                ..PeerStatus::default()
            }],
            ..Status::default()
        }
    }

    #[test]
    fn the_sentence_says_what_does_not_work() {
        use PathState::{Active, Down, Standby};
        let says = |states: &[_]| sentence(&home(states));
        assert_eq!(
            says(&[("a", Active), ("b", Active)]).1,
            "All is well: 2 of 2 links carry traffic."
        );
        let waits = "All is well: 1 of 2 links carry traffic, the others wait.";
        assert_eq!(says(&[("a", Active), ("b", Standby)]), (Mood::Good, waits.into()));
        let without = "The tunnel works, without b (down).";
        assert_eq!(says(&[("a", Active), ("b", Down)]), (Mood::Poor, without.into()));
        let mut down = home(&[("a", Down)]);
        down.peers[0].connected = false;
        down.traffic = Some(Traffic::Blocked);
        let text =
            "The tunnel is down: vps answers on no link. The kill switch blocks all traffic.";
        assert_eq!(sentence(&down), (Mood::Bad, text.into()));
        let mut away = home(&[("a", Active), ("b", Active)]);
        away.links[1].present = false;
        assert_eq!(sentence(&away).1, "The tunnel works, without b (away).");
    }

    #[test]
    fn homes_that_never_came_are_not_missed() {
        let mut status = home(&[]);
        status.listen = vec!["192.0.2.1:51900".parse().unwrap()];
        let away = PeerStatus { name: "new".into(), ..PeerStatus::default() };
        status.peers.push(away.clone());
        assert_eq!(sentence(&status), (Mood::Good, "1 of 2 homes are connected.".into()));
        status.peers.push(PeerStatus { name: "old".into(), last_handshake_s: Some(9.0), ..away });
        assert_eq!(sentence(&status).1, "1 of 3 homes are connected; old has gone.");
    }

    #[test]
    fn a_quota_is_reckoned_on_at_the_pace_of_its_period() {
        const DAY: i64 = 86_400;
        let quota = |used_bytes| QuotaStatus {
            limit_bytes: 100,
            used_bytes,
            period_start_unix: Some(0),
            period_end_unix: Some(30 * DAY),
        };
        assert_eq!(used_up(&quota(50), 10 * DAY), Some(Outlook::On(20 * DAY)));
        assert_eq!(used_up(&quota(10), 10 * DAY), Some(Outlook::Lasts { until: 30 * DAY }));
        assert_eq!(used_up(&quota(100), 10 * DAY), Some(Outlook::Full { until: 30 * DAY }));
        assert_eq!(used_up(&quota(50), 60), None);
        assert_eq!(used_up(&QuotaStatus { period_start_unix: None, ..quota(50) }, DAY), None);
    }
}
