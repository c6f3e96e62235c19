//! Which homes' addresses other routers are to send here: those of homes that are served here.
//! Pure.

use braid_control::config::Config;
use braid_control::status::PeerStatus;
use ipnet::IpNet;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// A home that has moved is announced here for a moment longer: until the other concentrator's
/// routes are known, packets that come here still reach the home.
const AFTER_LEAVING: Duration = Duration::from_secs(2);
/// A silent home with another concentrator is most likely there: packets that come here are lost.
const AFTER_SILENCE: Duration = Duration::from_millis(500);
/// A silent home without another concentrator is back soon, or nowhere.
const AFTER_SILENCE_OF_ONE: Duration = Duration::from_secs(10);
/// By then a connected home of this version has said if another one serves it.
const SAYS_WITHIN: Duration = Duration::from_secs(1);

/// Tracks the homes served here.
#[derive(Clone, Debug, Default)]
pub struct Announcing {
    homes: BTreeMap<String, Home>,
}

/// A home that is announced, or may soon be.
#[derive(Clone, Copy, Debug)]
struct Home {
    announced: bool,
    connected_since: Option<Instant>,
    /// When it last had to be announced.
    wanted_at: Instant,
    /// Whether it had another concentrator, when last heard.
    has_other: bool,
    /// When the decision may change without news.
    due: Option<Instant>,
}

impl Announcing {
    /// Continues with what the previous program announced.
    pub fn adopt(&mut self, config: &Config, found: &[IpNet], now: Instant) {
        for peer in config.peers.iter().filter(|peer| peer.endpoints.is_empty()) {
            let networks = networks_of(config, peer.name.as_str());
            if !networks.is_empty() && networks.iter().all(|net| found.contains(net)) {
                let home = Home {
                    announced: true,
                    connected_since: None,
                    wanted_at: now,
                    has_other: false,
                    due: Some(now),
                };
                self.homes.insert(peer.name.to_string(), home);
            }
        }
    }

    /// Takes the peers' current state. Returns whether the announced homes have changed.
    pub fn follow(&mut self, peers: &[PeerStatus], now: Instant) -> bool {
        let known: BTreeSet<&str> = peers.iter().map(|peer| peer.name.as_str()).collect();
        let before = self.homes.len();
        self.homes.retain(|name, _| known.contains(name.as_str()));
        let mut changed = self.homes.len() != before;
        for peer in peers {
            let home = self.homes.entry(peer.name.clone()).or_insert(Home {
                announced: false,
                connected_since: None,
                wanted_at: now,
                has_other: false,
                due: None,
            });
            changed |= home.follow(peer, now);
        }
        changed
    }

    /// How long the announcements stay right without news; `None` for until there is some.
    pub fn wait(&self, now: Instant) -> Option<Duration> {
        let due = self.homes.values().filter_map(|home| home.due).min()?;
        Some(due.saturating_duration_since(now))
    }

    /// Whether the home of this name is announced.
    pub fn has(&self, name: &str) -> bool {
        self.homes.get(name).is_some_and(|home| home.announced)
    }

    /// The networks to announce.
    pub fn networks(&self, config: &Config) -> Vec<IpNet> {
        let names = self.homes.iter().filter(|(_, home)| home.announced).map(|(name, _)| name);
        let networks: BTreeSet<IpNet> = names.flat_map(|name| networks_of(config, name)).collect();
        networks.into_iter().collect()
    }
}

impl Home {
    fn follow(&mut self, peer: &PeerStatus, now: Instant) -> bool {
        self.connected_since = match peer.connected {
            true => Some(self.connected_since.unwrap_or(now)),
            false => None,
        };
        self.due = None;
        if let Some(since) = self.connected_since {
            let long = now.saturating_duration_since(since) >= SAYS_WITHIN;
            if !long && peer.served_here.is_none() {
                self.due = Some(since + SAYS_WITHIN);
            }
            if peer.served_here.is_some() || long {
                self.has_other = peer.served_here.is_some();
            }
            if peer.served_here.unwrap_or(long || self.announced) {
                self.wanted_at = now;
                return !std::mem::replace(&mut self.announced, true);
            }
        }
        let stays = match (peer.connected, self.has_other) {
            (true, _) => AFTER_LEAVING,
            (false, true) => AFTER_SILENCE,
            (false, false) => AFTER_SILENCE_OF_ONE,
        };
        let over_at = self.wanted_at + stays;
        if self.announced && now < over_at {
            self.due = Some(self.due.map_or(over_at, |due| due.min(over_at)));
        }
        now >= over_at && std::mem::replace(&mut self.announced, false)
    }
}

