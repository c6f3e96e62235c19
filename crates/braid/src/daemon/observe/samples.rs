//! Turns statuses into samples per second: what was carried since the last one.

use braid_control::status::{PathState, PathStatus, PeerStatus, Status};
use braid_history::{Sample, Series};
use std::collections::BTreeMap;

/// Remembers counters.
#[derive(Default)]
pub struct Sampler {
    peers: BTreeMap<String, Counted>,
    /// By peer and link.
    paths: BTreeMap<(String, String), Counted>,
}

/// Previous counters, and what they have grown by.
#[derive(Clone, Copy, Default)]
struct Counted {
    rx_bytes: u64,
    tx_bytes: u64,
    sent: u64,
    lost: u64,
}

impl Sampler {
    /// What the tunnel, its links and its peers carried since the last status.
    pub fn samples(&mut self, status: &Status) -> Vec<(Series, Sample)> {
        let mut links: BTreeMap<&str, Sample> =
            status.links.iter().map(|link| (link.name.as_str(), Sample::default())).collect();
        let mut samples = Vec::new();
        let mut tunnel = Sample::default();
        self.paths.retain(|(peer, _), _| status.peers.iter().any(|known| known.name == *peer));
        for peer in &status.peers {
            let counted =
                Counted { rx_bytes: peer.rx_bytes, tx_bytes: peer.tx_bytes, sent: 0, lost: 0 };
            let grown = grow(self.peers.entry(peer.name.clone()).or_default(), counted);
            let mut sample = Sample {
                up: peer.connected,
                rx_bytes: grown.rx_bytes,
                tx_bytes: grown.tx_bytes,
                ..Sample::default()
            };
            for (name, paths) in by_link(peer) {
                let key = (peer.name.clone(), name.to_owned());
                let grown = grow(self.paths.entry(key).or_default(), sum(&paths));
                sample.sent += grown.sent;
                sample.lost += grown.lost;
                let rtt =
                    paths.iter().filter(|path| carries(path)).filter_map(|path| rtt_us(path)).min();
                sample.rtt_us = lesser(sample.rtt_us, rtt);
                if let Some(link) = links.get_mut(name) {
                    link.up |= paths.iter().any(|path| works(path));
                    link.rx_bytes += grown.rx_bytes;
                    link.tx_bytes += grown.tx_bytes;
                    link.sent += grown.sent;
                    link.lost += grown.lost;
                    link.rtt_us = lesser(link.rtt_us, rtt);
                }
            }
            tunnel.up |= sample.up;
            tunnel.rx_bytes += sample.rx_bytes;
            tunnel.tx_bytes += sample.tx_bytes;
            tunnel.sent += sample.sent;
            tunnel.lost += sample.lost;
            tunnel.rtt_us = lesser(tunnel.rtt_us, sample.rtt_us);
            samples.push((Series::Peer(peer.name.clone()), sample));
        }
        let links = links.into_iter().map(|(name, sample)| (Series::Link(name.to_owned()), sample));
        samples.extend(links);
        samples.push((Series::Tunnel, tunnel));
        samples
    }
}

/// Whether it could carry data if needed.
pub fn works(path: &PathStatus) -> bool {
    matches!(path.state, PathState::Active | PathState::Standby | PathState::OverQuota)
}

fn carries(path: &PathStatus) -> bool {
    path.state != PathState::Down
}

fn by_link(peer: &PeerStatus) -> BTreeMap<&str, Vec<&PathStatus>> {
    let mut links: BTreeMap<&str, Vec<&PathStatus>> = BTreeMap::new();
    for path in &peer.paths {
        links.entry(&path.link).or_default().push(path);
    }
    links
}

fn sum(paths: &[&PathStatus]) -> Counted {
    let of = |count: fn(&PathStatus) -> u64| paths.iter().map(|path| count(path)).sum();
    Counted {
        rx_bytes: of(|path| path.rx_bytes),
        tx_bytes: of(|path| path.tx_bytes),
        sent: of(|path| path.tx_packets),
        lost: of(|path| path.lost_packets),
    }
}

/// How much the counters have grown. A path that is away for a moment returns with its counters, or
/// restarts at 0: neither must count past traffic again.
fn grow(known: &mut Counted, now: Counted) -> Counted {
    let is_away = now.rx_bytes == 0 && now.tx_bytes == 0;
    let begins_anew = now.rx_bytes < known.rx_bytes || now.tx_bytes < known.tx_bytes;
    let grown = Counted {
        rx_bytes: now.rx_bytes.saturating_sub(known.rx_bytes),
        tx_bytes: now.tx_bytes.saturating_sub(known.tx_bytes),
        sent: now.sent.saturating_sub(known.sent),
        lost: now.lost.saturating_sub(known.lost),
    };
    match (is_away, begins_anew) {
        (true, _) => Counted::default(),
        (false, true) => {
            *known = now;
            Counted::default()
        }
        (false, false) => {
            *known = now;
            grown
        }
    }
}

fn rtt_us(path: &PathStatus) -> Option<u32> {
    path.srtt_ms.map(|ms| (ms * 1e3).clamp(0.0, f64::from(u32::MAX)) as u32)
}

fn lesser(a: Option<u32>, b: Option<u32>) -> Option<u32> {
    [a, b].into_iter().flatten().min()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{path, status};
    use super::*;

    fn of(samples: &[(Series, Sample)], series: &str) -> Sample {
        let series: Series = series.parse().unwrap();
        samples.iter().find(|(known, _)| *known == series).unwrap().1
    }

    #[test]
    fn a_links_paths_are_added_up_and_only_what_is_new_counts() {
        let mut sampler = Sampler::default();
        let mut status = status(&["dsl", "lte"]);
        let peer = &mut status.peers[0];
        peer.paths = vec![path("dsl", 100), path("dsl", 50), path("lte", 7)];
        let first = sampler.samples(&status);
        assert_eq!(of(&first, "link/dsl").rx_bytes, 150);
        status.peers[0].paths[1].rx_bytes = 80;
        status.peers[0].paths[1].srtt_ms = Some(12.5);
        let second = sampler.samples(&status);
        let dsl = of(&second, "link/dsl");
        assert_eq!((dsl.rx_bytes, dsl.rtt_us, dsl.up), (30, Some(12_500), true));
        assert_eq!(of(&second, "link/lte").rx_bytes, 0);
    }

    #[test]
    fn a_link_that_comes_back_brings_no_traffic_of_the_past() {
        let mut sampler = Sampler::default();
        let mut status = status(&["dsl"]);
        status.peers[0].paths = vec![path("dsl", 1000)];
        sampler.samples(&status);
        status.peers[0].paths = vec![];
        assert_eq!(of(&sampler.samples(&status), "link/dsl"), Sample::default());
        status.peers[0].paths = vec![path("dsl", 1010)];
        assert_eq!(of(&sampler.samples(&status), "link/dsl").rx_bytes, 10);
        // It begins anew.
        status.peers[0].paths = vec![path("dsl", 5)];
        assert_eq!(of(&sampler.samples(&status), "link/dsl").rx_bytes, 0);
        status.peers[0].paths = vec![path("dsl", 8)];
        assert_eq!(of(&sampler.samples(&status), "link/dsl").rx_bytes, 3);
    }
}
