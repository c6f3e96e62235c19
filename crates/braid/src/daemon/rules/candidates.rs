//! Which links direct connections can take, judged by the tunnel's paths.

use braid_control::config::{Config, Link};
use braid_control::status::{PathState, PeerStatus};
use braid_rules::Candidate;

/// The config's links; `is_usable` states whether a link has a device and an address.
pub fn candidates(
    config: &Config,
    peers: &[PeerStatus],
    is_usable: impl Fn(&Link) -> bool,
) -> Vec<Candidate> {
    let found = config.links.iter().map(|link| Candidate {
        link: link.name.to_string(),
        works: is_usable(link) && !is_silent(link.name.as_str(), peers),
    });
    found.collect()
}

/// Whether the tunnel's probes get no answer over this link, but do over another: so it's not the
/// concentrator.
fn is_silent(link: &str, peers: &[PeerStatus]) -> bool {
    let paths = || peers.iter().flat_map(|peer| &peer.paths);
    let answers = paths().any(|path| {
        let lives = [PathState::Active, PathState::Standby, PathState::OverQuota];
        path.link != link && lives.contains(&path.state)
    });
    let own = || paths().filter(|path| path.link == link);
    answers && own().count() > 0 && own().all(|path| path.state == PathState::Down)
}

#[cfg(test)]
mod tests {
    use super::*;
    use braid_control::status::PathStatus;

    #[test]
    fn a_link_is_silent_when_others_are_not() {
        let peer = |states: &[(&str, PathState)]| PeerStatus {
            paths: states
                .iter()
                .map(|(link, state)| PathStatus {
                    link: (*link).into(),
                    state: *state,
                    ..PathStatus::default()
                })
                .collect(),
            ..PeerStatus::default()
        };
        let dsl = |states: &[(&str, PathState)]| is_silent("dsl", &[peer(states)]);
        use PathState::{Active, Down, Probing, Suspect};
        assert!(dsl(&[("dsl", Down), ("lte", Active)]));
        assert!(!dsl(&[("dsl", Down), ("lte", Down)]), "the concentrator may be gone");
        assert!(!dsl(&[("dsl", Suspect), ("lte", Active)]));
        assert!(!dsl(&[("dsl", Probing), ("lte", Active)]), "it has only begun");
        assert!(!dsl(&[("dsl", Down), ("dsl", Active), ("lte", Active)]));
        assert!(!dsl(&[("lte", Active)]), "nobody has looked");
    }
}