/// The addresses of a home: its own and its public prefixes.
fn networks_of(config: &Config, name: &str) -> Vec<IpNet> {
    let peer = config.peers.iter().find(|peer| peer.name.as_str() == name);
    let Some(peer) = peer.filter(|peer| peer.endpoints.is_empty()) else { return Vec::new() };
    let prefixes = config.routing.public_prefixes.iter();
    let public = prefixes.filter(|public| public.peer == peer.name).map(|public| public.prefix);
    let own = peer.allowed_ips.iter().copied().chain(public).map(|prefix| prefix.net().trunc());
    let mut networks: Vec<IpNet> = own.filter(|net| net.prefix_len() > 0).collect();
    networks.sort();
    networks.dedup();
    networks
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn home(connected: bool, served_here: Option<bool>) -> Vec<PeerStatus> {
        vec![PeerStatus { name: "home".into(), connected, served_here, ..PeerStatus::default() }]
    }

    fn config() -> Config {
        let text = "[interface]\nprivate_key_file = \"k\"\naddresses = [\"10.77.0.1/24\"]\n\
            listen = [\"0.0.0.0:51900\"]\n[routing]\nannounce_table = 5190\n\
            public_prefixes = [{ prefix = \"198.51.100.8/29\", peer = \"home\" }]\n[[peer]]\n\
            name = \"home\"\npublic_key = \"hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=\"\n\
            allowed_ips = [\"10.77.0.2\", \"0.0.0.0/0\"]\n";
        Config::parse(text, Path::new("c.toml")).unwrap()
    }

    #[test]
    fn a_home_is_announced_while_it_says_that_it_is_served_here_and_for_a_moment_longer() {
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let mut announcing = Announcing::default();
        assert!(!announcing.follow(&home(true, Some(false)), at(0)));
        assert!(!announcing.follow(&home(true, Some(false)), at(60_000)), "elsewhere");
        assert!(announcing.follow(&home(true, Some(true)), at(61_000)));
        let networks: Vec<IpNet> =
            ["10.77.0.2/32", "198.51.100.8/29"].map(|net| net.parse().unwrap()).into();
        assert_eq!(announcing.networks(&config()), networks);
        assert_eq!(announcing.wait(at(61_000)), None);
        assert!(!announcing.follow(&home(true, Some(false)), at(61_100)));
        assert_eq!(announcing.wait(at(61_100)), Some(Duration::from_millis(1900)));
        assert!(announcing.follow(&home(true, Some(false)), at(63_000)));
        assert!(announcing.networks(&config()).is_empty());
        // It is silent, and has another concentrator.
        assert!(announcing.follow(&home(true, Some(true)), at(70_000)));
        assert!(!announcing.follow(&home(false, None), at(70_100)));
        assert!(announcing.follow(&home(false, None), at(70_500)));
        // And gone from the config.
        announcing.follow(&home(true, Some(true)), at(80_000));
        assert!(announcing.follow(&[], at(80_000)) && !announcing.has("home"));
    }

    #[test]
    fn one_that_says_nothing_has_no_other_and_may_be_silent_for_longer() {
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let mut announcing = Announcing::default();
        assert!(!announcing.follow(&home(true, None), at(0)), "it may say something yet");
        assert_eq!(announcing.wait(at(0)), Some(SAYS_WITHIN));
        assert!(announcing.follow(&home(true, None), at(1000)));
        assert!(!announcing.follow(&home(false, None), at(6000)));
        assert!(announcing.has("home"));
        assert!(!announcing.follow(&home(true, None), at(6500)));
        assert!(!announcing.follow(&home(false, None), at(16_000)));
        assert!(announcing.follow(&home(false, None), at(17_000)));
    }

    #[test]
    fn a_program_that_goes_on_leaves_what_is_announced_until_homes_are_back() {
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let config = config();
        let mut announcing = Announcing::default();
        announcing.adopt(&config, &["10.77.0.2/32".parse().unwrap()], at(0));
        assert!(!announcing.has("home"), "that was another's");
        let found = ["10.77.0.2/32", "198.51.100.8/29"].map(|net| net.parse().unwrap());
        announcing.adopt(&config, &found, at(0));
        assert!(!announcing.follow(&home(false, None), at(500)) && announcing.has("home"));
        assert!(!announcing.follow(&home(true, None), at(600)) && announcing.has("home"));
        assert!(!announcing.follow(&home(true, Some(true)), at(650)) && announcing.has("home"));
    }
}
